"""Everything that dprounds raises.

PrivacyError
├── ParameterError    an argument is outside its stated range (also a ValueError)
├── UnsupportedError  no theorem here covers the request
├── InfeasibleError   no parameter in the searched range meets the budget
└── NumericalError    a computation lost the precision that its guarantee needs
"""

__all__ = ["InfeasibleError", "NumericalError", "ParameterError", "PrivacyError", "UnsupportedError"]


class PrivacyError(Exception):
    """Anything that dprounds refuses to answer."""


class ParameterError(PrivacyError, ValueError):
    """An argument is outside its stated range."""


class UnsupportedError(PrivacyError):
    """No theorem here covers the request."""


class InfeasibleError(PrivacyError):
    """No parameter in the searched range meets the budget."""


class NumericalError(PrivacyError):
    """A computation lost the precision that its guarantee needs, so there is no answer rather than a wrong one."""
