"""What the pitfalls say in words: the two numbers that no example there computes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dprounds import ApproximateDP, Gaussian

TEXT = (Path(__file__).resolve().parent.parent / "docs/pitfalls.md").read_text()


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of a shift by mu deviations, in closed form."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def test_a_choice_after_looking_doubles_delta() -> None:
    """A Gaussian; then, where its loss is below a threshold, a small chance of revealing all, and else a Gaussian."""
    epsilon, delta, share, threshold = 3.0, 1e-6, 0.53936, 1.4317
    whole = float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 0.1, 2.0)) * (1 - 1e-9)
    rest = math.sqrt(whole**2 - share**2)
    reveal = (delta - gaussian_delta(share, epsilon)) * (1 - 1e-9)
    # both histories are within the budget by the exact account
    for history in (Gaussian(1 / share) + Gaussian(1 / rest), Gaussian(1 / share) + ApproximateDP(0.0, reveal)):
        assert history.delta(epsilon=epsilon) <= delta
    loss = np.linspace(-12.0, 12.0, 400_001) * share + share**2 / 2  # of the first, under the data set with the record
    weight = np.exp(-((loss - share**2 / 2) ** 2) / (2 * share**2))
    weight /= weight.sum()
    gained = np.clip(1 - np.exp(epsilon - loss), 0.0, None)
    revealed = reveal + (1 - reveal) * gained
    left = epsilon - loss
    more = ndtr(rest / 2 - left / rest) - np.exp(left) * ndtr(-rest / 2 - left / rest)
    true_delta = float(weight @ np.where(loss < threshold, revealed, more))
    assert 1.97e-6 < true_delta < 1.99e-6
    assert "at (3, 10⁻⁶) a choice between more Gaussian noise and a small chance of revealing all doubles δ" in TEXT


def test_stopping_at_the_worst_of_sixty_epochs_multiplies_delta_by_nine() -> None:
    """The best stopping rule against the epsilon of the rounds made, by dynamic programming over the loss so far."""
    epochs, mu, delta = 60, 0.59, 1e-5
    quoted = []
    for n in range(1, epochs + 1):
        part = mu * math.sqrt(n / epochs)
        quoted.append(float(brentq(lambda e, part=part: gaussian_delta(part, e) - delta, 0.0, 10.0)))
    spread = mu / math.sqrt(epochs)
    loss = np.arange(-3.0, 5.0, spread / 12)
    step = np.arange(-8 * 12, 8 * 12 + 1) * spread / 12
    kernel = np.exp(-((step - spread**2 / 2) ** 2) / (2 * spread**2))
    kernel /= kernel.sum()
    value = np.clip(1 - np.exp(quoted[-1] - loss), 0.0, None)
    for epsilon in reversed(quoted[:-1]):
        ahead = np.convolve(np.pad(value, len(step) // 2, mode="edge"), kernel[::-1], mode="valid")
        value = np.maximum(ahead, np.clip(1 - np.exp(epsilon - loss), 0.0, None))
    first = float(np.interp(step, loss, value) @ kernel)  # the first epoch begins at a loss of zero
    assert 9.3e-5 < first < 9.5e-5
    assert (
        "Stop a run of Gaussian noise at the worst of 60 epochs, and the ε quoted for δ = 10⁻⁵ really holds with 9.4"
        in TEXT
    )
