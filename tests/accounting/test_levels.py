"""Levels: brackets hold the truth, are tight where the line and the lattice are not, and every error term is needed."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from inspect import unwrap
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from dprounds.accounting.bracket import Bracket
from dprounds.accounting.law import Composition
from dprounds.accounting.levels import level as one_level
from dprounds.accounting.levels import levelled_line, one_round, steps
from dprounds.accounting.levels.levelled_line import LevelledLine
from dprounds.accounting.levels.one_round import OneRound
from dprounds.accounting.levels.plan import Block, LevelPlan
from dprounds.accounting.levels.steps import Factor, Grid, Step
from dprounds.accounting.profile import Profile
from dprounds.accounting.ways import place_levels
from dprounds.accounting.ways.by_line import ByLine
from dprounds.accounting.ways.place_levels import _Places, levels_near
from dprounds.errors import NumericalError
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.mechanisms.turned_normal import TurnedNormal
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from tests.references.stored import computed, kept
from tests.references.two_rounds import two_rounds_delta

DIRECTIONS = ("remove", "add")


def line_of(sigma: float, rate: float, rounds: int, direction: str, epsilon: float, delta: float) -> LevelledLine:
    pair = TurnedNormal(sigma, rate, direction == "remove")
    with np.errstate(all="ignore"):
        return levels_near(pair, rounds, epsilon=epsilon, log_delta=math.log(delta), tolerance=1e-10)


def at(line: LevelledLine, epsilon: float) -> Bracket:
    with np.errstate(all="ignore"):
        return line.at(epsilon)


TWO_ROUNDS = [
    (1.0, 1e-7, 2.3916e-5, "remove"),
    (0.5, 0.01, 0.5, "remove"),
    (0.5, 0.01, 0.01, "add"),
    (0.5, 0.01, 0.006, "add"),
    (1.0, 1e-3, 1e-3, "add"),
    (0.3, 1e-9, 1e-9, "remove"),
    (0.3, 1e-9, 1e-9, "add"),
    (0.3, 0.5, 20.0, "remove"),
    (2.0, 0.3, 1.0, "remove"),
    (2.0, 0.3, 0.3, "add"),
    (0.4, 1e-6, 0.1, "remove"),
    (50.0, 0.01, 1e-3, "remove"),
    (0.7, 0.9, 3.0, "remove"),
    (3.5, 2e-4, 2.3e-3, "remove"),  # a wide strip around a wide angle would need a longer grid
    (4.286, 7.37e-4, 7.3e-3, "remove"),  # a delta of 1e-28, of which one round decides most
    (2.788, 3.67e-7, 1.2e-5, "remove"),
    (18.72, 1.5985e-3, 1.34e-3, "remove"),  # exp(t l) is infinite at the end of the grid, where hardly any mass is
]


@pytest.mark.parametrize(("sigma", "rate", "epsilon", "direction"), TWO_ROUNDS)
def test_two_rounds_from_the_definition_are_inside(sigma: float, rate: float, epsilon: float, direction: str) -> None:
    truth = two_rounds_delta(sigma, rate, epsilon, direction)
    found = at(line_of(sigma, rate, 2, direction, epsilon, float(truth)), epsilon)
    assert mpf(found.lower) <= truth <= mpf(found.upper)
    assert found.upper - found.lower <= 1e-7 * float(truth)


@pytest.mark.parametrize("log_delta", [0.0, 3.0, -1e-9, -2000.0, math.nan, -math.inf])
def test_whatever_delta_was_guessed_the_truth_is_inside(log_delta: float) -> None:
    sigma, rate, epsilon, direction = TWO_ROUNDS[0]
    truth, pair = two_rounds_delta(sigma, rate, epsilon, direction), TurnedNormal(sigma, rate, direction == "remove")
    with np.errstate(all="ignore"):
        try:
            found = levels_near(pair, 2, epsilon=epsilon, log_delta=log_delta, tolerance=1e-10).at(epsilon)
        except NumericalError:  # it says so
            return
    assert mpf(found.lower) <= truth <= mpf(found.upper)


def test_a_stored_reference_is_what_its_function_computes() -> None:
    first = next(iter(kept["two_rounds_delta"]))
    assert computed(unwrap(two_rounds_delta), json.loads(first)) == kept["two_rounds_delta"][first]


# Numbers of another implementation of the same theorem, which proves less: they test tightness, not soundness.
HARD = [
    (1.0, 1e-7, 2, 1e-14, 2.391624392e-5),
    (0.45, 3e-5, 500_000, 1e-6, 3.425225324),
    (0.6, 1e-8, 10_000_000, 1e-10, 6.46729207e-4),
    (1.1, 256 / 60_000, 3, 1e-5, 0.0698800682),
    (1.1, 256 / 60_000, 60, 1e-5, 0.1810141273),
    (0.3, 1e-9, 10, 1e-9, 8.0401488e-6),
    (2.593324454756874, 0.0005152455237509802, 3, 7.566538646820246e-24, 0.017193861420),
]
# The least deltas, where summands must not be much larger than delta.
LEAST = [
    (4.286, 7.37e-4, 3, 8.5e-29),
    (4.057, 2.71e-8, 9, 2.9e-29),
    (3.072, 4.2e-6, 3, 2.9e-22),
    (5.545, 1.8e-6, 2, 1.5e-27),
]
# Where a line loses digits that levels keep, or no way finds a place of its own.
LOST = [
    (5.3004923613875325, 0.0004953546292862587, 29_740, 3.310727452325638e-26),
    (13.778908009555172, 0.004266666666666667, 89, 1.4226908505932462e-25),
    (0.30981110512774995, 9.50305453156741e-06, 34_121_582_042, 7.649770901087427e-26),
    (0.30395304289229624, 5.758592367471891e-06, 170_243_578_578, 3.414077075446135e-30),
]
# Where one level alone has summands much larger than delta: another step, far above all but 1e-29 of the rounds, helps.
HEAVY = [
    (0.7306310795567473, 1.0517184334739463e-08, 62_379_440_844, 1.4019231782525849e-25),
    (0.5718351872040232, 2.218631072444469e-08, 103_362_813_009, 1.913494523771114e-11),
]
# Where delta is flat around a tiny epsilon, it must be the narrower; in the last case levels of another epsilon serve.
FLAT = [
    (3.8190985030531155, 1.6e-06, 146073, 6.03553612388964e-05),
    (6.697010592321807, 1.2488613896549006e-05, 17665, 5.449323221211109e-05),
    (0.9329392427335389, 1.6e-07, 523845563, 3.8289214645221255e-08),
]


@pytest.mark.parametrize(("sigma", "rate", "rounds", "delta", "epsilon"), HARD)
def test_hard_runs_are_tight(sigma: float, rate: float, rounds: int, delta: float, epsilon: float) -> None:
    found = Profile((PoissonSampled(Gaussian(sigma), rate) * rounds).laws).epsilon(delta)
    assert found.upper - found.lower <= 1e-7 * found.upper
    assert found.upper == pytest.approx(epsilon, rel=2e-8)


@pytest.mark.parametrize(("sigma", "rate", "rounds", "delta"), LEAST + LOST + HEAVY + FLAT)
def test_the_least_deltas_and_epsilons_are_tight(sigma: float, rate: float, rounds: int, delta: float) -> None:
    found = Profile((PoissonSampled(Gaussian(sigma), rate) * rounds).laws).epsilon(delta)
    assert found.upper - found.lower <= 1e-9 * found.upper


def test_levels_of_the_cheaper_direction_are_made_for_the_delta_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Laplace's method is off by a factor in log delta here, and a line of this run takes seconds."""
    run = PoissonSampled(Gaussian(3094.821452955277), 1.5694581645467305e-09) * 619_670_590_959

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a line was asked for")

    monkeypatch.setattr(ByLine, "sums", refuse)
    found = Profile(run.laws).epsilon(3.2068987981299e-29)
    assert found.upper - found.lower <= 1e-9 * found.upper


