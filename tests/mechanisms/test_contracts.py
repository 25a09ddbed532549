"""What every mechanism promises. A new file in the folder joins by itself, and fails here until it has examples."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import pkgutil
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dprounds.mechanisms as room
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    Mechanism,
    MixtureOfGaussians,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    RdpCurve,
    Release,
    Run,
    Shuffled,
    TruncatedPoissonSampled,
)

EXAMPLES: dict[type[Mechanism], list[Mechanism]] = {
    Gaussian: [Gaussian(0.3), Gaussian(1.1), Gaussian(400.0)],
    Laplace: [Laplace(0.2), Laplace(3.0), Laplace(1e5)],
    RandomizedResponse: [RandomizedResponse(0.0), RandomizedResponse(1e-4), RandomizedResponse(2.0)],
    PureDP: [PureDP(0.0), PureDP(0.5), PureDP(30.0)],
    ApproximateDP: [ApproximateDP(0.5, 1e-6), ApproximateDP(1.0, 0.0), ApproximateDP(0.0, 0.3)],
    DiscreteGaussian: [DiscreteGaussian(0.2), DiscreteGaussian(0.7), DiscreteGaussian(50.0)],
    DiscreteLaplace: [DiscreteLaplace(0.3), DiscreteLaplace(2.0), DiscreteLaplace(1e4)],
    DiscretePair: [
        DiscretePair([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
        DiscretePair([0.7, 0.2, 0.1], [0.1, 0.3, 0.6]),
        DiscretePair([0.25, 0.75], [0.25, 0.75]),
        DiscretePair([0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.4, 0.1]),
    ],
    ExponentialMechanism: [ExponentialMechanism(0.0), ExponentialMechanism(0.1), ExponentialMechanism(5.0)],
    ZCDP: [ZCDP(0.0), ZCDP(0.3), ZCDP(1e-8)],
    RdpCurve: [
        RdpCurve([2.0, 4.0, 16.0], [0.1, 0.25, 1.0]),
        RdpCurve([1.5, math.inf], [0.2, 0.7]),
        RdpCurve([3.0], [0.0]),
        RdpCurve([math.inf], [1.0]),
    ],
    RandomAllocation: [
        RandomAllocation(Gaussian(1.0), 100),
        RandomAllocation(Gaussian(0.5), 3),
        RandomAllocation(Gaussian(3.0), 50, participations=3),
        RandomAllocation(Gaussian(2.0), 20, repeats=4),
        RandomAllocation(Gaussian(2.0), 4, participations=4),
        RandomAllocation(Gaussian(2.0), 1),
    ],
    PoissonSampled: [
        PoissonSampled(Gaussian(2.0), 0.1, relation="replace-one"),
        PoissonSampled(Gaussian(1.0), 0.01),
        PoissonSampled(Gaussian(0.4), 0.5),
        PoissonSampled(Gaussian(30.0), 1e-7),
        PoissonSampled(Gaussian(2.0), 0.0),
        PoissonSampled(Gaussian(2.0), 1.0),
        PoissonSampled(Laplace(0.5), 0.1),
        PoissonSampled(RandomizedResponse(1.0), 0.2),
        PoissonSampled(PureDP(3.0), 1e-5),
        PoissonSampled(DiscreteGaussian(0.5), 0.3),
        PoissonSampled(DiscreteGaussian(200.0), 0.01),
        PoissonSampled(DiscreteLaplace(1.0), 0.05),
        PoissonSampled(Gaussian(3.0), 0.01, group_size=3),
        PoissonSampled(Gaussian(3.0), 0.01, relation="zero-out"),
    ],
    Shuffled: [
        Shuffled(Gaussian(1.1), 234),
        Shuffled(Gaussian(2.0), 10, relation="replace-one"),
        Shuffled(Gaussian(2.0), 1),
    ],
    FixedSizeSampled: [
        FixedSizeSampled(Gaussian(2.0), 10, 1000),
        FixedSizeSampled(Gaussian(2.0), 10, 1000, relation="zero-out"),
        FixedSizeSampled(Gaussian(2.0), 10, 10),
    ],
    TruncatedPoissonSampled: [
        TruncatedPoissonSampled(Gaussian(1.1), 0.01, 14, 1000),
        TruncatedPoissonSampled(Gaussian(0.6), 0.5, 3, 5),
        TruncatedPoissonSampled(Gaussian(2.0), 0.01, 10, 1000, relation="zero-out"),
        TruncatedPoissonSampled(Gaussian(2.0), 0.01, 15, 1000, relation="replace-one"),
        TruncatedPoissonSampled(Gaussian(2.0), 0.1, 100, 50),
        TruncatedPoissonSampled(Gaussian(2.0), 0.0, 100, 50),
        TruncatedPoissonSampled(Gaussian(2.0), 1.0, 20, 50),
    ],
    MixtureOfGaussians: [
        MixtureOfGaussians(2.0, (0, 1, 2), (0.98, 0.015, 0.005)),
        MixtureOfGaussians(1.0, (0, 0.5), (0.9, 0.1)),
        MixtureOfGaussians(0.7, (1, 1.5), (0.5, 0.5)),
        MixtureOfGaussians(1.5, (3,), (1,)),
        MixtureOfGaussians(1.5, (0, 0), (0.5, 0.5)),
    ],
}

# One valid value and the values just outside the range, for each constructor parameter by its name.
JUST_OUTSIDE: dict[str, tuple[Any, list[Any]]] = {
    "noise_multiplier": (1.0, [0.0, -5e-324, math.inf]),
    "epsilon": (1.0, [-5e-324, math.inf]),
    "delta": (0.1, [-5e-324, 1.0]),
    "rho": (0.1, [-5e-324, math.inf]),
    "sampling_rate": (0.1, [-5e-324, math.nextafter(1.0, 2.0), 256]),
    "mechanism": (Gaussian(1.0), [Gaussian, 1.0]),
    "steps": (10, [0, -1, 2.5, math.inf]),
    "participations": (2, [0, 11, 1.5]),
    "repeats": (3, [0, -1, 0.5]),
    "relation": ("zero-out", ["swap", "", 1.0]),
    "p": ((0.5, 0.5), [(0.5, 0.4), (-5e-324, 1.0), (0.5, math.nan), (1.0,), (), ((0.5, 0.5),)]),
    "q": ((0.25, 0.75), [(0.5, 0.4), (-5e-324, 1.0), (0.5, math.nan), (1.0,), (), ((0.5, 0.5),)]),
    "shifts": ((0.0, 1.0), [(-5e-324, 1.0), (0.0, math.nan), (0.0, math.inf), (1.0,), (), ((0.0, 1.0),)]),
    "probabilities": ((0.5, 0.5), [(0.5, 0.4), (-5e-324, 1.0), (0.5, math.nan), (1.0,), (), ((0.5, 0.5),)]),
    "batch_size": (5, [0, -1, 1.5, 11]),
    "largest_batch": (5, [0, -1, 1.5, math.inf]),
    "dataset_size": (10, [0, -1, 1.5, math.inf]),
    "group_size": (2, [0, -1, 1.5, 10**6]),
    "orders": ((2.0, 3.0), [(1.0, 3.0), (3.0, 2.0), (2.0, 2.0), (2.0, math.nan), (2.0,), ()]),
    "rdps": ((0.5, 1.0), [(-5e-324, 1.0), (1.0, 0.5), (0.5, math.nan), (0.5,), ((0.5, 1.0),)]),
}

ORDERS = np.array([1.0 + 1e-6, 1.001, 1.1, 1.5, 2.0, 2.5, 4.0, 9.75, 33.0, 128.0, 1000.5])

# Two values that agree by mathematics differ by rounding of sums and by the margin that `rdp` adds, 1e-13 at most in
# these ranges. Ten times that is still far below any wrong formula.
RTOL = 1e-12


def in_folder() -> list[type[Mechanism]]:
    """Every mechanism that a file of the folder defines, imported by another file or not."""
    files = pkgutil.walk_packages(room.__path__, prefix=f"{room.__name__}.")
    return [
        kind
        for module in [importlib.import_module(file.name) for file in files]
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Mechanism) and kind.__module__ == module.__name__
        if not inspect.isabstract(kind)
    ]


ALL = in_folder()
INSTANCES = [example for kind in ALL for example in EXAMPLES.get(kind, [])]
WITH_MOMENTS = [example for example in INSTANCES if example.has_moment_function]


def resolved(mechanism: Mechanism, t: np.ndarray) -> np.ndarray:
    """The points of these at which the moment function is computed."""
    return t[t <= mechanism.law().largest_t]


def stated_errors(mechanism: Mechanism, z: np.ndarray, direction: str) -> np.ndarray:
    """What the law of a mechanism says itself of the errors of its moments."""
    error = mechanism.law(direction).moment_error
    return np.zeros(z.size) if error is None else error(z)


EVERY = pytest.mark.parametrize("mechanism", INSTANCES, ids=repr)
EVERY_WITH_MOMENTS = pytest.mark.parametrize("mechanism", WITH_MOMENTS, ids=repr)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_mechanism_has_examples_and_is_exported(kind: type[Mechanism]) -> None:
    assert EXAMPLES.get(kind), f"{kind.__name__} has no example in this file: add some to EXAMPLES"
    assert getattr(room, kind.__name__, None) is kind, f"{kind.__name__} is not imported in {room.__name__}"
    assert kind.__name__ in room.__all__
    unknown = {field.name for field in fields(kind)} - set(JUST_OUTSIDE)
    assert not unknown, f"{kind.__name__} has parameters without a range: add them to JUST_OUTSIDE"


def test_a_mechanism_that_nothing_imports_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forgotten.py").write_text(
        "from dprounds.mechanisms.gaussian import Gaussian\n\n\nclass Forgotten(Gaussian):\n    pass\n"
    )
    monkeypatch.setattr(room, "__path__", [*room.__path__, str(tmp_path)])
    (forgotten,) = set(in_folder()) - set(ALL)
    del sys.modules[forgotten.__module__], room.forgotten  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="Forgotten has no example in this file"):
        test_every_mechanism_has_examples_and_is_exported(forgotten)
    monkeypatch.setitem(EXAMPLES, forgotten, [Gaussian(1.0)])
    with pytest.raises(AssertionError, match="Forgotten is not imported in"):
        test_every_mechanism_has_examples_and_is_exported(forgotten)


@EVERY
def test_zero_rounds_cost_nothing(mechanism: Mechanism) -> None:
    nothing = mechanism * 0
    assert nothing == Run() == 0 * mechanism
    assert nothing.rdp(2.0) == 0.0
    assert nothing.rdp(math.inf) == 0.0
    assert nothing.log_moment(1.5) == 0.0
    assert nothing.log_moment(1.5 + 1j) == 0j
    assert nothing.infinite_mass == 0.0
    assert nothing.max_loss() == 0.0


@EVERY
def test_n_rounds_equal_n_releases(mechanism: Mechanism) -> None:
    thrice = mechanism + mechanism + mechanism
    assert thrice == 3 * mechanism == mechanism * 3
    assert hash(thrice) == hash(mechanism * 3)
    np.testing.assert_allclose(thrice.rdp(ORDERS), 3 * np.asarray(mechanism.rdp(ORDERS)), rtol=RTOL)
    for direction in mechanism.directions if mechanism.has_moment_function else ():
        z = np.array([0.5 + 1j, 4.0 - 3j])
        np.testing.assert_allclose(
            thrice.log_moment(z, direction), 3 * np.asarray(mechanism.log_moment(z, direction)), rtol=RTOL
        )
        assert thrice.max_loss(direction) == pytest.approx(3 * mechanism.max_loss(direction), rel=RTOL)


@EVERY
def test_rdp_does_not_fall_with_the_order(mechanism: Mechanism) -> None:
    rdp = np.asarray(mechanism.rdp(np.append(ORDERS, math.inf)))
    assert (rdp[1:] >= rdp[:-1] * (1 - RTOL)).all()
    assert (rdp >= 0).all()


@EVERY
def test_order_minus_one_times_rdp_is_convex(mechanism: Mechanism) -> None:
    low, high = ORDERS[:-1], ORDERS[1:]
    for share in (0.25, 0.5, 0.9):
        middle = (1 - share) * low + share * high
        bound = (middle - 1) * np.asarray(mechanism.rdp(middle))
        chord = (1 - share) * (low - 1) * np.asarray(mechanism.rdp(low)) + share * (high - 1) * np.asarray(
            mechanism.rdp(high)
        )
        finite = np.isfinite(chord)
        assert (bound[finite] <= chord[finite] * (1 + RTOL)).all()


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, field.name) for kind in ALL if kind in EXAMPLES for field in fields(kind)],  # type: ignore[arg-type]
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_parameter_refuses_what_is_outside_its_range(kind: type[Mechanism], name: str) -> None:
    valid = {field.name: JUST_OUTSIDE[field.name][0] for field in fields(kind)}  # type: ignore[arg-type]
    assert isinstance(kind(**valid), kind)
    for bad in [math.nan, "1.0", None, 1j, *JUST_OUTSIDE[name][1]]:
        with pytest.raises(ParameterError, match=name):
            kind(**{**valid, name: bad})


@EVERY
def test_repr_evaluates_to_an_equal_object(mechanism: Mechanism) -> None:
    again = eval(repr(mechanism), vars(room).copy())
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert eval(repr(mechanism * 7), vars(room).copy()) == mechanism * 7
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism


@EVERY
def test_a_run_that_has_answered_is_pickled_and_copied_as_one_that_has_not(mechanism: Mechanism) -> None:
    run = mechanism * 3
    fresh = pickle.dumps(run)
    answer = run.guarantee(delta=0.25)
    assert pickle.dumps(run) == fresh
    assert pickle.loads(fresh).guarantee(delta=0.25) == copy.deepcopy(run).guarantee(delta=0.25) == answer


def test_different_mechanisms_differ() -> None:
    assert len(set(INSTANCES)) == len(INSTANCES)
    assert len({PureDP(1.0), RandomizedResponse(1.0)}) == 2
    assert Gaussian(1) == Gaussian(1.0) == Gaussian(np.float64(1.0))


@EVERY
def test_values_are_frozen(mechanism: Mechanism) -> None:
    with pytest.raises(AttributeError):
        setattr(mechanism, fields(mechanism)[0].name, 1.0)  # type: ignore[arg-type]


@EVERY
def test_scalars_give_floats_and_arrays_keep_their_shape(mechanism: Mechanism) -> None:
    assert type(mechanism.rdp(2.0)) is float
    grid = np.array([[1.5, 2.0], [7.0, math.inf]])
    bounds = np.asarray(mechanism.rdp(grid))
    assert bounds.shape == grid.shape
    np.testing.assert_allclose(bounds[1, 0], mechanism.rdp(7.0), rtol=RTOL)
    assert np.asarray(mechanism.rdp([])).shape == (0,)
    if mechanism.has_moment_function:
        assert type(mechanism.log_moment(2.0)) is float
        assert type(mechanism.log_moment(2.0 + 1j)) is complex
        assert np.asarray(mechanism.log_moment([])).shape == (0,)
        assert np.asarray(mechanism.log_moment(np.ones((2, 3)))).shape == (2, 3)
        assert np.asarray(mechanism.log_moment(np.ones((2, 3)) + 0j)).dtype == np.complex128


@EVERY_WITH_MOMENTS
def test_rdp_is_the_moment_function_on_the_real_line(mechanism: Mechanism) -> None:
    if mechanism.infinite_mass > 0:
        assert (np.asarray(mechanism.rdp(ORDERS)) == math.inf).all()
        return
    t = resolved(mechanism, ORDERS - 1)
    along = np.asarray(mechanism.log_moment(t))
    bounds = t * np.asarray(mechanism.rdp(t + 1))
    stated = 3 * np.asarray(stated_errors(mechanism, t, "remove"))
    assert (bounds <= along * (1 + RTOL) + 1e-299 + stated).all()
    # the moments of these are those of a dominating pair, and their Rényi bounds come closer to those of neighbours
    is_closer = isinstance(mechanism, FixedSizeSampled) or (
        isinstance(mechanism, PoissonSampled | TruncatedPoissonSampled)
        and mechanism.relation in ("replace-one", "zero-out")
        and not (isinstance(mechanism, PoissonSampled) and mechanism.relation == "zero-out")
    )
    if not is_closer:
        assert (bounds >= along).all()


@EVERY_WITH_MOMENTS
def test_remove_is_the_larger_direction(mechanism: Mechanism) -> None:
    t = resolved(mechanism, ORDERS - 1)
    for direction in mechanism.directions:
        larger, either = np.asarray(mechanism.log_moment(t)), np.asarray(mechanism.log_moment(t, direction))
        stated = stated_errors(mechanism, t, direction) + stated_errors(mechanism, t, "remove")
        assert (either <= larger + RTOL * np.abs(larger) + stated).all()
        assert mechanism.max_loss(direction) <= mechanism.max_loss("remove") * (1 + RTOL)


@EVERY_WITH_MOMENTS
@given(t=st.floats(1e-3, 60.0), s=st.floats(0.0, 80.0))
@settings(deadline=None, max_examples=15)
def test_moments_off_the_real_line_are_conjugate_and_no_larger(mechanism: Mechanism, t: float, s: float) -> None:
    t = min(t, mechanism.law().largest_t)
    for direction in mechanism.directions:
        above, below = np.asarray(mechanism.log_moment(np.array([t + 1j * s, t - 1j * s]), direction))
        on_line = mechanism.log_moment(t, direction)
        # |exp K| <= exp K(t), compared as differences from one when K is small. A phase s * loss rounds by its
        # size times 2^-53; losses in these examples that carry weight are below 1e4.
        slack = RTOL * (abs(above) + abs(on_line)) + 1e-11 * (1 - math.exp(-abs(on_line)))
        slack += 2 * float(stated_errors(mechanism, np.array([t + 1j * s, t]), direction).max())
        assert above.real <= on_line + slack
        ratio = np.exp(above - on_line) - np.exp(np.conj(below) - on_line)
        assert abs(ratio) <= slack + 1e-300


@EVERY
def test_orders_and_points_outside_their_range_are_refused(mechanism: Mechanism) -> None:
    for order in (1.0, 0.5, math.nan, -math.inf, "2", None, 2j):
        with pytest.raises(ParameterError, match="order"):
            mechanism.rdp(order)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="direction must be one of 'remove'"):
        mechanism.log_moment(1.0, "sideways")
    with pytest.raises(ParameterError, match="direction"):
        mechanism.max_loss("sideways")
    if not mechanism.has_moment_function:
        with pytest.raises(UnsupportedError, match="no moment function"):
            mechanism.log_moment(1.0)
        return
    for z in (0.0, -1.0, math.nan, math.inf, 0j, -1 + 1j, complex(math.nan, 0), complex(1, math.nan), "1", None):
        with pytest.raises(ParameterError, match="z must"):
            mechanism.log_moment(z)  # type: ignore[arg-type]


@EVERY
def test_infinite_order_is_the_pure_bound(mechanism: Mechanism) -> None:
    pure = mechanism.rdp(math.inf)
    if mechanism.infinite_mass > 0:
        assert pure == math.inf
    else:
        assert pure == max(mechanism.max_loss(direction) for direction in mechanism.directions)


@EVERY_WITH_MOMENTS
def test_the_largest_loss_is_the_limit_of_the_slope_of_the_moments(mechanism: Mechanism) -> None:
    """The slope of K never exceeds the largest loss and tends to it. `rdp` is cut at that loss and cannot show this."""
    # where every loss is bounded, its largest value has a mass; that of sampled unbounded noise is only approached
    is_attained = all(mechanism.max_loss(direction) < math.inf for direction in mechanism.directions)
    for direction in mechanism.directions:
        largest = mechanism.max_loss(direction)

        def slope(t: float, direction: str = direction) -> float:
            return float(mechanism.log_moment(2 * t, direction) - mechanism.log_moment(t, direction)) / t

        if largest == math.inf:
            if mechanism.law().largest_t < math.inf:
                assert slope(0.5 * mechanism.law().largest_t) > slope(0.1 * mechanism.law().largest_t) > 0
                continue
            assert slope(4e6) > 3 * slope(1e6) > 0  # it grows like t
            continue
        far = 1e6 / (largest or 1.0)
        assert slope(far) <= largest * (1 + RTOL)
        has_mass = mechanism.law(direction).lattice is not None or mechanism.law(direction).atoms is not None
        # a density up to the largest loss is one over t short of it
        assert slope(far) >= largest * (1 - ((1e-9 if has_mass else 3e-6) if is_attained else 0.08))


def test_release_is_the_common_face_of_mechanisms_and_runs() -> None:
    assert issubclass(Mechanism, Release)
    assert issubclass(Run, Release)
