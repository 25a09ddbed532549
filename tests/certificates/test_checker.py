"""The checker: it stands alone, what it computes bounds the truth from the right side, and nothing false passes."""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian, Laplace, PoissonSampled, RandomizedResponse
from dprounds.certificates import Claim, certify, certify_conversion, certify_rdp, checker
from dprounds.certificates.checker import RefusedError, check

SOURCE = Path(checker.__file__)
MNIST = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062


def document(claim: Claim) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(claim.text)
    return found


def encoded(found: object) -> bytes:
    return json.dumps(found).encode()


@pytest.fixture(scope="module")
def mnist() -> dict[str, Any]:
    return document(certify(MNIST, delta=1e-5, two_sided=True))


# --- It stands alone.


def test_the_checker_imports_the_standard_library_and_flint_alone() -> None:
    names = set()
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add((node.module or "").partition(".")[0])
    assert names - {"flint"} <= set(sys.stdlib_module_names)


def test_the_checker_can_be_read_in_an_hour() -> None:
    assert len(SOURCE.read_text().splitlines()) <= 400


def test_the_checker_works_alone_in_an_empty_folder(tmp_path: Path, mnist: dict[str, Any]) -> None:
    shutil.copy(SOURCE, tmp_path / "checker.py")
    (tmp_path / "claim.json").write_bytes(encoded(mnist))
    (tmp_path / "false.json").write_bytes(encoded(mnist).replace(b'"2.3816"', b'"2.3815"'))
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ask = [sys.executable, "-I", "checker.py"]
    asked = [
        subprocess.run([*ask, name], cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
        for name in ("claim.json", "false.json", "none.json")
    ]
    assert [each.returncode for each in asked] == [0, 1, 1]
    assert asked[0].stdout.startswith("Verified: 14062 × poisson-sampled-gaussian (ε = 2.3816, δ = 1e-05)")
    assert all(each.stderr.count("\n") == 1 and each.stderr.startswith("Not verified: ") for each in asked[1:])


def test_a_terminal_without_greek_letters_is_told_too(tmp_path: Path, mnist: dict[str, Any]) -> None:
    (tmp_path / "claim.json").write_bytes(encoded(mnist))
    ask = [sys.executable, str(SOURCE), "claim.json"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    asked = subprocess.run(ask, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert asked.returncode == 0
    assert asked.stdout.startswith(r"Verified: 14062 \xd7 poisson-sampled-gaussian (\u03b5 = 2.3816")


def test_the_theory_page_shows_lines_of_the_checker() -> None:
    page = (Path(__file__).parents[2] / "docs/theory/certificates.md").read_text()
    shown = [line for block in page.split("```text\n")[1:] for line in block.partition("```")[0].splitlines()]
    assert len(shown) > 60
    assert all(line.strip() for line in shown)
    assert set(shown) <= set(SOURCE.read_text().splitlines())


def test_what_the_checker_cites_is_proven_on_the_theory_page_and_no_more() -> None:
    page = (Path(__file__).parents[2] / "docs/theory/certificates.md").read_text()
    lists = re.findall(r"\[([1-9][0-9]*[ab]?(?:, [1-9][0-9]*[ab]?)*)\]", SOURCE.read_text())
    cited = {number for numbers in lists for number in numbers.split(", ")}
    assert cited == set(re.findall(r"^\*\*\[([0-9]+[ab]?)[] ]", page, re.MULTILINE))
    assert len(cited) > 15


# --- What is refused.


def changed(found: dict[str, Any], path: tuple[Any, ...], value: object) -> bytes:
    made = copy.deepcopy(found)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return encoded(made)


FALSE = {
    "a smaller epsilon": (("claim", "epsilon"), "2.3815"),
    "a smaller delta": (("claim", "delta"), "9.9997e-6"),
    "more rounds": (("claim", "run", 0, "rounds"), 14_063),
    "less noise": (("claim", "run", 0, "noise_multiplier"), "1.0999"),
    "a higher rate": (("claim", "run", 0, "sampling_rate"), "0.004267"),
    "another relation": (("claim", "relation"), "replace-one"),
    "no relation": (("claim", "relation"), None),
    "a larger lower epsilon": (("claim", "lower_epsilon"), "2.3816"),
    "no line in one direction": (("evidence", "remove"), None),
}


@pytest.mark.parametrize("name", FALSE)
def test_false_claims_are_refused(name: str, mnist: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match=r"^[A-Z][^\n]*\.$|^\w[^\n]*\.$"):
        check(changed(mnist, *FALSE[name]))


NONSENSE: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    "",
    "abc",
    "nan",
    "inf",
    "-1",
    "1e9999",
    "1/0",
    "0x10",
    "١",
    [],
    {},
    10**400,
    "1" * 500,
    "1e999",
    "1e-999",
]
PLACES = [
    ("version",),
    ("claim",),
    ("claim", "kind"),
    ("claim", "run"),
    ("claim", "run", 0),
    ("claim", "run", 0, "mechanism"),
    ("claim", "run", 0, "rounds"),
    ("claim", "run", 0, "noise_multiplier"),
    ("claim", "run", 0, "sampling_rate"),
    ("claim", "epsilon"),
    ("claim", "delta"),
    ("claim", "lower_epsilon"),
    ("evidence",),
    ("evidence", "remove"),
    ("evidence", "add", "tau"),
    ("evidence", "add", "step"),
    ("evidence", "remove", "nodes"),
    ("evidence", "remove", "precision"),
    ("evidence", "remove", "smoothing"),
    ("evidence", "remove", "quadratures"),
    ("evidence", "remove", "quadratures", 0, "step"),
    ("evidence", "remove", "quadratures", 0, "first"),
    ("evidence", "remove", "quadratures", 0, "strip"),
    ("evidence", "remove", "quadratures", 0, "angle"),
    ("evidence", "lower", "above"),
    ("evidence", "lower", "direction"),
]
# What is true, and may be: the numbers of these places are larger than what the run needs.
TRUE = {
    (("claim", "epsilon"), "1e999"),
    (("claim", "delta"), "1e999"),
    (("claim", "lower_epsilon"), "1e-999"),
}


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_nonsense_is_refused_in_one_sentence(path: tuple[Any, ...], mnist: dict[str, Any]) -> None:
    only_upper = copy.deepcopy(mnist)
    if "lower" not in path and "lower_epsilon" not in path:
        only_upper["claim"]["lower_epsilon"] = only_upper["evidence"]["lower"] = None
    for value in NONSENSE:
        data = changed(only_upper, path, value)
        if json.loads(data) == only_upper:
            continue
        try:
            said = check(data)
        except RefusedError as refused:
            said = str(refused)
            if "\n" in said or not said.endswith("."):
                pytest.fail(f"{said!r} is not one sentence")
        else:
            # only what cannot make the claim false may pass: evidence that still proves it, or a weaker claim
            assert path[0] == "evidence" or (path, value) in TRUE or (path == ("claim", "run", 0, "rounds")), (
                value,
                said,
            )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"nonsense",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"1" * (checker.MOST_BYTES + 1),
    ],
    ids=lambda data: data[:12].decode(errors="replace"),
)
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedError):
        check(data)


