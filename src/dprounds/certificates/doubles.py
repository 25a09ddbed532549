"""Where doubles end, the search for evidence ends with one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dprounds.errors import NumericalError, PrivacyError

__all__ = ["within_doubles"]


@contextmanager
def within_doubles() -> Iterator[None]:
    """Raise `NumericalError` for what doubles cannot hold: evidence need not be right, so that no step looks for it."""
    try:
        with np.errstate(all="ignore"):
            yield
    except PrivacyError:
        raise
    except (ArithmeticError, IndexError, ValueError) as error:
        raise NumericalError("The evidence for this run is beyond what doubles can hold.") from error
