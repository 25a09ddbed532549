"""``dprounds certify`` and ``dprounds verify``: the contract that other programs call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Typed = Callable[[str], tuple[int, str, str]]
SGD = "--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000"


def test_a_certificate_is_written_and_verified(dprounds: Typed, tmp_path: Path) -> None:
    file = tmp_path / "claim.json"
    code, out, err = dprounds(f"certify {SGD} --rounds 14062 --delta 1e-5 --out {file}")
    assert (code, err) == (0, "")
    said, held_for, written = out.splitlines()
    assert said == "Verified: 14062 × poisson-sampled-gaussian (ε = 2.3816, δ = 1e-05)"
    assert written == f"Written to {file}, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}."
    assert held_for.startswith("Holds for: add or remove one record, Poisson sampling (")
    assert dprounds(f"verify {file}") == (0, f"{said}\n{held_for}\n", "")
    file.write_text(file.read_text().replace('"epsilon":"2.3816"', '"epsilon":"2.3815"'))
    code, out, err = dprounds(f"verify {file}")
    assert (code, out) == (1, "")
    assert err == "Error: The evidence does not prove delta (remove).\n"


def test_delta_digits_two_sides_and_a_file_can_be_asked_for(dprounds: Typed, tmp_path: Path) -> None:
    file, run = tmp_path / "claim.json", tmp_path / "run.toml"
    run.write_text(
        "[[part]]\nnoise_multiplier = 20.0\nrounds = 500\n"
        '[[part]]\nmechanism = "laplace"\nnoise_multiplier = 9\nrounds = 2\n'
    )
    assert dprounds(f"certify --run {run} --epsilon 5 --digits 3 -o {file}")[0] == 0
    claim = json.loads(file.read_text())["claim"]
    assert [part["mechanism"] for part in claim["run"]] == ["gaussian", "laplace"]
    assert claim["epsilon"] == "5.0"
    assert dprounds(f"certify --noise-multiplier 20 --rounds 500 --delta 1e-5 --two-sided -o {file}")[0] == 0
    assert json.loads(file.read_text())["claim"]["lower_epsilon"] == "4.9833"


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (f"certify {SGD} --rounds 10 --delta 1e-5", 2, "--out is missing"),
        (f"certify {SGD} --rounds 10 --out claim.json", 2, "either --delta or --epsilon. Of δ: choose it below one"),
        (f"statement {SGD} --rounds 10", 2, "such as 1e-05 for 60,000. Or give a --certificate."),
        (f"certify {SGD} --rounds 10 --delta 1e-5 --epsilon 1 --out claim.json", 2, "either --delta or --epsilon"),
        (f"certify {SGD} --delta 1e-5 --out claim.json", 2, "--rounds are missing"),
        ("certify --mechanism zcdp --rho 0.1 --rounds 5 --delta 1e-5 --out claim.json", 1, "No certificate covers"),
        ("certify --noise-multiplier 20 --rounds 5 --delta 1e-5 --out no/such/folder.json", 1, "cannot be written"),
        ("certify --noise-multiplier 20 --rounds 5 --delta nan --out claim.json", 1, "delta"),
        (f"certify {SGD} --rounds 10 --delta 5e-324 --out claim.json", 1, "No certificate was found"),
        (
            "certify --noise-multiplier 1e20 --rounds 10 --delta 1e-5 --out claim.json",
            1,
            "noise multipliers up to 1e+09",
        ),
        ("certify --noise-multiplier 1.1 --rounds 1e18 --delta 1e-5 --out claim.json", 1, "up to 1e+15 rounds"),
        ("certify --noise-multiplier 1 --sampling-rate 1e-300 --rounds 3 --delta 1e-5 --out claim.json", 1, "resolve"),
        (
            "certify --noise-multiplier 0.01 --sampling allocation --batch-size 10 --dataset-size 100 --epochs 3 "
            "--delta 1e-5 --out claim.json",
            1,
            "doubles resolve",
        ),
        ("verify no-such-file.json", 1, "cannot be read"),
        ("verify", 2, "CLAIM"),
    ],
)
def test_what_is_wrong_takes_one_line(dprounds: Typed, line: str, code: int, says: str) -> None:
    found, out, err = dprounds(line)
    assert (found, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (f"statement {SGD} --rounds 10 --delta 1e-4", "Choose δ below it, such as 1e-05."),
        (f"certify {SGD} --rounds 10 --delta 1e-4 --out FILE", "Choose δ below it, such as 1e-05."),
        (f"certify {SGD} --rounds 10 --epsilon 0.01 --out FILE", "Ask for the ε of a δ below it, such as 1e-05."),
    ],
)
def test_a_delta_that_protects_nobody_is_remarked_on_beside_what_is_printed(
    dprounds: Typed, tmp_path: Path, line: str, advice: str
) -> None:
    code, out, err = dprounds(line.replace("FILE", str(tmp_path / "claim.json")))
    assert code == 0
    assert "is not below 1/60,000" in err
    assert err.rstrip().endswith(advice)
    assert "1/60,000" not in out


def test_a_certificate_of_a_conversion_holds_for_the_neighbours_of_its_renyi_bound(
    dprounds: Typed, tmp_path: Path
) -> None:
    file = tmp_path / "claim.json"
    certificates = pytest.importorskip("dprounds.certificates")
    certificates.certify_conversion(0.5, order=8.0, delta=1e-5).save(file)
    code, out, _ = dprounds(f"verify {file}")
    assert code == 0
    assert out.splitlines()[-1] == "Holds for the neighbours for which the Rényi bound holds."
