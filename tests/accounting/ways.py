"""Profiles of a run that take one way only, whatever the run itself would choose.

A law that does not tell its closed form, its cells or its ceiling leaves no other way than the one under test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dprounds.accounting.law import MOST_NODES, Composition, LossLaw
from dprounds.accounting.profile import Profile
from dprounds.mechanisms import Run


def line_law(run: Run, direction: str = "remove", *, on_own_lattice: bool = True) -> Composition:
    """One direction, of which a line of the law itself is the only way; as long a line as it takes.

    If not `on_own_lattice`, losses on a lattice of their own count as any others, so that the sum must be smoothed.
    """

    def changed(law: LossLaw) -> LossLaw:
        law = replace(
            law, excess=None, summed=None, normal_distance=None, cells=None, turnable=None, most_nodes=MOST_NODES
        )
        return law if on_own_lattice or law.lattice is None else replace(law, lattice=None, ceiling=None)

    return _changed(run, direction, changed)


def lattice_law(run: Run, direction: str = "remove") -> Composition:
    """One direction, of which lattices that bound the law are the only way."""
    return _changed(
        run,
        direction,
        lambda law: replace(
            law, excess=None, summed=None, normal_distance=None, ceiling=None, turnable=None, lattice=None, most_nodes=0
        ),
    )


def _changed(run: Run, direction: str, change: Callable[[LossLaw], LossLaw]) -> Composition:
    return Composition(tuple((change(law), rounds) for law, rounds in run.laws[direction].parts))


def by_line(run: Run, *directions: str, on_own_lattice: bool = True) -> Profile:
    """The profile in some directions, all by default, by lines of the law itself."""
    return Profile({one: line_law(run, one, on_own_lattice=on_own_lattice) for one in directions or run.directions})


def by_lattice(run: Run, *directions: str) -> Profile:
    """The profile in some directions, all by default, by lattices that bound the law."""
    return Profile({one: lattice_law(run, one) for one in directions or run.directions})
