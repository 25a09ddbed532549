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

from dprounds.accountant import Accountant
from dprounds.conversions import delta_from_rdp, epsilon_from_rdp, rdp_from_dp, worst_pair
from dprounds.divergences import joint_range
from dprounds.errors import InfeasibleError, NumericalError, ParameterError, PrivacyError, UnsupportedError
from dprounds.guarantee import Guarantee
from dprounds.mechanisms import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
)
from dprounds.planning import max_rounds, max_sampling_rate, min_noise_multiplier

__all__ = [
    "ZCDP",
    "Accountant",
    "ApproximateDP",
    "DiscreteGaussian",
    "Gaussian",
    "Guarantee",
    "InfeasibleError",
    "Laplace",
    "NumericalError",
    "ParameterError",
    "PoissonSampled",
    "PrivacyError",
    "PureDP",
    "RandomizedResponse",
    "RdpCurve",
    "UnsupportedError",
    "delta_from_rdp",
    "epsilon_from_rdp",
    "joint_range",
    "max_rounds",
    "max_sampling_rate",
    "min_noise_multiplier",
    "rdp_from_dp",
    "worst_pair",
]
