"""What noise was added: one file a mechanism, one formula each, and composition."""

from dprounds.mechanisms.approximate_dp import ApproximateDP
from dprounds.mechanisms.base import Mechanism, Release, Run
from dprounds.mechanisms.correlated_noise import banded_matrix_mechanism, matrix_mechanism, matrix_sensitivity
from dprounds.mechanisms.discrete_gaussian import DiscreteGaussian
from dprounds.mechanisms.discrete_laplace import DiscreteLaplace
from dprounds.mechanisms.discrete_pair import DiscretePair
from dprounds.mechanisms.exponential_mechanism import ExponentialMechanism
from dprounds.mechanisms.fixed_size_sampled import FixedSizeSampled
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.laplace import Laplace
from dprounds.mechanisms.mixture_of_gaussians import MixtureOfGaussians
from dprounds.mechanisms.poisson_sampled import PoissonSampled
from dprounds.mechanisms.pure_dp import PureDP
from dprounds.mechanisms.random_allocation import RandomAllocation
from dprounds.mechanisms.randomized_response import RandomizedResponse
from dprounds.mechanisms.rdp_curve import RdpCurve
from dprounds.mechanisms.shuffled import Shuffled
from dprounds.mechanisms.truncated_poisson_sampled import TruncatedPoissonSampled
from dprounds.mechanisms.zcdp import ZCDP

__all__ = [
    "ZCDP",
    "ApproximateDP",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscretePair",
    "ExponentialMechanism",
    "FixedSizeSampled",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "MixtureOfGaussians",
    "PoissonSampled",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "RdpCurve",
    "Release",
    "Run",
    "Shuffled",
    "TruncatedPoissonSampled",
    "banded_matrix_mechanism",
    "matrix_mechanism",
    "matrix_sensitivity",
]
