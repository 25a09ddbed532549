"""How many rounds may I train under this privacy budget?

>>> from dprounds import Gaussian, PoissonSampled, max_rounds
>>> step = PoissonSampled(Gaussian(noise_multiplier=1.1), sampling_rate=256 / 60_000)
>>> max_rounds(step, epsilon=3.0, delta=1e-5, method="optimal")
18338

What does this run cost?

>>> round((step * 14_062).epsilon(delta=1e-5, method="optimal"), 3)
2.597

What does this Rényi guarantee mean?

>>> from dprounds import epsilon_from_rdp
>>> round(epsilon_from_rdp(0.5, order=10.0, delta=1e-5), 4)
1.4168
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dprounds.errors import (
    CertificateError,
    InfeasibleError,
    NumericalError,
    ParameterError,
    PrivacyError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from dprounds.accountant import Accountant
    from dprounds.conversions import delta_from_rdp, epsilon_from_rdp, rdp_from_dp, worst_pair
    from dprounds.divergences.joint_range import joint_range
    from dprounds.guarantee import Guarantee
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
        MixtureOfGaussians,
        PoissonSampled,
        PureDP,
        RandomAllocation,
        RandomizedResponse,
        RdpCurve,
        Shuffled,
        TruncatedPoissonSampled,
        banded_matrix_mechanism,
        matrix_mechanism,
        matrix_sensitivity,
    )
    from dprounds.planning import best_plan, frontier, max_rounds, max_sampling_rate, min_noise_multiplier

__all__ = [
    "ZCDP",
    "Accountant",
    "ApproximateDP",
    "CertificateError",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscretePair",
    "ExponentialMechanism",
    "FixedSizeSampled",
    "Gaussian",
    "Guarantee",
    "InfeasibleError",
    "Laplace",
    "MixtureOfGaussians",
    "NumericalError",
    "ParameterError",
    "PoissonSampled",
    "PrivacyError",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "RdpCurve",
    "Shuffled",
    "TruncatedPoissonSampled",
    "UnsupportedError",
    "banded_matrix_mechanism",
    "best_plan",
    "delta_from_rdp",
    "epsilon_from_rdp",
    "frontier",
    "joint_range",
    "matrix_mechanism",
    "matrix_sensitivity",
    "max_rounds",
    "max_sampling_rate",
    "min_noise_multiplier",
    "rdp_from_dp",
    "worst_pair",
]

# A room is opened when one of its names is first used, so that `dprounds --help` need not wait for SciPy.
_ROOMS = {
    "dprounds.accountant": ("Accountant",),
    "dprounds.conversions": ("delta_from_rdp", "epsilon_from_rdp", "rdp_from_dp", "worst_pair"),
    "dprounds.divergences": ("joint_range",),
    "dprounds.guarantee": ("Guarantee",),
    "dprounds.mechanisms": (
        *("Gaussian", "Laplace", "RandomizedResponse", "PureDP", "ApproximateDP", "DiscreteGaussian"),
        *("DiscreteLaplace", "DiscretePair", "ExponentialMechanism"),
        *("ZCDP", "RdpCurve", "PoissonSampled", "MixtureOfGaussians", "RandomAllocation", "FixedSizeSampled"),
        *("Shuffled", "TruncatedPoissonSampled", "banded_matrix_mechanism", "matrix_mechanism", "matrix_sensitivity"),
    ),
    "dprounds.planning": ("best_plan", "frontier", "max_rounds", "max_sampling_rate", "min_noise_multiplier"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'dprounds' has no attribute '{name}'")
    value = getattr(import_module(_ROOM_OF[name]), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
