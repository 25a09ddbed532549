"""Claims: rounded up to what people quote, proven before they are returned, canonical, and read back."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from dprounds import (
    ApproximateDP,
    CertificateError,
    DiscreteGaussian,
    Gaussian,
    InfeasibleError,
    Laplace,
    NumericalError,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    UnsupportedError,
    epsilon_from_rdp,
)
from dprounds.certificates import certify, certify_conversion, certify_rdp, verify
from dprounds.certificates.evidence import upper_line
from dprounds.certificates.lattice import lattice_near
from dprounds.mechanisms import Run

DOCS = Path(__file__).parents[2] / "docs"
SGD = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062
RUNS: dict[str, tuple[Any, float]] = {
    "gaussian": (Gaussian(20.0) * 685, 1e-5),
    "one gaussian": (Gaussian(1.0), 1e-5),
    "DP-SGD": (SGD, 1e-5),
    "zero-out": (PoissonSampled(Gaussian(1.1), 0.01, relation="zero-out") * 1000, 1e-5),
    "large noise": (PoissonSampled(Gaussian(4.0), 0.001) * 100_000, 1e-5),
    "a billion rounds": (PoissonSampled(Gaussian(2.0), 1e-5) * 10**9, 1e-8),
    "small delta": (PoissonSampled(Gaussian(2.0), 0.01) * 1500, 1e-15),
    "every record": (PoissonSampled(Gaussian(2.0), 1.0) * 7, 1e-5),
    "two kinds": (PoissonSampled(Gaussian(1.1), 0.004) * 1000 + PoissonSampled(Gaussian(2.0), 0.01) * 3000, 1e-6),
    "random allocation": (RandomAllocation(Gaussian(1.1), steps=234) * 60, 1e-5),
    "repeated allocations": (RandomAllocation(Gaussian(3.0), steps=50, repeats=3, relation="zero-out") * 4, 1e-6),
    "laplace": (Laplace(10.0) * 30, 1e-5),
    "responses": (RandomizedResponse(0.1) * 200, 1e-6),
    "pure": (PureDP(0.5) * 3, 1e-6),
    "approximate": (ApproximateDP(0.1, 1e-8) * 50, 1e-5),
    "mixture": (Gaussian(5.0) * 10 + Laplace(10.0) * 20 + RandomizedResponse(0.2) * 5, 1e-5),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_claim_is_the_least_short_decimal_that_is_true(name: str, tmp_path: Path) -> None:
    run, delta = RUNS[name]
    claim = certify(run, delta=delta)
    found = run.as_run().guarantee(delta=delta)
    assert found.lower <= claim.epsilon <= found.upper + 1.1e-4
    assert float(claim.claimed["delta"]) == delta
    assert len(claim.claimed["epsilon"].replace(".", "").lstrip("0")) <= 6
    claim.save(tmp_path / "claim.json")
    again = verify(tmp_path / "claim.json")
    assert again == claim
    assert hashlib.sha256((tmp_path / "claim.json").read_bytes()).hexdigest() == claim.sha256


def test_a_two_sided_claim_has_neighbours_within_a_ten_thousandth() -> None:
    claim = certify(SGD, delta=1e-5, two_sided=True)
    assert (claim.claimed["epsilon"], claim.claimed["lower_epsilon"]) == ("2.3816", "2.3815")
    assert claim.sentence.endswith("(ε = 2.3816, δ = 1e-05), and not at ε = 2.3815")


def test_delta_is_claimed_at_an_epsilon() -> None:
    claim = certify(SGD, epsilon=2.3816)
    assert claim.claimed["delta"] == "0.0000099998"
    assert claim.claimed["epsilon"] == "2.3816"


def test_more_digits_are_closer() -> None:
    epsilon = SGD.guarantee(delta=1e-5)
    claim = certify(SGD, delta=1e-5, digits=10)
    assert epsilon.lower <= claim.epsilon <= epsilon.upper + 2e-9


def test_the_schema_describes_every_kind_of_claim() -> None:
    schema = json.loads((DOCS / "certificate.schema.json").read_text())
    made = [certify(SGD, delta=1e-5, two_sided=True), certify(PureDP(0.5) * 3, delta=1e-6), certify_rdp(SGD, order=8.0)]
    made += [certify_conversion(0.5, order=8.0, delta=1e-5), certify(ApproximateDP(0.1, 1e-8) * 50, delta=1e-5)]
    made += [certify(RandomAllocation(Gaussian(1.0), steps=50) * 3, delta=1e-5, two_sided=True)]
    for claim in made:
        document = json.loads(claim.text)
        assert jsonschema_rs.is_valid(schema, document)
        assert not jsonschema_rs.is_valid(schema, document | {"version": 2})
        assert not jsonschema_rs.is_valid(schema, document | {"claim": document["claim"] | {"more": 1}})


def test_text_is_canonical() -> None:
    claim = certify(Gaussian(20.0) * 500, delta=1e-5)
    assert claim.text == json.dumps(json.loads(claim.text), sort_keys=True, separators=(",", ":")) + "\n"
    assert certify(Gaussian(20.0) * 500, delta=1e-5).text == claim.text


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda: certify(SGD), ParameterError, "either delta or epsilon"),
        (lambda: certify(SGD, delta=1e-5, epsilon=1.0), ParameterError, "either delta or epsilon"),
        (lambda: certify(SGD, delta=0.0), ParameterError, r"\(0, 1\)"),
        (lambda: certify(SGD, delta=float("nan")), ParameterError, "delta"),
        (lambda: certify(SGD, epsilon=float("inf")), ParameterError, "epsilon"),
        (lambda: certify(SGD, delta=1e-5, digits=0), ParameterError, "digits"),
        (lambda: certify(SGD, epsilon=1.0, two_sided=True), ParameterError, "two_sided"),
        (lambda: certify("run", delta=1e-5), ParameterError, "run"),  # type: ignore[arg-type]  # which is refused
        (lambda: certify(DiscreteGaussian(3.0) * 5, delta=1e-5), UnsupportedError, "No certificate covers"),
        (lambda: certify(PoissonSampled(Laplace(3.0), 0.1), delta=1e-5), UnsupportedError, "No certificate covers"),
        (lambda: certify(PoissonSampled(Gaussian(3.0), 0.1, group_size=2), delta=1e-5), UnsupportedError, "covers"),
        (lambda: certify(PoissonSampled(Gaussian(3.0), 1.0, group_size=2), delta=1e-5), UnsupportedError, "covers"),
        (lambda: certify(Run(), delta=1e-5), UnsupportedError, "nothing"),
        (lambda: certify(PoissonSampled(Gaussian(1.0), 0.0) * 5, delta=1e-5), UnsupportedError, "nothing"),
        (lambda: certify(ApproximateDP(0.1, 1e-3) * 50, delta=1e-5), InfeasibleError, "No finite epsilon"),
        (lambda: certify_rdp(ApproximateDP(0.1, 1e-3), order=2.0), InfeasibleError, "finite"),
        (lambda: certify_rdp(SGD, order=1.0), ParameterError, "order"),
        (lambda: certify_conversion(0.5, order=float("inf"), delta=1e-5), ParameterError, "order"),
    ],
)
def test_what_cannot_be_certified_is_said(ask: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ask()


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(CertificateError, match="cannot be read"):
            verify(path)
    (tmp_path / "claim.json").write_text("{}")
    with pytest.raises(CertificateError, match="fields"):
        verify(tmp_path / "claim.json")


def test_without_flint_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dprounds.certificates.checker", None)
    monkeypatch.delattr("dprounds.certificates.checker")
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[certificates\]'"):
        certify(Gaussian(20.0) * 500, delta=1e-5)


def test_conversions_are_as_close_as_their_digits() -> None:
    found = epsilon_from_rdp(0.5, order=8.0, delta=1e-5)
    assert isinstance(found, float)
    assert found * (1 - 1e-11) <= certify_conversion(0.5, order=8.0, delta=1e-5, digits=9).epsilon <= found + 2e-8


BEYOND_DOUBLES: dict[str, Callable[[], object]] = {
    "a tiny delta": lambda: lattice_near(PureDP(5.934647238671222e-05) * 7704, "remove", 0.5, 1.75e-298, 1e7),
    "much noise": lambda: upper_line(PoissonSampled(Gaussian(3148749.0), 0.5588) * 42, "remove", 1e-7, 8e-6),
    "little noise": lambda: certify(RandomAllocation(Gaussian(0.03978), steps=216) * 2, delta=3.0e-56),
    "many rounds": lambda: certify(PureDP(424.68) * 16_538_948_079_734, epsilon=1.287),
    "very little noise": lambda: certify(PoissonSampled(Gaussian(0.000428), 7.3e-05) * 115_447_546, epsilon=0.0),
}


@pytest.mark.parametrize("name", BEYOND_DOUBLES)
def test_where_doubles_end_there_is_one_sentence_or_an_answer(name: str) -> None:
    with suppress(NumericalError, UnsupportedError):
        BEYOND_DOUBLES[name]()


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (Gaussian(1e300) * 5, r"noise multipliers up to 1e\+09"),
        (Gaussian(1.0) * 10**30, r"up to 1e\+15 rounds"),
    ],
)
def test_numbers_that_the_checker_does_not_take_are_named_at_once(run: Run, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        certify(run, delta=1e-5)
