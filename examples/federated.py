"""Federated training with clients as the unit: ε is for adding or removing one client with all of its records.

    python examples/federated.py                      # some seconds
    python examples/federated.py --folder training    # killed and started again, it goes on where it was

A plain loop in NumPy. Each round draws every client by itself; a client improves the model on its own records, and the
server clips its update, sums, adds noise once, and divides by a public number of clients. The data are made up.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dprounds import Accountant, Gaussian, PoissonSampled, min_noise_multiplier
from dprounds.integrations.training import affordable_rounds

Array = NDArray[np.float64]

# About as many clients take part: a public number, not counted from the clients that there are.
PUBLIC_CLIENTS = 2_000
RATE = 0.05  # the probability of each client to be drawn in a round: about a hundred of them
ROUNDS = 200
EPSILON, DELTA = 2.0, 1e-5
CLIP_NORM = 0.5
LOCAL_STEPS, LEARNING_RATE = 5, 0.5
FEATURES = 5
TRUE_WEIGHTS = np.array([1.5, -1.0, 0.5, 0.0, 0.0, 0.3])  # what a client's records follow, and one number for all


class Client:
    """One person's records: from 5 to 50 of them, which never leave the client."""

    def __init__(self, world: np.random.Generator) -> None:
        count = int(world.integers(5, 51))
        self.records = np.column_stack([world.normal(size=(count, FEATURES)), np.ones(count)])
        weights = TRUE_WEIGHTS + 0.3 * world.normal(size=FEATURES + 1)  # everybody is a little different
        self.labels = world.random(count) < 1.0 / (1.0 + np.exp(-self.records @ weights))

    def update(self, model: Array) -> Array:
        """How a few steps of gradient descent on all of its records move the model."""
        moved = model.copy()
        for _ in range(LOCAL_STEPS):
            chance = 1.0 / (1.0 + np.exp(-self.records @ moved))
            moved -= LEARNING_RATE * self.records.T @ (chance - self.labels) / len(self.labels)
        return moved - model

    def accuracy(self, model: Array) -> float:
        """The share of its labels that the model has right."""
        return float(np.mean((self.records @ model > 0) == self.labels))


def clipped(update: Array, norm: float) -> Array:
    """The update, shortened to at most `norm`; one that is not finite counts as none."""
    length = float(np.linalg.norm(update))
    if not np.isfinite(length):
        return np.zeros_like(update)
    return update * min(1.0, norm / length) if length else update


def noisy_mean(updates: Iterable[Array], shape: tuple[int, ...], noise: float, random: np.random.Generator) -> Array:
    """The sum of clipped updates with noise, over the public number of clients that are expected in a round."""
    total = np.zeros(shape)
    for update in updates:  # all with the same weight, however many records a client has
        total += clipped(update, CLIP_NORM)
    return (total + random.normal(scale=noise * CLIP_NORM, size=shape)) / (RATE * PUBLIC_CLIENTS)


def save(model: Array, path: Path) -> None:
    """Replace the file at once: a kill leaves the old model or the new one."""
    new = path.with_suffix(".new.npy")
    np.save(new, model)
    os.replace(new, path)


def train(clients: list[Client], folder: Path, *, epsilon: float, delta: float) -> tuple[Array, float]:
    """The model after the last round that the budget allows, and the noise; what is spent stands in `folder`."""
    noise = min_noise_multiplier(
        lambda sigma: PoissonSampled(Gaussian(sigma), RATE) * ROUNDS, epsilon=epsilon, delta=delta
    )
    step = PoissonSampled(Gaussian(noise), RATE)
    saved = folder / "model.npy"
    model = np.load(saved) if saved.exists() else np.zeros(FEATURES + 1)
    # Who is drawn, and the noise: from the system, and never restored. Noise that is drawn twice is no noise.
    random = np.random.default_rng()
    # each number is in the file before its round is made
    for number in affordable_rounds(folder / "spent.json", step, epsilon=epsilon, delta=delta, reserve=10):
        drawn = np.flatnonzero(random.random(len(clients)) < RATE)
        model = model + noisy_mean((clients[i].update(model) for i in drawn), model.shape, noise, random)
        save(model, saved)
        print(f"round {number + 1}", flush=True)
    return model, noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to keep the model and what is spent, and to go on from")
    parser.add_argument("--epsilon", type=float, default=EPSILON, help="budget")
    parser.add_argument("--delta", type=float, default=DELTA, help="failure mass of the budget")
    arguments = parser.parse_args()
    world = np.random.default_rng(1)
    clients = [Client(world) for _ in range(1_957)]
    others = [Client(world) for _ in range(300)]  # who take no part: what is said of them is no part of the guarantee
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        model, noise = train(clients, folder, epsilon=arguments.epsilon, delta=arguments.delta)
        spent = Accountant.from_json((folder / "spent.json").read_text())
        print(f"noise multiplier {noise:.4f}, clients drawn with probability {RATE:g}, {spent.run.rounds} rounds")
        print(f"spent: ε = {spent.epsilon(delta=arguments.delta):.4f} at δ = {arguments.delta:g} for one client")
    for name, weights in (("this model", model), ("the weights that made the data", TRUE_WEIGHTS)):
        right = np.mean([other.accuracy(weights) for other in others])
        print(f"right at clients that took no part: {100 * right:.1f} % by {name}")


if __name__ == "__main__":
    main()
