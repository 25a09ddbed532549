"""What may be published about a run: a paper, a model card, a data sheet or a registry takes it as text.

Plain data and words: nothing here computes a guarantee. Every sentence must be true for every mechanism.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Protocol

__all__ = ["FALSE_ALARMS", "Certificate", "Statement", "as_decimal", "rounded_down", "rounded_up"]

# The share of false alarms at which an attacker is described.
FALSE_ALARMS = 0.01
DIGITS = 5
NEIGHBOURS = {
    ("add-remove", False): "data sets that differ by one record, present in one and absent from the other",
    ("add-remove", True): "data sets that differ by {group_size} records, present in one and absent from the other",
    ("replace-one", False): "data sets of the same size that differ in one record",
    ("replace-one", True): "data sets of the same size that differ in {group_size} records",
    ("zero-out", False): "data sets of the same size, in one of which one record is empty and adds nothing",
    ("zero-out", True): "data sets of the same size, in one of which {group_size} records are empty and add nothing",
}
OWN_NEIGHBOURS = "the data sets that were taken for neighbours when each release was bounded"
SAMPLINGS = {
    "poisson": "In every round that was sampled at a rate each record entered the batch with the stated probability, "
    "independently of all other records and of other rounds; batches were neither shuffled nor of a fixed size.",
    "truncated": "In every round of a largest batch each record was drawn with the stated probability, independently "
    "of all other records and of other rounds; of more than fit, a uniformly random choice of that size was kept.",
    "fixed-size": "Every round of a fixed size drew a batch of the stated size, uniformly and without replacement, "
    "independently of other rounds.",
    "shuffled": "Every shuffled epoch went through all records once, in a random order that was drawn anew.",
    "allocation": "Each record joined random steps of every epoch as stated, independently of the other records and of "
    "other epochs; a draw was used again only where repeats are stated.",
}
SECRET = "Which records a batch held, and how many where that is random, was kept secret."
METHODS = {
    "optimal": "the optimal conversion (Asoodeh et al. 2020)",
    "closed-form": "the closed form of Asoodeh et al. (2020)",
    "balle": "the conversion of Balle et al. (2020)",
    "moments": "the conversion of the moments accountant (Abadi et al. 2016)",
}
ALWAYS_ASSUMED = (
    "The releases were made as described, with noise from a sound source of randomness.",
    "Rounds and parameters were chosen without looking at the data; a round may use what earlier rounds released.",
    "Nothing else about the data was published, such as the results of tuning.",
)
CLIPPED = (
    "In no round does a record move what noise is added to by more than the sensitivity that the noise multiplier "
    "refers to; for DP-SGD, gradients were clipped one record at a time."
)
SHIFTED = (
    "Where shifts are stated, a record moves what noise is added to by at most one of them in a round, drawn with the "
    "stated probabilities, independently of the data and of other rounds, and kept secret."
)
KEPT = "A round that is described by a guarantee, or by a pair of laws, is no easier to see through than that."
SAME_NEIGHBOURS = "Parts that sample no records were bounded for the same neighbours."
LATEX = {
    **{letter: f"\\{letter}" for letter in "{}_&%$#"},
    "\\": "\\textbackslash{}",
    "^": "\\textasciicircum{}",
    "~": "\\textasciitilde{}",
    "ε": "$\\varepsilon$",
    "δ": "$\\delta$",
    "μ": "$\\mu$",
    "×": "$\\times$",
    "é": "\\'e",
    "…": "\\ldots{}",
}


class Certificate(Protocol):
    """A claim that was proven, such as `dprounds.certificates.Claim`."""

    @property
    def sha256(self) -> str:
        """Of the certificate's text."""

    @property
    def delta(self) -> float:
        """The delta that is claimed, as the nearest double."""

    @property
    def claimed(self) -> Mapping[str, Any]:
        """The numbers that are claimed, as text."""

    def is_about(self, release: object) -> bool:
        """Whether the claim is one of (ε, δ) about this run."""


def _rounded(value: float, digits: int, side: str) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    near = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=side).normalize()
    return f"{near:f}" if -5 <= near.adjusted() < 9 else f"{near:e}".lower()


