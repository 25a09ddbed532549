"""Certificates: what a run costs as a theorem that anybody can check without trusting floating point.

>>> from dprounds import Gaussian
>>> from dprounds.certificates import certify
>>> claim = certify(Gaussian(20.0) * 500, delta=1e-5)
>>> claim.sentence
'Verified: 500 × gaussian (ε = 4.9834, δ = 1e-05)'
"""

from dprounds.certificates.claim import Claim, verify
from dprounds.certificates.making import certify, certify_conversion, certify_rdp
from dprounds.errors import CertificateError

__all__ = ["CertificateError", "Claim", "certify", "certify_conversion", "certify_rdp", "verify"]
