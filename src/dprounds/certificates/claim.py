"""A claim with its evidence as JSON, the run that it is about, and its check."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from dprounds._validate import show
from dprounds.errors import CertificateError, ParameterError, UnsupportedError
from dprounds.mechanisms import (
    ApproximateDP,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    Release,
    Run,
)
from dprounds.mechanisms.base import REPLACE_ONE

__all__ = ["ALLOCATED", "Claim", "checked", "described", "require_limits", "verify"]

NEEDS_FLINT = "Certificates need python-flint. In a checkout of dprounds: pip install '.[certificates]'"
# How a certificate names the mechanisms that have no other parameters than their own numbers.
NAMES: Mapping[type[Mechanism], str] = {
    Gaussian: "gaussian",
    Laplace: "laplace",
    RandomizedResponse: "randomized-response",
    PureDP: "pure-dp",
    ApproximateDP: "approximate-dp",
}
# The checker allows no more.
LARGEST_NOISE, MOST_ROUNDS = 10**9, 10**15
SAMPLED, ALLOCATED = "poisson-sampled-gaussian", "allocated-gaussian"


def _checker() -> ModuleType:
    """The checker, which needs a library that nothing else here needs."""
    try:
        from dprounds.certificates import checker  # noqa: PLC0415  (python-flint is an extra)
    except ImportError:
        raise UnsupportedError(NEEDS_FLINT) from None
    return checker


@dataclass(frozen=True)
class Claim:
    """A claim with its evidence.

    Parameters
    ----------
    text
        The certificate as canonical JSON: what is saved, and what `sha256` is of.
    sentence
        What the check of it said.
    """

    text: str
    sentence: str

    @cached_property
    def claimed(self) -> Mapping[str, Any]:
        """What is claimed, its numbers as the exact text that was checked: ``claim.claimed["epsilon"]``."""
        found: Mapping[str, Any] = json.loads(self.text)["claim"]
        return found

    @property
    def epsilon(self) -> float:
        """The epsilon of the claim, as the nearest double."""
        return self._claimed("epsilon")

    @property
    def delta(self) -> float:
        """The delta of the claim, as the nearest double."""
        return self._claimed("delta")

    def _claimed(self, name: str) -> float:
        if name not in self.claimed:
            raise AttributeError(f"a claim of kind {self.claimed['kind']} has no {name}")
        text = self.claimed[name]
        return float(Fraction(text)) if "/" in text else float(text)

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the canonical text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def is_about(self, release: object) -> bool:
        """Whether the claim is one of (ε, δ) about this run: the same parts, rounds, numbers and neighbours."""
        if self.claimed["kind"] != "approximate-dp" or not isinstance(release, Release):
            return False
        try:
            _, about = described(release)
        except UnsupportedError:
            return False
        parts = [sorted(map(_canonical, found["run"])) for found in (about, self.claimed)]
        return parts[0] == parts[1] and about["relation"] == self.claimed["relation"]

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file."""
        Path(path).write_text(self.text, encoding="utf-8")


def _canonical(document: object) -> str:
    """JSON with sorted names and nothing that could be written in two ways."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False) + "\n"


def checked(claim: Mapping[str, Any], evidence: object) -> Claim:
    """The certificate of a claim; raises `CertificateError` where the evidence does not prove it."""
    checker = _checker()
    document = {"format": checker.FORMAT, "version": checker.VERSION, "claim": claim, "evidence": evidence}
    return _verified(_canonical(document).encode())


def _verified(data: bytes) -> Claim:
    checker = _checker()
    try:
        sentence = checker.check(data)
    except checker.RefusedError as refused:
        raise CertificateError(str(refused)) from None
    return Claim(_canonical(json.loads(data)), sentence)


def verify(path: str | Path) -> Claim:
    """The claim of a certificate, which has just been proven.

    Guarantee
    ---------
    Raises `CertificateError`, or what is claimed is true: every bound was computed again in ball arithmetic.

    Theorem
    -------
    docs/theory/certificates.md
    """
    checker = _checker()
    try:
        with Path(path).open("rb") as file:
            data = file.read(checker.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CertificateError(f"{str(path)[:200]} cannot be read: {reason}.") from None
    return _verified(data)


def _part(mechanism: Mechanism, rounds: int) -> dict[str, Any] | None:
    """A part as a certificate describes it; None where it costs nothing."""
    inner: Mechanism = mechanism
    found: dict[str, Any] = {}
    if isinstance(mechanism, PoissonSampled) and type(mechanism.mechanism) is Gaussian:
        inner = mechanism.mechanism
        found = {"mechanism": SAMPLED, "sampling_rate": repr(mechanism.sampling_rate)}
        others = {field.name for field in fields(mechanism)} - {"mechanism", "sampling_rate", "relation"}
        # such as groups, of which the checker knows nothing, or the pair of a record that is replaced
        if mechanism.relation == REPLACE_ONE or any(getattr(mechanism, name) != 1 for name in others):
            inner = mechanism
    if isinstance(mechanism, RandomAllocation) and type(mechanism.mechanism) is Gaussian:
        found = {"mechanism": ALLOCATED, "steps": mechanism.steps, "repeats": mechanism.repeats}
        others = {field.name for field in fields(mechanism)} - {"mechanism", "relation", *found}
        inner = mechanism if any(getattr(mechanism, name) != 1 for name in others) else mechanism.mechanism
    name = NAMES.get(type(inner))
    if name is None:
        raise UnsupportedError(
            f"No certificate covers {show(mechanism)}: it covers Gaussian, PoissonSampled(Gaussian), "
            "RandomAllocation(Gaussian) of one participation, Laplace, RandomizedResponse, PureDP and ApproximateDP, "
            "and runs of these."
        )
    values = {field.name: getattr(inner, field.name) for field in fields(cast(Any, inner))}  # all of `NAMES` have them
    if mechanism.max_loss() == 0 and not mechanism.infinite_mass:
        return None
    if not (values.get("noise_multiplier", 1.0) <= LARGEST_NOISE and rounds <= MOST_ROUNDS):
        raise UnsupportedError(
            f"No certificate covers {rounds:.6g} rounds of {show(mechanism)}: it covers noise multipliers up to "
            f"{LARGEST_NOISE:g} and up to {MOST_ROUNDS:g} rounds."
        )
    if values.get("delta") == 0:
        name, _ = "pure-dp", values.pop("delta")
    return {"mechanism": name, "rounds": rounds, **{key: repr(value) for key, value in values.items()}, **found}


def require_limits(about: Mapping[str, Any]) -> None:
    """Raise unless the checker takes the numbers of a run, before any evidence is looked for."""
    checker = _checker()
    try:
        checker._run(about)
    except checker.RefusedError as refused:
        raise UnsupportedError(f"No certificate covers this run: {refused}") from None


def described(release: Release) -> tuple[Run, dict[str, Any]]:
    """The run that is claimed about, and how a claim begins."""
    if not isinstance(release, Release):
        raise ParameterError(f"run must be a mechanism or a run, got {show(release)}.")
    parts = [(part, rounds, _part(part, rounds)) for part, rounds in release.as_run().parts]
    run = Run(tuple((part, rounds) for part, rounds, described in parts if described is not None))
    if not run.parts:
        raise UnsupportedError("This run releases nothing, so that there is nothing to certify.")
    return run, {"run": [described for *_, described in parts if described is not None], "relation": run.relation}
