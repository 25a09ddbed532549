"""What a plan is, and what it is asked with."""

from __future__ import annotations

from typing import NamedTuple

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Release

__all__ = ["Plan", "checked_method", "checked_release"]


class Plan(NamedTuple):
    """A number of rounds, a noise multiplier or a sampling rate, and the epsilon of the run that it makes.

    `beyond` is a proven lower bound on epsilon with one more round, where the method has one: above the budget it
    proves that not one more fits.
    """

    value: float
    epsilon: float
    beyond: float | None = None


def checked_release(name: str, value: object) -> Release:
    """`value`, if it is a mechanism or a run."""
    if not isinstance(value, Release):
        raise ParameterError(
            f"{name} must be a mechanism or a run, such as Gaussian(1.0) * 100, got {_validate.show(value)}."
        )
    return value


def checked_method(method: str | None) -> str | None:
    """None, which lets every run answer as well as it can, or one of the methods by name."""
    return None if method is None else _validate.choice("method", method, RUN_METHODS)
