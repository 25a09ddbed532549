"""What carries the proof, set to zero one by one: for each of them a test must fail.

`python -m tests.mutants` runs the nearest tests with each mutant and prints which test killed it. The process that runs
the tests gets the mutant by an environment variable and this module as a plugin of pytest; no file is edited.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

VARIABLE = "DPROUNDS_MUTANT"

BUDGET = ("tests/accounting/test_error_budget.py",)
CELLS = ("tests/accounting/test_cells.py",)
TERMS = ("tests/accounting/test_error_terms.py",)
ALLOCATION = ("tests/numerics/test_lognormal_mean.py",)
WINDOW = ("tests/numerics/test_lognormal_window.py",)
LIMITED = ("tests/numerics/test_lognormal_limited.py",)
LARGE_VALUES = (
    "tests/mechanisms/test_random_allocation.py::test_one_large_value_is_that_of_a_laplace_inversion",
    "tests/mechanisms/test_random_allocation.py::test_what_no_event_has_counts_from_above_alone",
)
ROUNDS = ("tests/mechanisms/test_rounds_in_closed_form.py",)
MATRICES = ("tests/mechanisms/test_correlated_noise.py",)
FIXED_SIZE = ("tests/mechanisms/test_fixed_size_sampled.py",)
LOADERS = ("tests/mechanisms/test_error_terms_of_loaders.py",)
WATCHED = ("tests/accounting/test_watched_line.py",)
MODULUS = ("tests/numerics/test_modulus.py",)
SAMPLED_LAPLACE = ("tests/mechanisms/test_sampled_laplace_decay.py",)
INTEGRALS = ("tests/accounting/test_integrated.py",)
INTEGRAL_TERMS = ("tests/accounting/test_integral_terms.py",)
ORDERS = ("tests/mechanisms/test_integrated_order.py",)
CHECKER = (
    "tests/certificates/test_error_terms.py",
    "tests/certificates/test_allocation.py",
    "tests/certificates/test_bounds.py",
    "tests/certificates/test_lattice.py",
)


@dataclass(frozen=True)
class Mutant:
    """A change of loaded modules, and the tests that are nearest to it."""

    apply: Callable[[], None]
    tests: tuple[str, ...]
    replaces: str | None = None  # a text of the checker


def of_levels(test: str) -> tuple[str, ...]:
    """One of the tests of levels, which take long."""
    return (f"tests/accounting/test_levels.py::{test}",)


def change(owner: Any, name: str, value: object) -> None:
    """Gives a module or a class another value of a name that it has."""
    if not hasattr(owner, name):
        raise SystemExit(f"{owner} has no {name}: say in tests/mutants.py what became of it.")
    setattr(owner, name, value)


def zero(name: str, *modules: str, value: object = 0.0) -> Callable[[], None]:
    """Sets a constant to zero in every module that has it, or a limit to what no longer limits."""

    def apply() -> None:
        for module in modules:
            loaded = importlib.import_module(f"dprounds.{module}")
            change(loaded, name, value)

    return apply


def field_of_line(name: str, value: object) -> Callable[[], None]:
    """Every line forgets what it was told by one of its fields."""

    def apply() -> None:
        from dprounds.accounting.line import Line

        if name not in Line.__dataclass_fields__:
            raise SystemExit(f"Line has no {name}: say in tests/mutants.py what became of it.")
        made = Line.__post_init__

        def forgetful(line: Line) -> None:
            made(line)
            object.__setattr__(line, name, value)

        change(Line, "__post_init__", forgetful)

    return apply


def no_blur() -> None:
    """Every line takes its lattice for exact."""
    from dprounds.accounting.line import Line

    made = Line.__post_init__

    def forgetful(line: Line) -> None:
        made(line)
        if line.lattice is not None:
            object.__setattr__(line, "lattice", line.lattice._replace(blur=0.0))

    change(Line, "__post_init__", forgetful)


def no_alias(is_below: bool) -> Callable[[], None]:
    """Aliases of one side are nothing."""

    def apply() -> None:
        from dataclasses import replace

        from dprounds.accounting.line import Line

        alias: Callable[..., Any] = Line._alias

        def one_sided(line: Line, *given: Any) -> Any:
            forgotten = line.sides < line.t if is_below else line.sides > line.t
            return alias(replace(line, side_values=np.where(forgotten, -1e300, line.side_values)), *given)

        change(Line, "_alias", one_sided)

    return apply


def no_term_of_allocation(name: str) -> Callable[[], None]:
    """A bound on what a sum over a ray leaves out, or adds, is nothing."""

    def apply() -> None:
        from dprounds.numerics.lognormal_mean import LognormalMean

        bound: Callable[..., Any] = getattr(LognormalMean, name)
        change(LognormalMean, name, lambda *given: bound(*given) - 1e300)

    return apply


def no_error_of_averages() -> None:
    """Averages of one value are exact."""
    from dprounds.numerics.lognormal_mean import LognormalMean

    average: Callable[..., Any] = LognormalMean._average
    change(LognormalMean, "_average", lambda *given: average(*given)._replace(log_error=-1e300))


def no_term_of_window(name: str) -> Callable[[], None]:
    """A bound on what a window, or its polynomial, leaves out is nothing."""

    def apply() -> None:
        from dprounds.numerics.lognormal_window import Tilted

        change(Tilted, name, lambda *_: 0.0)

    return apply


def no_error_of_values() -> None:
    """Averages of one value in a window are exact."""
    from dprounds.numerics.lognormal_window import LognormalWindow

    average: Callable[..., Any] = LognormalWindow.average_for

    def exact(*given: Any) -> Any:
        found = average(*given)
        return found._replace(errors=0.0 * found.errors)

    change(LognormalWindow, "average_for", exact)


def no_rounding_of_allocation() -> None:
    """No operation on a ray rounds."""
    for name in ("TERM_UNITS", "WEIGHT_UNITS", "EXPONENT_UNITS", "STEP_UNITS", "BETWEEN"):
        zero(name, "numerics.lognormal_powers", value=1e-9)()
    for name in ("TERM_UNITS", "GAMMA_UNITS", "EXPONENT_UNITS"):
        zero(name, "numerics.lognormal_rays", value=1e-9)()


def no_stated_errors() -> None:
    """What laws say of the errors of their moments is forgotten."""
    from dprounds.accounting.law import Composition

    change(Composition, "moment_error", lambda _, z: np.zeros(z.shape))


def no_truncation(on_lattice: bool) -> Callable[[], None]:
    """What is beyond the last node is nothing, on lattices or elsewhere."""

    def apply() -> None:
        from dprounds.accounting.line import Line

        truncation: Callable[..., Any] = Line._truncation

        def partly(line: Line, log_scale: Any, epsilon: Any) -> Any:
            forgotten = (line.lattice is not None) == on_lattice
            return np.zeros_like(log_scale) if forgotten else truncation(line, log_scale, epsilon)

        change(Line, "_truncation", partly)

    return apply


def no_smoothing() -> None:
    """A virtual Gaussian raises nothing."""
    from dprounds.accounting.line import Line

    change(Line, "_smoothing", lambda line, epsilon, *_: np.zeros_like(epsilon))


def no_kernel_norm() -> None:
    """An error in the Euclidean norm adds nothing."""
    from dprounds.accounting.line import Line

    change(Line, "_kernel_norm", 0.0)


def nothing_beyond() -> None:
    """The spectrum is nothing beyond the lowest frequencies."""
    from dprounds.accounting import lattice

    change(lattice, "_log_largest_beyond", lambda *_: -1e3)


def nothing_left_out() -> None:
    """The frequencies that a transform leaves out are nothing."""
    from dprounds.accounting import lattice

    make: Callable[..., Any] = lattice._all_frequencies
    change(lattice, "_all_frequencies", lambda *given: make(*given)._replace(log_rest=-math.inf))


def exact_cells(field: str) -> Callable[[], None]:
    """The masses of cells are taken for exact."""

    def apply() -> None:
        from dprounds.accounting import by_lattice, cells

        for name in ("upper_law", "lower_law"):
            make: Callable[..., Any] = getattr(cells, name)

            def trusting(cells_of: Callable[..., Any], *given: Any, make: Callable[..., Any] = make) -> Any:
                def without(edges: Any) -> Any:
                    found = cells_of(edges)
                    return found._replace(**{field: 0.0 * getattr(found, field)})

                return make(without, *given)

            for module in (cells, by_lattice):
                change(module, name, trusting)

    return apply


def forgets(module: str, name: str, field: str | int) -> Callable[[], None]:
    """A function, or a method named with its class, returns a tuple; one field of it, an error, is nothing."""

    def apply() -> None:
        owner = importlib.import_module(f"dprounds.{module}")
        kind, _, method = name.rpartition(".")
        if kind:
            owner = getattr(owner, kind)
        made: Callable[..., Any] = getattr(owner, method)

        def trusting(*given: Any) -> Any:
            found = made(*given)
            if found is None:
                return None
            if isinstance(field, str):
                return found._replace(**{field: 0.0 * getattr(found, field)})
            return tuple(0.0 * one if i == field else one for i, one in enumerate(found))

        change(owner, method, trusting)

    return apply


def without(module: str, name: str, old: str, new: str) -> Callable[[], None]:
    """A function, or a method named with its class, with another text in one place."""

    def apply() -> None:
        home = importlib.import_module(f"dprounds.{module}")
        kind, _, method = name.rpartition(".")
        owner = getattr(home, kind) if kind else home
        source = textwrap.dedent(inspect.getsource(getattr(owner, method)))
        if source.count(old) != 1:
            raise SystemExit(f"{module}.{name} has no {old!r}: say in tests/mutants.py what became of it.")
        made: dict[str, Any] = {}
        exec(f"from __future__ import annotations\n{source.replace(old, new)}", vars(home), made)
        change(owner, method, made[method])

    return apply


def checker_with(old: str, new: str) -> Mutant:
    """The checker, which stands alone, with another text in one place."""

    def apply() -> None:
        from pathlib import Path

        from dprounds.certificates import checker

        source = Path(checker.__file__).read_text()
        if source.count(old) != 1:
            raise SystemExit(f"The checker has no {old!r}: say in tests/mutants.py what became of it.")
        exec(compile(source.replace(old, new), checker.__file__, "exec"), vars(checker))

    return Mutant(apply, CHECKER, old)


def no_bound_of(owner: str, name: str, value: object) -> Callable[[], None]:
    """A method of a class, `module.Class`, that returns a bound, returns that there is nothing to bound."""

    def apply() -> None:
        module, _, kind = owner.rpartition(".")
        change(getattr(importlib.import_module(f"dprounds.accounting.{module}"), kind), name, lambda *_, **__: value)

    return apply


def level_forgets(field: str) -> Callable[[], None]:
    """Every level has nothing to bound here."""

    def apply() -> None:
        from dprounds.accounting.levels.level import Level

        change(Level, field, np.float64(-math.inf))

    return apply


def no_quadrature(still: bool) -> Callable[[], None]:
    """One of the two kinds of quadrature of one round is exact."""

    def apply() -> None:
        from dprounds.accounting.levels.one_round import OneRound

        moved: Callable[..., Any] = OneRound._moved

        def partly(*given: Any, **kind: bool) -> Any:
            return moved(*given, **kind) - (math.inf if kind.get("still", False) == still else 0.0)

        change(OneRound, "_moved", partly)

    return apply


def no_overlap() -> None:
    """Rounds that two levels count are counted once."""
    from dprounds.accounting.levels.levelled_line import LevelledLine

    change(LevelledLine, "_overlap", 0.0)


MUTANTS: dict[str, Mutant] = {
    "line: alias below": Mutant(no_alias(True), BUDGET),
    "line: alias above": Mutant(no_alias(False), BUDGET),
    "line: truncation": Mutant(no_truncation(False), BUDGET),
    "line: truncation on a lattice": Mutant(no_truncation(True), BUDGET),
    "line: smoothing": Mutant(no_smoothing, ("tests/accounting/test_line.py",)),
    "line: SUMMAND_ERROR": Mutant(zero("SUMMAND_ERROR", "accounting.line"), BUDGET),
    "line: LARGEST_RELATIVE_ERROR": Mutant(
        zero("LARGEST_RELATIVE_ERROR", "accounting.line", "accounting.lattice", value=math.inf), BUDGET
    ),
    "line: SECOND_ORDER": Mutant(zero("SECOND_ORDER", "accounting.line", value=1.0), TERMS),
    "premises: SECOND_ORDER_OF_PRODUCT": Mutant(
        zero("SECOND_ORDER_OF_PRODUCT", "accounting.premises", value=1.0), TERMS
    ),
    "premises: ceilings": Mutant(
        without("accounting.premises", "ceilings", "np.minimum(known, flat)", "known - 1.0"),
        ("tests/accounting/test_line.py",),
    ),
    "premises: sizes": Mutant(
        without("accounting.premises", "sizes", "saddle.steepest * s + turning", "0.0 * s"), TERMS
    ),
    "line: LARGEST_LOG_SCALE": Mutant(zero("LARGEST_LOG_SCALE", "accounting.line", value=1e9), BUDGET),
    "law: LOG_MOMENT_ERROR": Mutant(
        zero("LOG_MOMENT_ERROR", "accounting.law", "accounting.line", "accounting.premises", "accounting.crude"), BUDGET
    ),
    "line: errors of the spectrum": Mutant(field_of_line("errors", 0.0), BUDGET),
    "line: transform": Mutant(no_kernel_norm, BUDGET),
    "line: norm_error": Mutant(field_of_line("norm_error", 0.0), BUDGET),
    "line: relative_error": Mutant(field_of_line("relative_error", 0.0), BUDGET),
    "line: missing": Mutant(field_of_line("missing", 0.0), BUDGET),
    "line: blur": Mutant(no_blur, BUDGET),
    "line: stated errors": Mutant(no_stated_errors, ("tests/accounting/test_stated_errors.py",)),
    "allocation: aliases": Mutant(no_term_of_allocation("_log_alias"), ALLOCATION),
    "allocation: ends": Mutant(no_term_of_allocation("_log_beyond"), ALLOCATION),
    "allocation: averages": Mutant(no_error_of_averages, ALLOCATION),
    "allocation: rounding": Mutant(no_rounding_of_allocation, ALLOCATION),
    "window: values": Mutant(no_error_of_values, WINDOW),
    "window: tails": Mutant(no_term_of_window("_tails"), WINDOW),
    "window: window": Mutant(no_term_of_window("_missing_of_window"), WINDOW),
    "window: interpolation": Mutant(no_term_of_window("_interpolation"), WINDOW),
    "window: turned": Mutant(
        lambda: change(
            importlib.import_module("dprounds.numerics.lognormal_window").Tilted,
            "_sum_of_errors",
            staticmethod(lambda sizes, errors, bounds: 2.0 * float(sizes @ errors)),
        ),
        WINDOW,
    ),
    "window: rounding": Mutant(zero("UNIT_ROUNDOFF", "numerics.lognormal_window", value=1e-30), WINDOW),
    "lognormal_window: SMALL": Mutant(zero("SMALL", "numerics.lognormal_window", value=40.0), WINDOW),
    "lognormal_window: SERIES": Mutant(zero("SERIES", "numerics.lognormal_window", value=2), WINDOW),
    "lognormal_window: LARGEST_ERROR": Mutant(
        zero("LARGEST_ERROR", "numerics.lognormal_window", value=math.inf), WINDOW
    ),
    "window: faces of a power": Mutant(
        without("numerics.lognormal_window", "LognormalWindow.log_fall", "if not self.is_cut:", "if True:"), WINDOW
    ),
    "window: faces of psi": Mutant(
        without("numerics.lognormal_window", "LognormalWindow.add_edges", "if not self.is_cut:", "if True:"), WINDOW
    ),
    "window: left out by other values": Mutant(
        without("numerics.lognormal_window", "_chance_of_large_value", "(count - 1) * tails[0]", "0.0"), WINDOW
    ),
    "limited: panels of an average": Mutant(
        without("numerics.lognormal_limited", "LimitedMean.average_for", "np.full(tilts.size, error)", "0.0 * tilts"),
        LIMITED,
    ),
    "limited: values that do not count": Mutant(
        without("numerics.lognormal_limited", "LimitedMean.average_for", "(chance, mean - chance)", "(0.0, 0.0)"),
        LIMITED,
    ),
    "limited: panels of the one": Mutant(
        without(
            "numerics.lognormal_limited", "OneAbove._on_line", "math.exp(ones.log_error - top", "0.0 * math.exp(-top"
        ),
        LIMITED,
    ),
    "limited: terms that are not live": Mutant(
        without("numerics.lognormal_limited", "OneAbove._on_line", "float(sizes[~live].sum())", "0.0"), LIMITED
    ),
    "limited: bend of a power": Mutant(
        without("numerics.lognormal_limited", "LimitedMean.turned_bound", "_with(psi, near[:, None], n)", "psi"),
        LIMITED,
    ),
    "limited: bend of psi": Mutant(
        without(
            "numerics.lognormal_limited",
            "LimitedMean.add_edges",
            "_with(fallen, near_and_slanted, self.count)",
            "fallen",
        ),
        LIMITED,
    ),
    "limited: small sums": Mutant(
        without("numerics.lognormal_limited", "LimitedMean.turned_bound", "np.logaddexp(usual, rare)", "usual"), LIMITED
    ),
    "lognormal_limited: ORDERS": Mutant(zero("ORDERS", "numerics.lognormal_limited", value=5), LIMITED),
    "lognormal_limited: CELL_ROUNDING": Mutant(
        zero("CELL_ROUNDING", "numerics.lognormal_limited", value=-0.5), LIMITED
    ),
    "log_gamma: LEAST_REAL": Mutant(zero("LEAST_REAL", "numerics.log_gamma", value=1.0), LIMITED),
    "log_gamma: TERMS": Mutant(zero("TERMS", "numerics.log_gamma", value=(1.0 / 12.0,)), LIMITED),
    "events: missing": Mutant(
        without("accounting.by_events", "SumOfEvents.bracket", "np.full_like(epsilon, self.missing)", "0.0 * epsilon"),
        LARGE_VALUES,
    ),
    "window: left out by its own value": Mutant(
        without("numerics.lognormal_window", "_chance_of_large_value", " + tails[1]", ""), WINDOW
    ),
    "law: left out": Mutant(
        without("accounting.law", "mass_from_above", "law.infinite_mass + law.left_out", "law.infinite_mass"),
        ("tests/accounting/test_left_out.py",),
    ),
    "law: left out from below": Mutant(
        without("accounting.law", "least_mass_of", "(law.infinite_mass, rounds)", "(mass_from_above(law), rounds)"),
        ("tests/accounting/test_left_out.py",),
    ),
    "fixed_size_sampled: SQUARE_ERROR": Mutant(zero("SQUARE_ERROR", "mechanisms.fixed_size_sampled"), FIXED_SIZE),
    "integrated: SUM_ERROR": Mutant(zero("SUM_ERROR", "accounting.integrated"), INTEGRALS),
    "line: rounding of an integral": Mutant(
        without(
            "accounting.line", "Line.integrals_from_above", "(error * size).sum(axis=1)", "0.0 * error.sum(axis=1)"
        ),
        INTEGRAL_TERMS,
    ),
    "line: truncation of an integral": Mutant(
        without(
            "accounting.line",
            "Line.integrals_from_above",
            "rest + self._truncation(rows.log_scale, here) * (4.0 / self._last)",
            "rest",
        ),
        INTEGRAL_TERMS,
    ),
    "line: transform of an integral": Mutant(
        without("accounting.line", "Line.integrals_from_above", " + self.norm_error * self._integral_kernel_norm", ""),
        INTEGRAL_TERMS,
    ),
    "line: relative error of an integral": Mutant(
        without(
            "accounting.line",
            "Line.integrals_from_above",
            "(value + rest) * (1.0 + self.relative_error) + self.relative_error * rest",
            "value + rest",
        ),
        INTEGRAL_TERMS,
    ),
    "line: blur of an integral": Mutant(
        without(
            "accounting.line",
            "Line.integrals_from_above",
            "(blur + 4.0 * UNIT_ROUNDOFF * (np.abs(epsilon) + blur))",
            "0.0",
        ),
        INTEGRAL_TERMS,
    ),
    "integrated: what is missing from a lattice": Mutant(
        without(
            "accounting.integrated",
            "_Place.integrals",
            "(line.missing * np.maximum(last - x, 0.0) + beyond)",
            "0.0 * last",
        ),
        INTEGRAL_TERMS,
    ),
    "grouped_batches: a rest without end": Mutant(
        without("mechanisms.grouped_batches", "with_rest", "p[-1] += rest", ""),
        ("tests/mechanisms/test_groups_in_batches.py",),
    ),
    "integrated: whether a root is too large": Mutant(
        without("accounting.integrated", "largest_ratio", "exp_minus_tangent(y) < level", "y > 0"), INTEGRALS
    ),
    "integrated: what is beyond the last place": Mutant(
        zero("crude_integrals", "accounting.integrated", value=lambda law, t, x: 0.0 * x), INTEGRALS
    ),
    "integrated: the condition on the rate of an emptied record": Mutant(
        without("mechanisms.fixed_size_sampled", "_is_rare_enough", "* (1.0 + math.exp(exponent))", ""), ORDERS
    ),
    "correlated_noise: UNITS_OF_A_TERM": Mutant(zero("UNITS_OF_A_TERM", "mechanisms.correlated_noise"), MATRICES),
    "by_lattice: a coarse lattice from above, asked from below": Mutant(
        without(
            "accounting.by_lattice",
            "ByLattice.sums",
            "if not is_below and (self.law.is_attained or self.from_below)",
            "if self.law.is_attained and not self.from_below",
        ),
        ("tests/accounting/test_profile.py",),
    ),
    "fixed_size_sampled: how far an emptied group moves a batch": Mutant(
        without(
            "mechanisms.fixed_size_sampled",
            "FixedSizeSampled.attack_law",
            "group_attack_cells(self._noise,",
            "group_attack_cells(0.99 * self._noise,",
        ),
        ("tests/mechanisms/test_groups_in_batches.py",),
    ),
    "emptied_record: TAIL_UNITS": Mutant(zero("TAIL_UNITS", "mechanisms.emptied_record"), FIXED_SIZE),
    "emptied_record: losses above their cells": Mutant(
        zero("_refuse_losses_above_their_cells", "mechanisms.emptied_record", value=lambda *_: None), FIXED_SIZE
    ),
    "replaced group: the norm of several": Mutant(
        without("mechanisms.gaussian", "Gaussian.for_norm", "if norm == 1", "if True"),
        ("tests/mechanisms/test_replaced_group.py",),
    ),
    "replaced_record: p_error": Mutant(forgets("mechanisms.replaced_record", "replaced_cells", "p_error"), LOADERS),
    "replaced_record: q_error": Mutant(forgets("mechanisms.replaced_record", "replaced_cells", "q_error"), LOADERS),
    "replaced_record: blur": Mutant(forgets("mechanisms.replaced_record", "replaced_cells", "blur"), LOADERS),
    "replaced_record: rounding of losses": Mutant(zero("UNIT_ROUNDOFF", "mechanisms.replaced_record"), LOADERS),
    "replaced_record: losses that were not met": Mutant(
        without("mechanisms.replaced_record", "replaced_cells", "    off += np.abs(found - edges)", "    pass"), LOADERS
    ),
    "emptied_record: h_error": Mutant(forgets("mechanisms.emptied_record", "_emptied_profile", "h_error"), LOADERS),
    "emptied_record: p_error": Mutant(forgets("mechanisms.emptied_record", "_emptied_profile", "p_error"), LOADERS),
    "emptied_record: q_error": Mutant(forgets("mechanisms.emptied_record", "_emptied_profile", "q_error"), LOADERS),
    "emptied_record: p_error of a chord": Mutant(forgets("mechanisms.emptied_record", "_chord", "p_error"), LOADERS),
    "emptied_record: q_error of a chord": Mutant(forgets("mechanisms.emptied_record", "_chord", "q_error"), LOADERS),
    "emptied_record: what is left around nothing": Mutant(
        without("mechanisms.emptied_record", "emptied_cells", "64.0 * UNIT_ROUNDOFF", "0.0"), LOADERS
    ),
    "emptied_record: p_error of a fixed size": Mutant(
        forgets("mechanisms.emptied_record", "two_sided_cells", "p_error"), LOADERS
    ),
    "emptied_record: q_error of a fixed size": Mutant(
        forgets("mechanisms.emptied_record", "two_sided_cells", "q_error"), LOADERS
    ),
    "emptied_record: p_error of an attack": Mutant(
        forgets("mechanisms.emptied_record", "emptied_attack_cells", "p_error"), LOADERS
    ),
    "emptied_record: q_error of an attack": Mutant(
        forgets("mechanisms.emptied_record", "emptied_attack_cells", "q_error"), LOADERS
    ),
    "emptied_record: blur of an attack": Mutant(
        forgets("mechanisms.emptied_record", "emptied_attack_cells", "blur"), LOADERS
    ),
    "emptied_record: p of intervals": Mutant(
        without("mechanisms.emptied_record", "attack_cells", "np.maximum(p - p_error, 0.0)", "p"), LOADERS
    ),
    "emptied_record: q of intervals": Mutant(
        without("mechanisms.emptied_record", "attack_cells", "q + q_error", "q"), LOADERS
    ),
    "fixed_size_sampled: between the points of a ceiling": Mutant(
        without(
            "mechanisms.fixed_size_sampled",
            "FixedSizeSampled._ceiling",
            " + 0.25 * square * np.diff(ends) ** 2",
            "",
        ),
        LOADERS,
    ),
    "fixed_size_sampled: beyond the points of a ceiling": Mutant(
        without("mechanisms.fixed_size_sampled", "FixedSizeSampled._ceiling", "np.append(between, beyond)", "between"),
        LOADERS,
    ),
    "shuffled: LOG_NDTR_UNITS": Mutant(zero("LOG_NDTR_UNITS", "mechanisms.shuffled"), LOADERS),
    "shuffled: errors of masses": Mutant(forgets("mechanisms.shuffled", "_masses", 1), LOADERS),
    "random_allocation: moments from above": Mutant(
        without("mechanisms.random_allocation", "_above", "value + 2.0 * error", "value"), LOADERS
    ),
    "random_allocation: moments that are not known": Mutant(
        without("mechanisms.random_allocation", "_above", "error < 0.25", "error < 9.0"), LOADERS
    ),
    "grouped_batches: WEIGHT_UNITS": Mutant(
        zero("WEIGHT_UNITS", "mechanisms.grouped_batches"),
        ("tests/mechanisms/test_groups_in_batches.py",),
    ),
    "mixture_of_gaussians: p_error": Mutant(
        forgets("mechanisms.mixture_of_gaussians", "MixtureOfGaussians._cells", "p_error"), LOADERS
    ),
    "mixture_of_gaussians: q_error": Mutant(
        forgets("mechanisms.mixture_of_gaussians", "MixtureOfGaussians._cells", "q_error"), LOADERS
    ),
    "mixture_of_gaussians: blur": Mutant(
        forgets("mechanisms.mixture_of_gaussians", "MixtureOfGaussians._cells", "blur"), LOADERS
    ),
    "mixture_of_gaussians: UNITS_OF_A_SUM": Mutant(
        zero("UNITS_OF_A_SUM", "mechanisms.mixture_of_gaussians", value=1e6), LOADERS
    ),
    "mixture_of_gaussians: rounding of one round": Mutant(
        without("mechanisms.mixture_of_gaussians", "MixtureOfGaussians._excess", "max(value - error, 0.0)", "value"),
        ("tests/mechanisms/test_mixture_of_gaussians.py::test_one_round_meets_the_definition",),
    ),
    "lognormal_powers: SMALL": Mutant(zero("SMALL", "numerics.lognormal_powers", value=20.0), ALLOCATION),
    "lognormal_powers: SERIES": Mutant(zero("SERIES", "numerics.lognormal_powers", value=4), ALLOCATION),
    "lognormal_powers: LOG_LEFT_OUT": Mutant(zero("LOG_LEFT_OUT", "numerics.lognormal_powers", value=5.0), ALLOCATION),
    "lognormal_rays: ALIASES": Mutant(
        zero("ALIASES", "numerics.lognormal_rays", value=np.array([-8.0, -7.0, 7.0, 8.0])), ALLOCATION
    ),
    "lognormal_mean: LOG_OF_NOTHING": Mutant(zero("LOG_OF_NOTHING", "numerics.lognormal_mean", value=-5.0), ALLOCATION),
    "laplace_rounds: ROUNDINGS_PER_STEP": Mutant(zero("ROUNDINGS_PER_STEP", "mechanisms.laplace_rounds"), ROUNDS),
    "laplace_rounds: LEAST_DOUBLE": Mutant(zero("LEAST_DOUBLE", "mechanisms.laplace_rounds"), ROUNDS),
    "laplace_rounds: gauss": Mutant(
        zero("gauss_error", "mechanisms.laplace_rounds", value=lambda rate, nodes: 0.0), ROUNDS
    ),
    "response_rounds: ROUNDINGS_PER_NAT": Mutant(zero("ROUNDINGS_PER_NAT", "mechanisms.response_rounds"), ROUNDS),
    "response_rounds: LEAST_TERM": Mutant(zero("LEAST_TERM", "mechanisms.response_rounds"), ROUNDS),
    "lattice: TRANSFORM_ERROR": Mutant(zero("TRANSFORM_ERROR", "accounting.lattice"), TERMS),
    "lattice: MASS_UNITS": Mutant(zero("MASS_UNITS", "accounting.lattice"), TERMS),
    "lattice: SIDE_ERROR": Mutant(zero("SIDE_ERROR", "accounting.lattice"), TERMS),
    "lattice: beyond the lowest frequencies": Mutant(
        nothing_beyond, ("tests/accounting/test_lattice.py::test_no_frequency_beyond_the_lowest_exceeds_its_bound",)
    ),
    "lattice: the last frequencies of a transform": Mutant(
        nothing_left_out,
        ("tests/accounting/test_lattice.py::test_frequencies_that_a_transform_leaves_out_are_counted",),
    ),
    "cells: OPERATIONS": Mutant(zero("OPERATIONS", "accounting.cells"), CELLS),
    "cells: VANISHED": Mutant(zero("VANISHED", "accounting.cells"), CELLS),
    "cells: TINY": Mutant(zero("TINY", "accounting.cells"), CELLS),
    "cells: p_error": Mutant(exact_cells("p_error"), CELLS),
    "cells: q_error": Mutant(exact_cells("q_error"), CELLS),
    "cells: blur": Mutant(exact_cells("blur"), CELLS),
    "over_rounds: MASS_ERROR": Mutant(zero("MASS_ERROR", "accounting.over_rounds"), TERMS),
    "over_rounds: LEAST_MASS_ERROR": Mutant(zero("LEAST_MASS_ERROR", "accounting.over_rounds"), TERMS),
    "over_rounds: LOG_OF_NOTHING": Mutant(zero("LOG_OF_NOTHING", "accounting.over_rounds"), TERMS),
    "law: MAX_LOSS_ERROR": Mutant(zero("MAX_LOSS_ERROR", "accounting.law", "accounting.answers"), TERMS),
    "gaussian_summary: LINE_ERROR": Mutant(
        zero("LINE_ERROR", "accounting.gaussian_summary"), ("tests/accounting/test_gaussian_summary.py",)
    ),
    "direction: DISTANCE_ERROR_PER_PART": Mutant(
        zero("DISTANCE_ERROR_PER_PART", "accounting.profile", "accounting.direction"), TERMS
    ),
    "normal_mixture_ceiling: DIGITS": Mutant(zero("DIGITS", "numerics.normal_mixture_ceiling", value=20.0), TERMS),
    "normal_mixture_ceiling: REACH": Mutant(zero("REACH", "numerics.normal_mixture_ceiling", value=5.0), TERMS),
    "normal_mixture_ceiling: NEGATIVE_POWER_ROOM": Mutant(
        zero("NEGATIVE_POWER_ROOM", "numerics.normal_mixture_ceiling", value=30.0), TERMS
    ),
    "normal_mixture_ceiling: WIDEST_ANGLE": Mutant(
        zero("WIDEST_ANGLE", "numerics.normal_mixture_ceiling", value=3.1), TERMS
    ),
    "normal_mixture_ceiling: MODULUS_ERROR": Mutant(
        zero("MODULUS_ERROR", "numerics.normal_mixture_ceiling", value=0.0), TERMS
    ),
    "normal_mixture_ceiling: LARGEST_FALL": Mutant(
        zero("LARGEST_FALL", "numerics.normal_mixture_ceiling", value=0.5), TERMS
    ),
    "normal_mixture_ceiling: QUADRATURE_ERROR": Mutant(
        zero("QUADRATURE_ERROR", "numerics.normal_mixture_ceiling"), TERMS
    ),
    "normal_mixture_ceiling: WINDOW_ERROR": Mutant(zero("WINDOW_ERROR", "numerics.normal_mixture_ceiling"), TERMS),
    "normal_mixture_ceiling: FIXED_ERROR": Mutant(zero("FIXED_ERROR", "numerics.normal_mixture_ceiling"), TERMS),
    "base: RELATIVE_ERROR": Mutant(zero("RELATIVE_ERROR", "mechanisms.base", "mechanisms.poisson_sampled"), TERMS),
    "base: ABSOLUTE_ERROR": Mutant(zero("ABSOLUTE_ERROR", "mechanisms.base", "mechanisms.poisson_sampled"), TERMS),
    "base: ERROR_PER_PART": Mutant(zero("ERROR_PER_PART", "mechanisms.base"), TERMS),
    "discrete_pair: MASS_ERROR": Mutant(zero("MASS_ERROR", "mechanisms.discrete_pair"), TERMS),
    "discrete_pair: LOSS_UNITS": Mutant(zero("LOSS_UNITS", "mechanisms.discrete_pair"), TERMS),
    "modulus: rise between two points": Mutant(
        without("numerics.modulus", "log_moduli_between", "0.25 * variance", "0.0 * variance"), MODULUS
    ),
    "modulus: variance": Mutant(without("numerics.modulus", "variance_above", "2.0 * math", "0.0 * math"), MODULUS),
    "sampled Laplace: by parts": Mutant(
        without("mechanisms.sampled_laplace_decay", "far_up", "math.log(2.0) + np", "-99.0 + np"), SAMPLED_LAPLACE
    ),
    "sampled Laplace: below a cut": Mutant(
        without("mechanisms.sampled_laplace_decay", "far_up", "below=below[:-1]", "below=below[:-1] - np.inf"),
        SAMPLED_LAPLACE,
    ),
    "sampled Laplace: atoms": Mutant(
        without("mechanisms.sampled_laplace_decay", "far_up", "atoms=math.log(0.5)", "atoms=-99.0"), SAMPLED_LAPLACE
    ),
    "watched line: beyond what is watched": Mutant(
        without(
            "accounting.watched_line",
            "_beyond",
            "gone = np.maximum(s, end)",
            "gone = np.maximum(s, 9.0 * end)",
        ),
        WATCHED,
    ),
    "watched line: two Gaussians of a density": Mutant(
        without("accounting.watched_line", "_beyond", "+ np.log(2.0 + 2.0 * half_variance * s * s)", "+ 0.0 * s"),
        WATCHED,
    ),
    "modulus: error of a value": Mutant(
        without("numerics.modulus", "log_moduli_above", "less + error +", "less +"), ("tests/numerics/test_modulus.py",)
    ),
    "watched line: rise between two points": Mutant(
        without("accounting.watched_line", "_bounds", "part.variance", "0.0"), WATCHED
    ),
    "watched_line: BOUND_ERROR": Mutant(zero("BOUND_ERROR", "accounting.watched_line"), WATCHED),
    "sampled_laplace_decay: BOUND_ERROR": Mutant(
        zero("BOUND_ERROR", "mechanisms.sampled_laplace_decay"), SAMPLED_LAPLACE
    ),
    "profile: delta of the largest losses": Mutant(
        without("accounting.direction", "_all_at_their_largest", " + math.log(-math.expm1(missing))", ""),
        ("tests/accounting/test_profile.py",),
    ),
    "levels: alias above": Mutant(level_forgets("f_above"), of_levels("test_aliases_above_count")),
    "levels: alias below": Mutant(level_forgets("f_below"), of_levels("test_aliases_below_count")),
    "levels: truncation": Mutant(level_forgets("log_ceiling"), of_levels("test_nodes_beyond_the_last_count")),
    "levels: high": Mutant(
        no_bound_of("levels.levelled_line.LevelledLine", "_high_remainder", []),
        of_levels("test_the_rounds_above_the_highest_step_count"),
    ),
    "levels: low": Mutant(
        no_bound_of("levels.levelled_line.LevelledLine", "_low_remainder", []),
        of_levels("test_the_rounds_below_the_lowest_step_count"),
    ),
    "levels: overlap": Mutant(no_overlap, of_levels("test_rounds_in_two_levels_count_once")),
    "levels: quadrature": Mutant(no_quadrature(False), of_levels("test_both_kinds_of_quadrature_count")),
    "levels: quadrature that is not damped": Mutant(
        no_quadrature(True), of_levels("test_both_kinds_of_quadrature_count")
    ),
    "steps: outside of the grid": Mutant(
        no_bound_of("levels.steps.Grid", "outside", -math.inf), of_levels("test_what_is_outside_of_the_grid_counts")
    ),
    "one_round: SUM_ERROR": Mutant(
        zero("SUM_ERROR", "accounting.levels.one_round"), of_levels("test_one_rounds_sums_err_by_less_than_their_bound")
    ),
    "one_round: EXPONENT_OF_SUM": Mutant(
        zero("EXPONENT_OF_SUM", "accounting.levels.one_round", value=math.inf),
        of_levels("test_the_constants_of_the_proof_are_what_it_needs"),
    ),
    "level: SUMMAND_ERROR": Mutant(
        zero("SUMMAND_ERROR", "accounting.levels.level"), of_levels("test_the_constants_of_the_proof_are_what_it_needs")
    ),
    "level: BOUND_ROUNDINGS": Mutant(
        zero("BOUND_ROUNDINGS", "accounting.levels.level", "accounting.levels.levelled_line"),
        of_levels("test_the_constants_of_the_proof_are_what_it_needs"),
    ),
    "steps: LOG_ROOT_TWO_PI": Mutant(
        zero("LOG_ROOT_TWO_PI", "accounting.levels.steps", value=1.0),
        of_levels("test_the_second_part_of_a_step_is_its_modulus_on_a_moved_line"),
    ),
    "steps: LARGEST_CELL": Mutant(
        zero("LARGEST_CELL", "accounting.levels.steps", value=math.inf),
        of_levels("test_a_peak_between_two_points_is_not_missed"),
    ),
    "steps: TERM_ROUNDINGS": Mutant(
        zero("TERM_ROUNDINGS", "accounting.levels.steps"),
        of_levels("test_the_constants_of_the_proof_are_what_it_needs"),
    ),
    "laplace: a ceiling": Mutant(
        without("mechanisms.laplace", "Laplace._ceiling", "0.5 * a + np.log1p(0.5 / s)", "0.5 * a"), ROUNDS
    ),
    "modulus: ROUNDINGS": Mutant(zero("ROUNDINGS", "numerics.modulus"), MODULUS),
    "filters: errors that laws state": Mutant(
        without("ledger.filters", "RenyiFilter.cost", "run.laws[ADD].error_on_axis(t)", "0.0"),
        ("tests/ledger/test_filters.py",),
    ),
    "filters: MOMENT_ERROR": Mutant(zero("MOMENT_ERROR", "ledger.filters"), ("tests/ledger/test_filters.py",)),
    "normal: RATIO_ERROR": Mutant(zero("RATIO_ERROR", "numerics.normal"), ("tests/numerics/test_normal.py",)),
    "normal: UNIT_ROUNDOFF": Mutant(zero("UNIT_ROUNDOFF", "numerics.normal"), ("tests/numerics/test_normal.py",)),
    "rotations: SPACING_ERROR": Mutant(
        zero("SPACING_ERROR", "numerics.rotations", value=1.0), ("tests/numerics/test_cumulant.py",)
    ),
    "rotations: LONGEST_PRODUCT": Mutant(
        zero("LONGEST_PRODUCT", "numerics.rotations", value=2**30), ("tests/numerics/test_cumulant.py",)
    ),
    "levels: exponentials of B": Mutant(
        without(
            "accounting.levels.one_round",
            "OneRound.sums",
            "np.exp(1j * np.multiply.outer(each, loss)) for each",
            "1.0 + rotations(loss, tilted, each).turned for each",
        ),
        of_levels("test_far_up_a_turned_line_b_errs_by_less_than_its_bound"),
    ),
    "cumulant: FIXED_ERROR": Mutant(zero("FIXED_ERROR", "numerics.cumulant"), TERMS),
    "checker: truncation": checker_with("    truncation = (", "    truncation = 0 * ("),
    "checker: a ceiling's angle": checker_with(
        "return (total * (self.variance * theta * theta / 2).exp())", "return (total)"
    ),
    "checker: a ceiling of Laplace noise": checker_with("between.min(y.cosh() / (2 * height))", "0"),
    "checker: a ceiling's window": checker_with("self.outside * self._turned(angle) + 2", "2"),
    "checker: a ceiling's quadrature": checker_with(
        "+ 2 * self._growth(strip) * self._turned(angle + strip) * self.top", ""
    ),
    "checker: a strip that is too wide": checker_with('_require(fits, "angle_strip', '_require(True, "angle_strip'),
    "checker: nodes that end too early": checker_with("left > 1 and right > 1 and 2 * growth", "2 * growth"),
    "checker: terms that rise with the power": checker_with(
        "right *= (self.odds[-2] / self.odds[-1]) ** self.power", "pass"
    ),
    "checker: terms of a positive power": checker_with(
        "        if direction == REMOVE:\n            left, right", "        if False:\n            left, right"
    ),
    "checker: window": checker_with("self.outside = self.weights[0] / (left - 1) +", "self.outside = 0 * left +"),
    "checker: window above": checker_with(" + self.weights[-1] / (right - 1)", ""),
    "checker: quadrature": checker_with("self.outside + growth * (1", "self.outside + 0 * growth * (1"),
    "checker: quadrature at a height": checker_with('(1 + (self.height * _ball(q["strip"])).exp())', "2"),
    "checker: quadrature at the top": checker_with("/ (1 - 2 * growth)", "/ 1"),
    "checker: turned powers": checker_with("if self.power < 0 else arb(1)", "if False else arb(1)"),
    "checker: alias above": checker_with("    aliases = (", "    aliases = 0 * ("),
    "checker: alias below": checker_with("    aliases += 1 /", "    aliases += 0 /"),
    "checker: smoothing": checker_with("    smoothed = v *", "    smoothed = 0 * v *"),
    "checker: truncation of the density": checker_with(
        "(sum(value.real for value in values) + truncation / v)", "sum(value.real for value in values)"
    ),
    "checker: infinite mass": checker_with("    return 1 - math.prod((", "    return 0 * math.prod(("),
    "checker: losses that end": checker_with(
        "_require(math.inf not in losses and sum(losses) <= epsilon,", "_require(True,"
    ),
    "checker: losses above a grid": checker_with("[*chords, arb(0)]", "[*chords, chords[-1] if chords else arb(0)]"),
    "checker: losses below a grid": checker_with("[(rows[0][1] - 1) / rows[0][0], *chords]", "[arb(-1), *chords]"),
    "checker: the mass at infinity of a round": checker_with("1 - finite * least", "1 - least"),
    "checker: losses of one sign": checker_with("least.min(y).min(1)", "least.min(1)"),
    "checker: the largest loss of a round": checker_with("least.min(y).min(1)", "least.min(y)"),
    "checker: masses are rounded down": checker_with("2**ctx.prec).lower().floor()", "2**ctx.prec).upper().ceil()"),
    "checker: products are rounded down": checker_with("[mass >> bits for", "[-(-mass >> bits) for"),
    "checker: products are not rounded to the nearest": checker_with(
        "[mass >> bits for", "[(mass + 2 ** (bits - 1)) >> bits for"
    ),
    "checker: losses from below are lowered": checker_with(
        "_ball(step) - first).lower().floor()", "_ball(step) - first).upper().ceil()"
    ),
    "checker: losses from below are not moved to the nearest point": checker_with(
        "_ball(step) - first).lower()", "_ball(step) - first + arb(0.5)).lower()"
    ),
    "checker: a shift": checker_with('part["rounds"] * lattice["shift"] if', "0 if"),
    "checker: a shift in every round": checker_with('part["rounds"] * lattice["shift"] if', 'lattice["shift"] if'),
    "checker: what is not known from below": checker_with("(sum(masses) if from_below else 2**bits)", "2**bits"),
    "checker: the chance under P": checker_with("(delta + y * tail, tail)", "(delta + y * tail * 1.01, tail)"),
    "checker: the chance under Q": checker_with("(1 - tail - delta) / y", "(1 - tail) / y"),
    "checker: the chance under Q of Laplace noise": checker_with("least / (2 * y if", "least / (y if"),
    "checker: the chance under Q of a response": checker_with("else 1 + y)", "else 1)"),
    "checker: the chance under Q of losses that end": checker_with(
        "tail = between if abs(x) < a else", "tail = between if True else"
    ),
    "checker: the chance under Q of finite losses": checker_with("finite * tail", "tail"),
    "checker: a negative mass": checker_with("[max(mass or 0, 0) for", "[mass or 0 for"),
    "checker: a mass that is not known": checker_with("max(mass or 0, 0)", "max(mass or 2**ctx.prec // n, 0)"),
    "checker: the first loss of a product": checker_with("one[0] + other[0] + low,", "one[0] + other[0],"),
    "checker: the first loss of a round": checker_with('(grid["first"], _law(', "(min(0, grid['first']), _law("),
    "checker: the last losses are kept": checker_with(
        'masses[low : low + lattice["points"]]', 'masses[low:][-lattice["points"] :]'
    ),
    "checker: rounds of a lattice": checker_with('law if digit == "1" else nothing', "nothing"),
    "checker: parts of a lattice": checker_with("whole = product(whole, power)", "whole = power"),
    "checker: the first of all losses": checker_with("_ball(epsilon - step * whole[0])", "_ball(epsilon)"),
    "checker: a direction of one round": checker_with(
        "delta = rate * above if direction == REMOVE else rate * (above + c - 1) * y", "delta = rate * above"
    ),
    "checker: a sign of one round": checker_with("(y if direction == REMOVE else 1 / y)", "y"),
    "checker: lists that do not suit": checker_with("and len(found) == len(kind)", ""),
    "checker: a strip of pi or more": checker_with('"strip": Fraction(31, 10)', '"strip": POSITIVE'),
    "checker: values that a mean leaves out": checker_with(
        "2 * self.normal[0] / (self.normal[1] / self.normal[0] - 1) + ", ""
    ),
    "checker: the quadrature of a mean": checker_with(' + 2 * self._growth(q["strip"]))', ")"),
    "checker: turned scales": checker_with("angle if self.steps else angle / 2", "angle / 2"),
    "checker: a ceiling of allocation": checker_with(
        "/ (2 * self.steps * self.variance)", "/ (self.steps * self.variance)"
    ),
    "checker: the Gamma of allocation": checker_with("return z.rgamma()", "return 0 * z + 1"),
    "checker: the number of steps": checker_with("+ box) ** self.steps for", "+ box) for"),
    "checker: the step of scales": checker_with("[self.step / self.variance * (means", "[(means"),
    "checker: repeats of an allocation": checker_with(' / part.get("repeats", 1)', ""),
    "checker: the other direction": checker_with("_delta(parts, ADD, -epsilon,", "_delta(parts, ADD, epsilon,"),
    "checker: a direction of allocation": checker_with(
        'if direction == REMOVE and any("steps" in part', 'if any("steps" in part'
    ),
    "checker: Rényi bounds of allocation": checker_with('{"delta", "steps"} & set(part)', '{"delta"} & set(part)'),
    "checker: lattices of allocation": checker_with('() if "steps" in part else GRID', "GRID"),
    "checker: the first node has no conjugate": checker_with("    values[0] /= 2", "    values[0] /= 1"),
    "checker: heights in order": checker_with("for z in points[::block]]", "for z in points[:: block + 1]]"),
    "checker: losses below epsilon": checker_with("mass * share.min(1)", "mass * share"),
    "checker: an unknown sign of c": checker_with("1 - c if c <= 0 else", "1 - c if not c > 0 else"),
}


def pytest_configure() -> None:
    """As a plugin of pytest: become the mutant before any test is collected."""
    name = os.environ.get(VARIABLE)
    if name:
        MUTANTS[name].apply()


def killer(name: str, mutant: Mutant) -> str | None:
    """The first test that fails with a mutant; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants", "-p", "no:cacheprovider", "-q", "-x", "--tb=no"]
    done = subprocess.run(
        [*command, *mutant.tests], env={**os.environ, VARIABLE: name}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):  # no tests, an interruption, an error of pytest itself
        raise SystemExit(f"{name}: the tests did not run.\n{done.stdout}{done.stderr}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode and not failed:
        raise SystemExit(f"{name}: no test is named.\n{done.stdout}{done.stderr}")
    return failed.group(1) if failed else None


def main(wanted: Iterable[str]) -> int:
    """Try the mutants whose names hold one of the words, all by default; 1 if one survives."""
    words = list(wanted) or [""]
    chosen = {name: mutant for name, mutant in MUTANTS.items() if any(word in name for word in words)}
    healthy = Mutant(lambda: None, tuple(dict.fromkeys(test for mutant in chosen.values() for test in mutant.tests)))
    trouble = killer("", healthy)
    if trouble:
        print(f"Without a mutant {trouble} fails already.")
        return 1
    survivors, began = [], time.monotonic()
    for name, mutant in chosen.items():
        found = killer(name, mutant)
        survivors += [name] if found is None else []
        test = "" if found is None else found.rpartition("/")[2]
        print(f"{name:40} {'survived' if found is None else 'killed':9} {test}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed in {time.monotonic() - began:.0f} s.")
    for name in survivors:
        print(f"Survived: {name}. Write a test that needs the term, or one that measures it.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
