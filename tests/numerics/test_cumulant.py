from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dprounds.accounting.law import LOG_MOMENT_ERROR
from dprounds.numerics import cumulant
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]


def law(scale: float, share: float) -> tuple[Array, Array, Callable[[complex], Any]]:
    """Points -a and b, the log-weights for which E[exp(-X)] = 1, and the exact cumulant."""
    values = np.array([-scale * share, scale])
    with mp.workdps(60):
        a, b = mp.mpf(float(-values[0])), mp.mpf(float(values[1]))
        total = mp.exp(a) - mp.exp(-b)
        weights = [-mp.expm1(-b) / total, mp.expm1(a) / total]
        log_weights = np.array([float(mp.log(weight)) for weight in weights])

    def exact(z: complex) -> Any:
        with mp.workdps(60):
            return mp.log(weights[0] * mp.exp(-mp.mpmathify(z) * a) + weights[1] * mp.exp(mp.mpmathify(z) * b))

    return log_weights, values, exact


def test_a_million_equal_terms_do_not_round_alike() -> None:
    """A randomized response whose likelier answer has many names, against its closed form."""
    loss, names = 1.381726088105531, 2**20 - 1
    with mp.workdps(40):
        shares = [mp.exp(sign * mp.mpf(loss)) / (1 + mp.exp(sign * mp.mpf(loss))) for sign in (1, -1)]
    log_weights = np.append(np.full(names, float(mp.log(shares[0] / names))), float(mp.log(shares[1])))
    values = np.append(np.full(names, loss), -loss)
    t, s = 1.0, 0.37 * np.arange(12.0)
    line: NDArray[np.complex128] = np.asarray(t + 1j * s, dtype=np.complex128)
    found = TiltableLaw(log_weights, values, np.ones(names + 1)).complex_cumulant(line)
    with mp.workdps(40):
        on_axis = shares[0] * mp.exp(t * mp.mpf(loss)) + shares[1] * mp.exp(-t * mp.mpf(loss))
        for height, value in zip(s.tolist(), found.tolist(), strict=True):
            z = mp.mpc(t, height)
            exact = shares[0] * mp.exp(z * mp.mpf(loss)) + shares[1] * mp.exp(-z * mp.mpf(loss))
            assert abs(mp.exp(mp.mpmathify(value)) - exact) <= 0.2 * LOG_MOMENT_ERROR * (1 + height * loss) * on_axis


@given(scale=st.floats(-9.0, 2.0).map(lambda x: 10.0**x), share=st.floats(0.05, 1.0), t=st.floats(1e-6, 50.0))
@settings(deadline=None, max_examples=150)
def test_real_points_are_within_their_stated_error(scale: float, share: float, t: float) -> None:
    log_weights, values, exact = law(scale, share)
    got, error = TiltableLaw(log_weights, values, np.ones(2)).real_cumulant_with_error(np.array([t]))
    assert error[0] < 1e-12 * (1 + scale)
    with mp.workdps(60):
        assert abs(mp.mpf(float(got[0])) - exact(t)) <= error[0] * exact(t)


@given(
    scale=st.floats(-9.0, 1.0).map(lambda x: 10.0**x),
    share=st.floats(0.05, 1.0),
    t=st.floats(1e-3, 20.0),
    s=st.floats(-40.0, 40.0),
)
@settings(deadline=None, max_examples=150)
def test_complex_points_keep_error_relative_to_the_cumulant(scale: float, share: float, t: float, s: float) -> None:
    log_weights, values, exact = law(scale, share)
    z = complex(t, s)
    got = complex(TiltableLaw(log_weights, values, np.ones(2)).complex_cumulant(np.array([z]))[0])
    with mp.workdps(60):
        reference, along = exact(z), exact(t)
        difference = mp.exp(mp.mpc(got) - along) - mp.exp(reference - along)
        # Relative to the larger of |M - 1|, which is |K| when small, and 1, in units of M(t); phases turn by s x.
        size = min(1, abs(mp.expm1(reference)) + abs(mp.expm1(along)))
        assert abs(difference) <= 1e-14 * (1 + abs(z) * scale) * (1 + abs(z) / 10) * size


def test_tables_larger_than_memory_allows_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    log_weights, values, _ = law(0.3, 0.5)
    tiltable = TiltableLaw(log_weights, values, np.ones(2))
    t = np.linspace(0.1, 30, 17)
    z: NDArray[np.complex128] = np.array([complex(2.0, s) for s in t])
    whole = tiltable.real_cumulant(t)
    line = tiltable.complex_cumulant(z)
    monkeypatch.setattr(cumulant, "LARGEST_TABLE", 6)
    np.testing.assert_array_equal(tiltable.real_cumulant(t), whole)
    assert np.abs(tiltable.complex_cumulant(z) / line - 1).max() < 1e-14


def error_on_line(s: Array) -> float:
    """The largest error of M on a line, in units of rounding of what K is summed from there."""
    log_weights, values, exact = law(0.05, 0.7)
    t, largest = 1.5, 0.0
    got = TiltableLaw(log_weights, values, np.ones(2)).complex_cumulant(np.asarray(t + 1j * s))
    with mp.workdps(40):
        on_axis = exact(t)
        for one, height in zip(got, s.tolist(), strict=True):
            truth = mp.exp(exact(complex(t, height)) - on_axis)
            turning = min(0.5 * (height * float(values.max())) ** 2, height * float(values.max()))
            size = float(on_axis) + 0.1 * height * float(values.max()) + turning
            largest = max(largest, float(abs(mp.exp(mp.mpc(complex(one)) - on_axis) - truth)) / size)
    return largest / UNIT_ROUNDOFF


def test_a_line_keeps_its_digits_where_its_points_are_evenly_spaced() -> None:
    nodes: Array = 0.8 * np.arange(90, dtype=np.float64)
    assert error_on_line(nodes) < 30
    assert error_on_line(nodes[37:]) < 30


def test_points_that_are_not_evenly_spaced_are_taken_one_by_one() -> None:
    nodes: Array = 0.8 * np.arange(64, dtype=np.float64)
    nodes[41] *= 1.0 + 2.0**-44
    assert error_on_line(nodes) < 30
    assert error_on_line(np.geomspace(0.1, 70.0, 64, dtype=np.float64)) < 30
