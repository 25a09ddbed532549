"""The public face is a contract: exactly these names, and a light import."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import dprounds
from dprounds import InfeasibleError, NumericalError, ParameterError, PrivacyError, UnsupportedError

NAMES = {
    *("epsilon_from_rdp", "delta_from_rdp", "rdp_from_dp", "worst_pair", "joint_range"),
    *("Gaussian", "Laplace", "RandomizedResponse", "PureDP", "ApproximateDP", "CertificateError", "DiscreteGaussian"),
    *("DiscreteLaplace", "DiscretePair", "ExponentialMechanism", "ZCDP", "RdpCurve", "PoissonSampled"),
    *("MixtureOfGaussians", "RandomAllocation", "FixedSizeSampled", "Shuffled", "TruncatedPoissonSampled"),
    *("banded_matrix_mechanism", "matrix_mechanism", "matrix_sensitivity"),
    *("max_rounds", "min_noise_multiplier", "max_sampling_rate", "Accountant", "Guarantee"),
    *("frontier", "best_plan"),
    *("PrivacyError", "ParameterError", "UnsupportedError", "InfeasibleError", "NumericalError"),
}


def test_the_public_names_are_these() -> None:
    assert set(dprounds.__all__) == NAMES
    assert all(hasattr(dprounds, name) for name in NAMES)


def test_the_file_that_type_checkers_read_uses_every_name() -> None:
    text = (Path(__file__).parent / "public_types.py").read_text().partition("\nArray = ")[2]
    assert {name for name in dprounds.__all__ if not re.search(rf"\b{name}\b", text)} == set()


def test_every_error_is_a_privacy_error_and_a_parameter_error_a_value_error() -> None:
    for error in (ParameterError, UnsupportedError, InfeasibleError, NumericalError):
        assert issubclass(error, PrivacyError)
    assert issubclass(ParameterError, ValueError)


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, dprounds; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ["matplotlib", "typer", "rich", "scipy.optimize", "scipy.stats", "scipy.integrate", "pandas"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