def without_levels(law: Composition) -> Composition:
    return Composition(tuple((replace(part, turnable=None), rounds) for part, rounds in law.parts))


@pytest.mark.parametrize("seed", range(16))
def test_levels_agree_with_the_line_and_the_lattice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sigma, rate = float(10 ** rng.uniform(-0.4, 1.0)), float(10 ** rng.uniform(-4, -0.5))
    rounds, delta = int(10 ** rng.uniform(0.4, 4)), float(10 ** rng.uniform(-12, -3))
    direction = DIRECTIONS[seed % 2]
    law = (PoissonSampled(Gaussian(sigma), rate) * rounds).laws[direction]
    other = Profile({direction: without_levels(law)}).epsilon(delta)
    if not other.lower > 0:
        other = Bracket(*(0.5 * law.parts[0][0].max_loss,) * 2) if law.max_loss < math.inf else Bracket(0.1, 0.1)
    deltas = Profile({direction: without_levels(law)}).delta(other.upper)
    found = at(line_of(sigma, rate, rounds, direction, other.upper, max(deltas.upper, 1e-200)), other.upper)
    assert found.lower <= deltas.upper
    assert deltas.lower <= found.upper


# ---- every term of the error budget is needed: a line in which it is large, with it and without it -------------------

RARE = (1.0, 1e-7, 2.3916e-5, "remove")
COMMON = (0.5, 0.01, 0.5, "remove")
ADDED = (1.0, 1e-3, 1e-3, "add")
Case = tuple[float, float, float, str]


