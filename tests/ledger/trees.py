"""Adaptive interactions on small trees in exact fractions. Imports nothing of dprounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

F = Fraction
Job = tuple[tuple[Fraction, Fraction], ...]  # the masses (p, q) of each output
Fits = Callable[[Sequence[int]], bool]  # whether the jobs of a path, by number, are admitted


def bernoulli(p: Fraction, q: Fraction) -> Job:
    return (p, q), (1 - p, 1 - q)


def reveal(chance: Fraction) -> Job:
    return (chance, F(0)), (F(0), chance), (1 - chance, 1 - chance)


def turned(job: Job) -> Job:
    return tuple((q, p) for p, q in job)


def gain(pairs: Sequence[tuple[Fraction, Fraction]], factor: Fraction) -> Fraction:
    """The largest P(E) - factor Q(E)."""
    return sum((max(F(0), p - factor * q) for p, q in pairs), F(0))


def tree(job: Job, branches: Sequence[Job]) -> list[tuple[Fraction, Fraction]]:
    """A job, and for each of its outputs what follows."""
    return [(p * a, q * b) for (p, q), branch in zip(job, branches, strict=True) for a, b in branch]


def best_gain(jobs: Sequence[Job], factor: Fraction, fits: Fits, *, depth: int) -> Fraction:
    """The largest gain of any analyst who chooses each job by the outputs before it, among those that are admitted."""

    def best(p: Fraction, q: Fraction, path: tuple[int, ...]) -> Fraction:
        found = max(F(0), p - factor * q)  # to stop here
        if len(path) == depth:
            return found
        for number, job in enumerate(jobs):
            longer = (*path, number)
            if fits(longer):
                found = max(found, sum((best(p * a, q * b, longer) for a, b in job if a or b), F(0)))
        return found

    return best(F(1), F(1), ())