def rounded_up(value: float, digits: int = DIGITS) -> str:
    """A number of so many digits that is not below `value`, as text.

    Examples
    --------
    >>> rounded_up(2.38151), rounded_up(0.1), rounded_up(1.23456789e-9)
    ('2.3816', '0.1', '1.2346e-9')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = DIGITS) -> str:
    """A number of so many digits that is not above `value`, as text."""
    return _rounded(value, digits, ROUND_FLOOR)


def as_decimal(claimed: str) -> str:
    """A number of a certificate as a decimal; a fraction, which a certificate may hold, is rounded up.

    Examples
    --------
    >>> as_decimal("1e-05"), as_decimal("1/3")
    ('1e-05', '0.33334')
    """
    numerator, _, denominator = claimed.partition("/")
    if not denominator:
        return claimed
    near = Context(prec=DIGITS, rounding=ROUND_CEILING).divide(Decimal(numerator), Decimal(denominator))
    return str(near).lower()


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What may be said of a run, its numbers rounded to the side on which it stays true.

    ``str(statement)`` is plain text; `markdown`, `latex` and `json` say the same.

    Parameters
    ----------
    releases
        The parts of the run: rounds, and the call that makes the mechanism.
    epsilon, delta
        The guarantee as decimals, epsilon rounded up.
    relation, sampling, group_size
        Which data sets are neighbours, how batches were drawn, and how many records are protected together.
    detected
        What an attacker with 1 % false alarms detects at most, in percent, rounded up.
    mu, mu_delta
        The two normal laws that bound the run at every epsilon, if some are known.
    method, order, lower
        How it was accounted, the Rényi order if there is one, and an epsilon below which the truth is not.
    has_noise, has_shifts, has_guarantees
        Whether a part adds noise in units of a sensitivity, whether one states how far a record moves it with which
        probability, and whether one is known by its guarantee alone.
    version, certificate
        Of dprounds; and the SHA-256 of the certificate, if there is one.
    """

    releases: tuple[str, ...]
    epsilon: str
    delta: str
    relation: str | None
    sampling: str | None
    group_size: int
    detected: str
    mu: str | None
    mu_delta: str | None
    method: str
    order: str | None
    lower: str
    has_noise: bool
    has_shifts: bool
    has_guarantees: bool
    is_partly_related: bool
    version: str
    certificate: str | None

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the guarantee rests on and nobody here has checked."""
        ways = [way for way in (self.sampling or "").split(", ") if way]
        return (
            *([CLIPPED] if self.has_noise else []),
            *([SHIFTED] if self.has_shifts else []),
            *([KEPT] if self.has_guarantees else []),
            *(SAMPLINGS.get(way, f"Batches were drawn as stated, by {way}.") for way in ways),
            *([SECRET] if ways else []),
            *([SAME_NEIGHBOURS] if self.is_partly_related else []),
            *ALWAYS_ASSUMED,
        )

    @property
    def clauses(self) -> dict[str, str]:
        """Each sentence under its title."""
        found = {
            "Release": "; ".join(self.releases) + ".",
            "Guarantee": f"(ε, δ)-differential privacy with ε = {self.epsilon} and δ = {self.delta}.",
            "Neighbours": f"It holds between {self._neighbours}.",
            "Attacker": "A test between two such data sets that gives a false alarm with probability "
            f"{FALSE_ALARMS * 100:g} % detects the other one with probability at most {self.detected} %.",
        }
        if self.mu is not None:
            but = "" if self.mu_delta == "0" else f", but for an event of probability {self.mu_delta}"
            found["Gaussian"] = (
                f"They are no easier to tell apart than N(0, 1) and N(μ, 1) with μ = {self.mu}{but}. "
                "This holds at every ε."
            )
        found["Accounting"] = self._accounting
        found["Assumed, not checked"] = " ".join(self.assumed)
        found["Software"] = f"dprounds {self.version}."
        found["Certificate"] = "None. All numbers here were computed in floating point."
        if self.certificate is not None:
            found["Certificate"] = (
                f"SHA-256 {self.certificate}; dprounds verify checks it. It proves ε and δ; all other numbers here "
                "were computed in floating point."
            )
        return found

    @property
    def _neighbours(self) -> str:
        known = NEIGHBOURS.get((self.relation or "", self.group_size > 1), OWN_NEIGHBOURS)
        return known.format(group_size=self.group_size)

    @property
    def _accounting(self) -> str:
        rest = "" if self.lower == "0" else f" For the worst mechanism of this description ε is not below {self.lower}."
        proven = "" if self.certificate is None else " The guarantee is proven in ball arithmetic."
        if self.method == "exact":
            return f"The privacy losses of all rounds together, with a bound of the error.{proven}{rest}"
        if self.method == "bound":
            return f"An upper bound on the privacy losses of all rounds together.{proven}{rest}"
        by = METHODS.get(self.method, self.method)
        order = "" if self.order is None else f" of order {self.order}"
        return f"Rényi differential privacy{order}, by {by}.{proven}{rest}"

    def __str__(self) -> str:
        return "\n".join(f"{title}: {sentence}" for title, sentence in self.clauses.items())

    def markdown(self) -> str:
        """The statement as a list in Markdown."""
        return "\n".join(f"- **{title}**: {_markdown(sentence)}" for title, sentence in self.clauses.items())

    def latex(self) -> str:
        """The statement as a description list in LaTeX, in ASCII."""
        items = [f"  \\item[{_latex(title)}] {_latex(sentence)}" for title, sentence in self.clauses.items()]
        return "\n".join(["\\begin{description}", *items, "\\end{description}"])

    def json(self) -> str:
        """Every field, the sentences and what was assumed, as JSON."""
        fields = {**asdict(self), "clauses": self.clauses, "assumed": self.assumed}
        return json.dumps(fields, ensure_ascii=False, indent=2)


def _markdown(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>" else letter for letter in text)


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter if letter.isascii() else "?") for letter in text)