class Broken:
    """Two rounds at one epsilon: the truth, and lines whose plan was spoilt."""

    def __init__(self, case: Case, tolerance: float = 1e-10) -> None:
        sigma, rate, self.epsilon, direction = case
        self.truth = two_rounds_delta(*case)
        self.pair = TurnedNormal(sigma, rate, direction == "remove")
        with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
            patch.setattr(place_levels, "FEW_NODES", 200)  # so that there are steps to spoil
            self.plan = _Places(self.pair, 2.0, self.epsilon, math.log(self.truth), tolerance).plan()

    def line(self, change: Callable[[LevelPlan], LevelPlan] = lambda level: level) -> LevelledLine:
        with np.errstate(all="ignore"):
            return LevelledLine(self.pair, 2, self.plan._replace(levels=tuple(map(change, self.plan.levels))))

    def holds(self, line: LevelledLine) -> bool:
        found = at(line, self.epsilon)
        return bool(mpf(found.lower) <= self.truth <= mpf(found.upper))


def moved(step: Step | None, factor: float) -> Step:
    assert step is not None
    return Step(step.at * factor, step.width * factor)


@pytest.mark.parametrize(("case", "factor"), [(RARE, 0.3), (ADDED, 0.2)])
def test_the_rounds_above_the_highest_step_count(case: Case, factor: float) -> None:
    run = Broken(case)
    line = run.line(lambda level: level._replace(high=moved(level.high, factor)))
    assert run.holds(line)
    line._remainders = line._remainders[1:]
    assert not run.holds(line)


@pytest.mark.parametrize("case", [RARE, COMMON, ADDED])
def test_the_rounds_below_the_lowest_step_count(case: Case) -> None:
    run = Broken(case)
    line = run.line(lambda level: level._replace(low=moved(level.low, 3.0)))
    assert run.holds(line)
    line._remainders = line._remainders[:1]
    assert not run.holds(line)


def test_rounds_in_two_levels_count_once() -> None:
    run = Broken(COMMON)
    (level,) = run.plan.levels
    middle = moved(level.high, 0.8)
    lower = level._replace(high=middle)
    run.plan = run.plan._replace(levels=(lower, level._replace(low=middle)))
    line = run.line()
    assert run.holds(line)
    line._overlap = 0.0
    assert not run.holds(line)


