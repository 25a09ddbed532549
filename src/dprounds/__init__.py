"""How many rounds may I train under this privacy budget?

>>> from dprounds import epsilon_from_rdp
>>> round(epsilon_from_rdp(0.5, order=10.0, delta=1e-5), 4)
1.4168
"""

from dprounds.conversions import delta_from_rdp, epsilon_from_rdp, rdp_from_dp, worst_pair
from dprounds.errors import InfeasibleError, NumericalError, ParameterError, PrivacyError, UnsupportedError

__all__ = [
    "InfeasibleError",
    "NumericalError",
    "ParameterError",
    "PrivacyError",
    "UnsupportedError",
    "delta_from_rdp",
    "epsilon_from_rdp",
    "rdp_from_dp",
    "worst_pair",
]
