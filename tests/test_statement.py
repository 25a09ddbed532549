"""Statements: every sentence is true for every mechanism and loader, and all four forms say the same."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dprounds as library
from dprounds import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscretePair,
    ExponentialMechanism,
    Gaussian,
    InfeasibleError,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    UnsupportedError,
)
from dprounds.certificates import certify, certify_rdp, verify
from dprounds.mechanisms import Mechanism, Run
from dprounds.statement import METHODS, SAMPLINGS, Statement, rounded_down, rounded_up

Typed = Callable[[str], tuple[int, str, str]]
SGD = PoissonSampled(Gaussian(1.1), 0.01) * 1000
RUNS: dict[str, Run] = {
    "Gaussian": Gaussian(20.0) * 500,
    "Laplace": Laplace(10.0) * 20,
    "DiscreteGaussian": DiscreteGaussian(10.0) * 30,
    "DiscreteLaplace": library.DiscreteLaplace(10.0) * 5,
    "RandomizedResponse": RandomizedResponse(0.1) * 100,
    "PureDP": PureDP(0.1) * 10,
    "ApproximateDP": ApproximateDP(0.1, 1e-8) * 10,
    "ExponentialMechanism": ExponentialMechanism(0.1) * 10,
    "DiscretePair": DiscretePair((0.6, 0.4), (0.4, 0.6)) * 5,
    "ZCDP": ZCDP(0.001) * 10,
    "RdpCurve": RdpCurve((2.0, 8.0, 32.0), (0.01, 0.04, 0.2)) * 2,
    "PoissonSampled": SGD,
    "MixtureOfGaussians": library.MixtureOfGaussians(5.0, shifts=(0.0, 1.0, 2.0), probabilities=(0.5, 0.3, 0.2)) * 1,
    "RandomAllocation": library.RandomAllocation(Gaussian(2.0), steps=10) * 1,
    "FixedSizeSampled": library.FixedSizeSampled(Gaussian(3.0), batch_size=10, dataset_size=1000) * 1,
    "Shuffled": library.Shuffled(Gaussian(2.0), steps=20) * 1,
    "TruncatedPoissonSampled": library.TruncatedPoissonSampled(Gaussian(3.0), 0.01, 15, 1000) * 10,
    "groups": PoissonSampled(Gaussian(1.1), 0.01, group_size=3) * 300,
    "zero-out": PoissonSampled(Gaussian(1.1), 0.01, relation="zero-out") * 300,
    "sampled Laplace": PoissonSampled(Laplace(2.0), 0.01) * 300,
    "mixture": SGD + Laplace(20.0) * 2 + PureDP(0.01) * 3,
    "nothing": Run(),
}


# What takes seconds is computed once, and not again to compare.
SLOW = {
    "FixedSizeSampled",
    "Laplace",
    "MixtureOfGaussians",
    "RandomAllocation",
    "Shuffled",
    "groups",
    "sampled Laplace",
}


@cache
def stated(name: str) -> Statement:
    return RUNS[name].statement(delta=1e-5)


def test_every_public_mechanism_is_read() -> None:
    kinds = {
        name
        for name in library.__all__
        if isinstance(kind := getattr(library, name), type) and issubclass(kind, Mechanism)
    }
    assert kinds <= set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_every_sentence_is_true(name: str) -> None:
    run, delta = RUNS[name], 1e-5
    found = stated(name)
    clauses = found.clauses
    guarantee = run.guarantee(delta=delta)
    # the guarantee, on the safe side
    assert Fraction(found.epsilon) >= Fraction(repr(guarantee.epsilon))
    assert float(found.epsilon) <= guarantee.epsilon * (1 + 1e-4)
    assert Fraction(found.lower) <= Fraction(repr(guarantee.lower))
    assert float(found.delta) == delta
    assert f"ε = {found.epsilon} and δ = {found.delta}" in clauses["Guarantee"]
    # what was released, and between which data sets it holds
    assert all(str(rounds) in clauses["Release"] for _, rounds in run.parts)
    assert all(type(part).__name__ in clauses["Release"] for part in run.mechanisms)
    assert ("one record" in clauses["Neighbours"]) == (run.relation is not None and found.group_size == 1)
    assert ("taken for neighbours" in clauses["Neighbours"]) == (run.relation is None)
    assert ("3 records" in clauses["Neighbours"]) == (name == "groups")
    assert "{" not in clauses["Neighbours"]
    # what an attacker finds
    epsilon = guarantee.epsilon
    known = min(delta + math.exp(epsilon) * 0.01, 1.0 - math.exp(-epsilon) * (0.99 - delta), 1.0)  # by (ε, δ) alone
    if run.has_moment_function and name not in SLOW:
        known = min(known, run.true_positive_rate(0.01))
    assert float(found.detected) >= 100.0 * known * (1 - 1e-9) or name in SLOW
    assert float(found.detected) <= 100.0 * known * 1.01 + 1e-9
    if found.mu is not None and name not in SLOW:
        summary = run.gaussian(delta=delta)
        assert float(found.mu) >= summary.mu
        assert found.mu_delta is not None
        assert float(found.mu_delta) >= summary.delta
    # how it was accounted
    if guarantee.method in METHODS:
        assert METHODS[guarantee.method] in clauses["Accounting"]
    else:
        assert "privacy losses of all rounds" in clauses["Accounting"]
        assert ("upper bound" in clauses["Accounting"]) == (guarantee.method == "bound")
    # what was assumed
    inner = [getattr(part, "mechanism", part) for part in run.mechanisms]
    assumed = clauses["Assumed, not checked"]
    in_units = [each for each in inner if hasattr(each, "noise_multiplier") and not hasattr(each, "shifts")]
    assert ("clipped" in assumed) == bool(in_units)
    assert ("drawn with the stated probabilities" in assumed) == (name == "MixtureOfGaussians")
    assert ("described by a guarantee" in assumed) == any(not hasattr(each, "noise_multiplier") for each in inner)
    ways = {
        "poisson": "entered the batch with the stated probability, independently of all other records and of other",
        "truncated": "was drawn with the stated probability, independently of all other records and of other rounds",
        "fixed-size": "without replacement, independently of other rounds",
        "shuffled": "in a random order that was drawn anew",
        "allocation": "of the other records and of other epochs; a draw was used again only where repeats",
    }
    assert {way for way, words in ways.items() if words in assumed} == {*filter(None, (run.sampling or "").split(", "))}
    assert ("was kept secret." in assumed) == (run.sampling is not None)
    assert ("bounded for the same neighbours" in assumed) == (name == "mixture")
    assert "without looking at the data" in assumed
    assert clauses["Certificate"] == "None. All numbers here were computed in floating point."
    assert "proven" not in clauses["Accounting"]


@pytest.mark.parametrize("name", RUNS)
def test_all_forms_say_the_same(name: str) -> None:
    found = stated(name)
    clauses = found.clauses
    assert str(found).splitlines() == [f"{title}: {sentence}" for title, sentence in clauses.items()]
    assert found.markdown().replace("\\", "").splitlines() == [
        f"- **{title}**: {text}" for title, text in clauses.items()
    ]
    latex = found.latex()
    assert latex.isascii()
    assert "?" not in latex
    assert latex.count("\\item[") == len(clauses)
    read = json.loads(found.json())
    assert read["clauses"] == clauses
    assert (read["epsilon"], read["assumed"]) == (found.epsilon, list(found.assumed))


def test_every_way_to_sample_has_its_words() -> None:
    ways = {way for run in RUNS.values() for way in (run.sampling or "").split(", ") if way}
    assert ways <= set(SAMPLINGS)


def test_a_certificate_is_stated_with_its_hash() -> None:
    claim = certify(SGD, delta=1e-5, digits=7)
    found = SGD.statement(certificate=claim)
    assert found.epsilon == claim.claimed["epsilon"]
    assert f"SHA-256 {claim.sha256}" in found.clauses["Certificate"]
    assert "It proves ε and δ; all other numbers" in found.clauses["Certificate"]
    assert "ball arithmetic" in found.clauses["Accounting"]
    shuffled = Laplace(20.0) * 2 + Gaussian(9.0) * 3
    assert certify(Gaussian(9.0) * 3 + Laplace(20.0) * 2, delta=1e-5).is_about(shuffled)


def test_a_certificate_where_the_library_has_a_renyi_bound_alone_is_not_called_one() -> None:
    run = ApproximateDP(0.3, 1e-6) * 4 + PoissonSampled(Gaussian(1.0), 0.01) * 3
    claim = certify(run, delta=1e-5)
    found = run.statement(certificate=claim)
    assert run.statement(delta=1e-5).order is not None
    assert (found.method, found.order) == ("bound", None)
    assert found.clauses["Accounting"].startswith(
        "An upper bound on the privacy losses of all rounds together. The guar"
    )


def test_a_certificate_whose_numbers_are_fractions_is_stated_in_decimals(tmp_path: Path) -> None:
    document = json.loads(certify(Gaussian(20.0) * 500, delta=1e-5).text)
    document["claim"] |= {"epsilon": "1495021/300000", "delta": "1/99999"}
    (tmp_path / "claim.json").write_text(json.dumps(document))
    claim = verify(tmp_path / "claim.json")
    assert (claim.epsilon, claim.delta) == (1495021 / 300000, 1 / 99999)
    found = (Gaussian(20.0) * 500).statement(certificate=claim)
    assert (found.epsilon, found.delta) == ("4.9835", "0.000010001")
    assert Fraction(found.epsilon) >= Fraction(1495021, 300000)


def test_a_mechanism_of_ones_own_cannot_add_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "__repr__", lambda self: "Gaussian(9)\nGuarantee: none \u2028 ε = 0")
    found = (Gaussian(20.0) * 500).statement(delta=1e-5)
    assert len(str(found).splitlines()) == len(found.clauses)


def test_long_lists_are_shortened_in_latex_too() -> None:
    pair = DiscretePair((1 / 400,) * 400, (1 / 400,) * 400)
    assert "\\ldots{} (shortened)" in (pair * 2).statement(delta=1e-5).latex()


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (SGD.statement, ParameterError),
        (lambda: SGD.statement(delta=math.nan), ParameterError),
        (lambda: (SGD * 2).statement(certificate=certify(SGD, delta=1e-5)), ParameterError),
        (lambda: (DiscreteGaussian(3.0) * 2).statement(certificate=certify(SGD, delta=1e-5)), ParameterError),
        (lambda: SGD.statement(certificate=certify_rdp(SGD, order=2.0)), ParameterError),
        (lambda: SGD.statement(certificate=certify(SGD, delta=1e-5), method="moments"), ParameterError),
        (lambda: SGD.statement(delta=1e-6, certificate=certify(SGD, delta=1e-5)), ParameterError),
        (lambda: (Gaussian(1.0) * 2).statement(delta=0.0), InfeasibleError),
        (
            lambda: (SGD + PoissonSampled(Gaussian(1.1), 0.01, group_size=2) * 3).statement(delta=1e-5),
            UnsupportedError,
        ),
    ],
)
def test_what_would_be_false_is_not_stated(ask: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ask()


@pytest.mark.parametrize("value", [2.38151, 0.1, 1e-9, 123456.7, 99999.6, 0.3, 1.0, 5e-324, 1.7e308])
def test_rounding_stays_on_its_side(value: float) -> None:
    exact = Fraction(repr(value))
    assert exact * (1 - Fraction(1, 5000)) <= Fraction(rounded_down(value)) <= exact <= Fraction(rounded_up(value))
    assert Fraction(rounded_up(value)) <= exact * (1 + Fraction(1, 5000))


def test_the_command_prints_a_statement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from dprounds.cli import main

    def typed(line: str) -> tuple[int, str, str]:
        code = main(line.split())
        out, err = capsys.readouterr()
        return code, out, err

    sgd = "--noise-multiplier 1.1 --sampling-rate 0.01 --rounds 1000"
    code, out, _ = typed(f"statement {sgd} --delta 1e-5")
    assert (code, out) == (0, f"{SGD.statement(delta=1e-5)}\n")
    claim = certify(SGD, delta=1e-5)
    claim.save(tmp_path / "claim.json")
    code, out, _ = typed(f"statement {sgd} --certificate {tmp_path / 'claim.json'} --format json")
    assert (code, json.loads(out)["certificate"]) == (0, claim.sha256)
    assert typed(f"statement {sgd} --delta 1e-5 --format latex")[1].startswith("\\begin{description}")
    assert typed(f"statement {sgd} --delta 1e-5 --format markdown")[1].startswith("- **Release**")
    for line, expected in (
        (f"statement {sgd}", 2),
        (f"statement {sgd} --delta 1e-5 --format word", 2),
        (f"statement {sgd} --certificate {tmp_path / 'none.json'}", 1),
        (f"statement {sgd}0 --certificate {tmp_path / 'claim.json'}", 1),
    ):
        code, out, err = typed(line)
        assert (code, out, err.count("\n")) == (expected, "", 1)