def half_the_nodes(level: LevelPlan) -> LevelPlan:
    """On the same line, so that its period is half as long."""
    blocks = tuple(block._replace(first=block.first // 2, end=block.end // 2) for block in level.blocks)
    return level._replace(step=2.0 * level.step, blocks=blocks)


@pytest.mark.parametrize("case", [RARE, COMMON, ADDED])
def test_aliases_count(case: Case) -> None:
    run = Broken(case)
    line = run.line(half_the_nodes)
    assert run.holds(line)
    for level in line._levels:
        level.f_above = np.full_like(level.f_above, -np.inf)
        level.f_below = np.full_like(level.f_below, -np.inf)
    assert not run.holds(line)


def without_aliases(line: LevelledLine, side: str) -> LevelledLine:
    for level in line._levels:
        setattr(level, f"f_{side}", np.full_like(getattr(level, f"f_{side}"), -np.inf))
    return line


def is_alias_needed(case: Case, side: str, *, knows_below: bool | None = None) -> bool:
    """Whether a bracket on shorter periods misses the truth without the aliases of a side; with them it never does."""
    run, needed = Broken(case), False
    # where levels are put decides at which period and line an alias is more than all other errors
    for shorter, moved_t in itertools.product((1.1, 1.2, 1.3, 1.6, 2.0, 3.0), (0.5, 1.0, 1.5)):

        def change(level: LevelPlan, shorter: float = shorter, moved_t: float = moved_t) -> LevelPlan:
            level = level._replace(step=shorter * level.step, t=moved_t * level.t)
            if knows_below is None:
                return level
            return level._replace(knows_below=knows_below, below=level.t * np.linspace(0.05, 0.95, 12))

        try:
            line = run.line(change)
            assert run.holds(line)
        except NumericalError:
            continue
        needed = needed or not run.holds(without_aliases(line, side))
    return needed


@pytest.mark.parametrize("case", [RARE, COMMON, ADDED])
def test_aliases_above_count(case: Case) -> None:
    assert is_alias_needed(case, "above")


@pytest.mark.parametrize("case", [RARE, COMMON, ADDED])
def test_aliases_below_count(case: Case) -> None:
    assert is_alias_needed(case, "below", knows_below=False)


def test_what_is_left_of_known_aliases_counts() -> None:
    assert is_alias_needed(ADDED, "below", knows_below=True)


@pytest.mark.parametrize("at", [0, 1])  # of P, of Q
def test_known_aliases_below_are_subtracted(at: int) -> None:
    run = Broken(RARE)
    line = run.line(lambda level: level._replace(step=2.0 * level.step))
    assert all(level.plan.knows_below for level in line._levels)
    assert run.holds(line)
    for level in line._levels:
        known = list(level._known)
        known[at] = known[at]._replace(log=-math.inf)
        level._known = (known[0], known[1])
    assert not run.holds(line)


MIXED: Case = (0.7, 0.9, 3.0, "remove")


@pytest.mark.parametrize("case", [COMMON, ADDED, MIXED])
def test_what_is_outside_of_the_grid_counts(case: Case) -> None:
    run, needed = Broken(case), 0
    for cut in (5.0, 6.0, 8.0, 10.0, 12.0, 15.0):

        def change(level: LevelPlan, cut: float = cut) -> LevelPlan:
            return level._replace(ends=(level.ends[0] + cut, level.ends[1]))

        try:
            assert run.holds(run.line(change))
        except NumericalError:  # it says so
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Grid, "outside", lambda *_, **__: -math.inf)
            needed += not run.holds(run.line(change))
    assert needed


def with_errors(one: OneRound, block: Block) -> Any:
    """M - 1 and B at the nodes of a block, with bounds on their errors."""
    m1, b, *roundings = one.sums(block)
    return m1, b, *one.errors(block, *roundings)


@pytest.mark.parametrize("still", [True, False])
def test_both_kinds_of_quadrature_count(still: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far along a line M is damped, but not the parts of it that are linear in z: each kind has its own bound."""
    run = Broken((2.0, 0.3, 1.0, "remove") if still else (2.0, 0.3, 0.3, "add"))
    factor, block, step = (0.1, Block(100, 102, 0.3, 0.1), 0.09) if still else (1.0, Block(24, 54, 0.1, 0.3), 0.08)
    one = run.line(lambda level: level._replace(high=moved(level.high, factor)))._levels[-1].one
    with np.errstate(all="ignore"):
        exact = with_errors(one, block)[0]
        one.grid = Grid(one.pair, *one.plan.ends, step)
        coarse, _, errors, _ = with_errors(one, block)
        assert (np.abs(coarse - exact) <= errors).all()
        bound: Callable[..., Any] = OneRound._moved

        def partly(*given: Any, **kind: bool) -> Any:
            return bound(*given, **kind) - (math.inf if kind.get("still", False) == still else 0.0)

        monkeypatch.setattr(OneRound, "_moved", partly)
        coarse, _, errors, _ = with_errors(one, block)
        assert not (np.abs(coarse - exact) <= errors).all()


def fewer(level: LevelPlan, part: int) -> LevelPlan:
    count = level.blocks[-1].end // part
    blocks = tuple(block._replace(end=min(block.end, count)) for block in level.blocks if block.first < count)
    return level._replace(blocks=blocks)


@pytest.mark.parametrize("case", [RARE, COMMON, ADDED])
def test_nodes_beyond_the_last_count(case: Case) -> None:
    run = Broken(case)
    line = run.line(lambda level: fewer(level, 4))
    assert run.holds(line)
    for level in line._levels:
        level.log_ceiling = -math.inf
    assert not run.holds(line)


@pytest.mark.parametrize("case", [RARE, (1.0, 1e-3, 5e-4, "add")])
def test_the_step_of_v_counts(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Broken(case)
    assert run.holds(run.line(lambda level: level._replace(step_of_v=0.06)))
    monkeypatch.setattr(Grid, "log_aliases", lambda self, strip: 600.0)
    assert not run.holds(run.line(lambda level: level._replace(step_of_v=0.06)))


@pytest.mark.parametrize("case", [RARE, COMMON, ADDED])
def test_the_quadrature_of_one_round_errs_by_less_than_its_bound(case: Case) -> None:
    one = Broken(case).line()._levels[-1].one
    blocks = [with_errors(one, block) for block in one.plan.blocks]
    one.grid = Grid(one.pair, *one.plan.ends, 0.06)
    for block, (m1, b, _, _) in zip(one.plan.blocks, blocks, strict=True):
        with np.errstate(all="ignore"):
            coarse_m1, coarse_b, m_errors, b_errors = with_errors(one, block)
        assert (np.abs(coarse_m1 - m1) <= m_errors).all()
        assert (np.abs(coarse_b - b) <= b_errors).all()


@pytest.mark.parametrize("case", [RARE, COMMON, (0.5, 0.01, 0.006, "add")])
def test_rounding_counts(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Broken(case, tolerance=1e-15)
    assert run.holds(run.line())
    for module, name in [
        (one_round, "SUM_ERROR"),
        (one_level, "SUMMAND_ERROR"),
        (one_level, "UNIT_ROUNDOFF"),
        (levelled_line, "UNIT_ROUNDOFF"),
        (steps, "UNIT_ROUNDOFF"),
    ]:
        monkeypatch.setattr(module, name, 0.0)
    assert not run.holds(run.line())


def terms_of(one: OneRound, block: Block) -> list[tuple[Any, Any, Any, Any]]:
    """For every point of v, in arbitrary precision: the loss, X, P, and the part of it below the high step."""
    pair, high, found = one.pair, one.plan.high, []
    assert pair.mixture_first
    sigma, q, step = 1 / mpf(pair.deviation), mpf(pair.rate), mpf(one.grid.step)
    for v in one.grid.v.tolist():
        at = mpc(v, block.angle)
        x = mp.exp(at)
        w = 1 - q + q * x
        density = mp.exp(-((sigma * (at - mpf(pair.mean))) ** 2) / 2) * sigma / mp.sqrt(2 * mp.pi)
        inside = 1 if high is None else mp.erfc((x - mpf(high.at)) / (mpf(high.width) * mp.sqrt(2))) / 2
        found.append((mp.log(w), x, density * step * w, inside))
    return found


def test_one_rounds_sums_err_by_less_than_their_bound() -> None:
    """The same sum over the same points, in arbitrary precision: what is left is rounding, which the bound covers."""
    one = Broken(RARE).line()._levels[-1].one
    plan = one.plan
    with mp.workdps(40):
        block = plan.blocks[0]
        m1, _, m_rounding, _ = one.sums(block)
        terms = terms_of(one, block)
        for node in {0, (block.end - block.first) // 2, block.end - block.first - 1}:
            z = mpc(plan.t, plan.step * (block.first + node))
            total = -mpf(one.p) - z * mpf(one.excess)
            for loss, _, weight, inside in terms:
                tangents = (mp.exp(z * loss) - 1 - z * loss) + z * (mp.exp(-loss) - 1 + loss)
                total += weight * inside * tangents
            assert abs(mpc(complex(m1[node])) - total) <= mpf(float(m_rounding[node]))


def test_far_up_a_turned_line_b_errs_by_less_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """There B is far smaller than the sum of the moduli at the first node, to which no error may be relative."""
    monkeypatch.setattr(place_levels, "FEW_NODES", 0)  # so that there is a low step
    line = line_of(6.72237043646181, 0.0004695971244659005, 2, "remove", 0.0018205, 3.069e-29)
    one = next(level.one for level in line._levels if level.plan.low is not None)
    plan, low = one.plan, one.plan.low
    assert low is not None
    block = plan.blocks[-1]
    assert block.angle > 0
    with np.errstate(all="ignore"):
        _, b, _, b_rounding = one.sums(block)
    with mp.workdps(40):
        terms = terms_of(one, block)
        z = mpc(plan.t, plan.step * (block.end - 1))
        total = mpf(0)
        for loss, x, weight, inside in terms:
            above = mp.erfc((mpf(low.at) - x) / (mpf(low.width) * mp.sqrt(2))) / 2
            total += weight * inside * above * mp.exp(z * loss)
        assert abs(mpc(complex(b[-1])) - total) <= mpf(float(b_rounding[-1]))


@pytest.mark.parametrize(
    ("sigma", "rate", "delta"),
    [
        (7.952754342690531, 7.65272513638169e-06, 7.084993565650488e-199),
        (6.655668539274611, 5.173783717583367e-05, 8.985672025883729e-209),
    ],
)
def test_two_rounds_cost_more_than_one_at_the_least_deltas(sigma: float, rate: float, delta: float) -> None:
    step = PoissonSampled(Gaussian(sigma), rate)
    assert (step * 2).epsilon(delta=delta) >= (step * 1).guarantee(delta=delta).lower


def test_the_constants_of_the_proof_are_what_it_needs() -> None:
    """Counts of roundings, and the numbers of two lemmas: docs/theory/levels.md."""
    assert one_round.SUM_ERROR >= 16 * UNIT_ROUNDOFF  # four units were seen
    assert one_round.EXPONENT_OF_SUM <= 64  # an exponential of a larger exponent errs in proportion
    assert one_level.SUMMAND_ERROR >= 32 * UNIT_ROUNDOFF
    assert one_level.BOUND_ROUNDINGS >= 16
    assert steps.TERM_ROUNDINGS >= 16
    assert 0 <= 0.5 * math.log(2 * math.pi) - steps.LOG_ROOT_TWO_PI < 1e-6
    # a peak whose logarithm bends by at most 2 k^2 is within exp((k h)^2 / 4) of the ends of a cell of length h
    assert math.exp(steps.LARGEST_CELL**2 / 4) <= 2


# ---- the sums that bound ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-3.0, 0.0, 1.0, 4.0])
def test_an_upper_sum_is_not_below_the_integral(power: float) -> None:
    pair = TurnedNormal(0.8, 0.01, True)
    factors = (Factor(Step(50.0, 5.0), False), Factor(Step(8.0, 0.8), True))
    coarse, fine = Grid(pair, -15.0, 6.0, 0.03), Grid(pair, -15.0, 6.0, 0.004)
    modulus, _ = fine.turned(0.2)
    exponents = fine.log_n + power * modulus + fine.growth(0.2)
    for one in factors:
        exponents = exponents + np.logaddexp(*one.parts(fine.x, 0.2))
    exact = float(steps.log_sum(exponents))
    assert exact <= coarse.upper_sum(power, factors, 0.2) <= exact + 3.0


def test_the_second_part_of_a_step_is_its_modulus_on_a_moved_line() -> None:
    """b phi(a) exp(b^2/2) with X turned by the strip: not below it, and above by no more than what is rounded."""
    step, angle, strip = Step(50.0, 5.0), 0.2, 0.15
    x = np.array([20.0, 45.0, 50.0, 60.0])
    _, second = Factor(step, False).parts(x, angle, strip)
    with mp.workdps(40):
        for value, log in zip(x.tolist(), second.tolist(), strict=True):
            turned = mpf(value) * mp.expj(mpf(strip))
            a = (turned * mp.cos(mpf(angle)) - 50) / 5
            b = turned * mp.sin(mpf(angle)) / 5
            modulus = abs(b * mp.exp(-a * a / 2 + b * b / 2)) / mp.sqrt(2 * mp.pi)
            assert modulus <= mp.exp(mpf(log)) <= modulus * (1 + mpf("1e-6"))


def test_a_peak_between_two_points_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose turned part peaks within one cell: refused, since its ends know nothing of the peak."""
    pair, angle = TurnedNormal(0.8, 0.01, True), 0.3
    factors = (Factor(Step(math.exp(3.015), 0.1), True), Factor(Step(math.exp(3.015), 0.1), False))
    coarse, fine = Grid(pair, -15.0, 6.0, 0.03), Grid(pair, -15.0, 6.0, 0.004)
    exponents = fine.log_n + fine.turned(angle)[0] + fine.growth(angle)
    for one in factors:
        exponents = exponents + np.logaddexp(*one.parts(fine.x, angle))
    exact = float(steps.log_sum(exponents))
    assert coarse.upper_sum(1.0, factors, angle) == math.inf
    monkeypatch.setattr(steps, "LARGEST_CELL", math.inf)
    assert coarse.upper_sum(1.0, factors, angle) < exact


def test_a_grid_that_ends_too_early_says_so() -> None:
    pair = TurnedNormal(0.8, 0.01, True)
    factors = (Factor(Step(50.0, 5.0), False),)
    grid = Grid(pair, -15.0, math.log(55.0), 0.03)  # one width above the step
    assert float(grid.mean(np.array([1.0]), factors, 0.3).error[0]) == math.inf or not np.isfinite(
        grid.upper_sum(1.0, factors, 0.3)
    )


@pytest.mark.parametrize("angles", [(0.8, 0.1), (0.1, 0.8), (0.9, 0.9)])
def test_a_line_that_is_turned_too_far_bounds_nothing(angles: tuple[float, float]) -> None:
    """By an eighth of a turn a step stops being bounded, whichever of the two angles it is, or both."""
    grid = Grid(TurnedNormal(0.8, 0.01, True), -15.0, 6.0, 0.03)
    angle, strip = angles
    assert grid.upper_sum(1.0, (), angle, strip=strip) == math.inf
    assert math.isfinite(grid.upper_sum(1.0, (), 0.7, strip=0.7))


def test_an_error_that_is_too_large_for_its_exponential_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rounds together: M may be off by so much that its power grows by a factor exp(230), and B stays."""
    (level,) = (one for one in line_of(0.6, 1e-3, 64, "remove", 0.8, 1e-6)._levels if one.plan.low is not None)
    modulus, error = np.abs(1.0 + level._m1), 300.0 / 64

    def errors(block: Block, *_: Any) -> tuple[Any, Any]:
        return error * modulus[block.first : block.end], np.zeros(block.end - block.first)

    monkeypatch.setattr(level.one, "errors", errors)
    moved = level._m1 + error * (1.0 + level._m1)  # along M itself
    with np.errstate(all="ignore"):
        powers = [np.exp(64 * np.log1p(m) - level.log_scale) for m in (moved, moved - level._b)]
        assert (level.errors >= np.abs(powers[0] - powers[1] - level.values)).all()


def test_an_error_of_known_aliases_that_is_too_large_is_infinite() -> None:
    (level,) = (one for one in line_of(0.6, 1e-3, 64, "remove", 0.8, 1e-6)._levels if one.plan.low is not None)
    known = level._known[0]
    assert level._error_of_known(known, 0.0) < 1e-6
    assert level._error_of_known(known, 1.0) == math.inf


def test_too_fine_a_grid_is_refused() -> None:
    with pytest.raises(NumericalError):
        Grid(TurnedNormal(1.0, 0.1, True), -10.0, 10.0, 1e-6)