def test_a_field_given_twice_is_refused(mnist: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="twice"):
        check(encoded(mnist).replace(b'"epsilon":', b'"epsilon": "99", "epsilon":', 1))


@pytest.mark.parametrize("order", [1, -1])
def test_losses_beyond_the_doubles_are_no_crash(order: int) -> None:
    """A largest loss of 1e999 next to one without end: their sum is not to be a double."""
    laplace = {"mechanism": "laplace", "rounds": 1, "noise_multiplier": "1e-999"}
    run = [laplace, {"mechanism": "gaussian", "rounds": 1, "noise_multiplier": "1"}][::order]
    claim = {"kind": "approximate-dp", "run": run, "relation": None, "epsilon": "1", "delta": "1e-5"}
    claim |= {"lower_epsilon": None}
    evidence = {"remove": None, "lower": None}
    with pytest.raises(RefusedError, match="A line is missing"):
        check(encoded({"format": checker.FORMAT, "version": 1, "claim": claim, "evidence": evidence}))


def test_a_check_that_would_take_long_is_refused(mnist: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="products"):
        check(changed(mnist, ("evidence", "remove", "nodes"), 10**6))
    with pytest.raises(RefusedError, match="products"):
        check(changed(mnist, ("evidence", "remove", "quadratures", 0, "last"), 10**9))


# --- The other kinds.


def test_renyi_claims_hold_and_smaller_ones_do_not() -> None:
    for run in (MNIST, Gaussian(20.0) * 500, Laplace(3.0) * 4 + RandomizedResponse(0.5) * 2):
        for order in (1.5, 8.0, 40.0):
            claim = certify_rdp(run, order=order, digits=9)
            truth = run.rdp(order=order)
            assert truth * (1 - 1e-9) <= float(claim.claimed["rdp"]) <= truth * (1 + 1e-7)
            with pytest.raises(RefusedError):
                check(changed(document(claim), ("claim", "rdp"), repr(float(claim.claimed["rdp"]) * (1 - 1e-7))))


@pytest.mark.parametrize(
    ("rdp", "order", "delta"),
    [(0.5, 8.0, 1e-5), (0.05, 2.0, 0.1), (1.5, 3.0, 0.5), (4.0, 1.2, 1e-9), (0.01, 60.0, 1e-5)],
)
def test_conversions_are_proven_and_smaller_epsilons_are_not(rdp: float, order: float, delta: float) -> None:
    from dprounds import epsilon_from_rdp

    claim = certify_conversion(rdp, order=order, delta=delta, digits=8)
    truth = float(epsilon_from_rdp(rdp, order=order, delta=delta))
    assert truth * (1 - 1e-9) <= claim.epsilon <= truth * (1 + 1e-5) + 1e-6
    with pytest.raises(RefusedError):
        check(changed(document(claim), ("claim", "epsilon"), repr(truth * (1 - 1e-6))))
    with pytest.raises(RefusedError):
        check(changed(document(claim), ("claim", "rdp"), repr(rdp * (1 + 1e-3))))
