"""Likelihood ratios at which both kernels are known within stated errors: what a proof is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.divergences.family import Divergence
from dprounds.divergences.generator import FUNCTION_ROUNDING, GeneratorKernel
from dprounds.divergences.kernels import log_sigmoid
from dprounds.divergences.mesh import LOG_ERROR, Side, main_mesh
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Nodes", "has_user_function"]

Array = NDArray[np.float64]

# The relative error of a built-in kernel counts as at least this many units of LOG_ERROR.
LEAST_ERROR_UNITS = 4.0
# Relative error of a log ratio that was computed from a ratio.
LOG_RATIO_ERROR = 8 * UNIT_ROUNDOFF
# Nodes of a user's function keep this distance from ratio one, since closer to it the value is rounding error alone.
LEAST_DISTANCE = 1e-10

# Relative. A node of the mesh that is this close to a corner is left out, because errors count next to a very narrow
# cell.
NEAR_KINK_DISTANCE = 0.02
# Relative. Contacts that are this close count as one.
SAME_CONTACT_DISTANCE = 0.02
# Relative distances of the nodes that are put around a contact, and of the nodes of the mesh that they replace.
CONTACT_OFFSETS = np.concatenate([-0.1 * 4.0 ** -np.arange(0.0, 10.0), [0.0], 0.1 * 4.0 ** -np.arange(0.0, 10.0)])
REPLACED_DISTANCE = 0.12
# Nodes that are closer to ratio one than this part of every contact are left out: the first cell may be that wide.
NEGLIGIBLE_PART = 1e-4


@dataclass(frozen=True)
class Nodes:
    """Likelihood ratios in ascending order, with both kernels there and their errors, all as logarithms.

    With a user's function the ratios are the doubles at which the function is evaluated. Otherwise the log ratios are
    exact.
    """

    u: Array  # log ratios, 0 among them, -inf and inf where both kernels are known there
    ratio: Array
    log_f: Array
    log_g: Array
    f_log_error: Array
    g_log_error: Array

    @classmethod
    def of(cls, side: Side) -> Nodes:
        """The main mesh of a side, ratio one, corners that are known, and both ends."""
        size = main_mesh(min(side.f.largest_log_ratio, side.g.largest_log_ratio))
        kinks = np.array(side.f.log_kinks + side.g.log_kinks)
        both = np.concatenate([-size[::-1], np.zeros(1), size])
        apart = (np.abs(both[:, None] - kinks) > NEAR_KINK_DISTANCE * np.abs(kinks)).all(axis=1)
        return cls.at(side, np.unique(np.concatenate([[-np.inf, 0.0, np.inf], both[apart], kinks])))

    def around(self, side: Side, contacts: Array) -> Nodes:
        """The nodes that are not far below all `contacts`, and graded ones around each of them.

        At a contact H touches its line, so that the cells must be small there. Dividing cells step by step would give
        the same ones.
        """
        contacts = contacts[np.isfinite(contacts) & (contacts != 0.0)]
        if contacts.size == 0:
            return self
        kinks = np.array(side.f.log_kinks + side.g.log_kinks)
        for kink in kinks:
            contacts = np.where(np.abs(contacts - kink) <= SAME_CONTACT_DISTANCE * np.abs(kink), kink, contacts)
        order = np.sort(contacts)
        # of two that are nearly the same, keep one
        contacts = order[np.append(True, np.diff(order) > SAME_CONTACT_DISTANCE * np.abs(order[1:]))]
        from_contact = np.abs(self.u[:, None] - contacts) / np.abs(contacts)
        near = (from_contact <= REPLACED_DISTANCE).any(axis=1) & ~np.isin(self.u, kinks)
        tiny = (np.abs(self.u) < NEGLIGIBLE_PART * np.abs(contacts).min()) & (self.u != 0.0) & ~np.isin(self.u, kinks)
        kept = Nodes(**{name: value[~near & ~tiny] for name, value in vars(self).items()})
        graded = (contacts[:, None] * (1.0 + CONTACT_OFFSETS)).ravel()
        return kept.and_at(side, graded[np.abs(graded) <= min(side.f.largest_log_ratio, side.g.largest_log_ratio)])

    @classmethod
    def at(cls, side: Side, u: Array) -> Nodes:
        """The nodes at ascending log ratios, or next to them."""
        by_user = has_user_function(side)
        with np.errstate(over="ignore"):
            ratio = np.where(np.abs(u) < 0.5, 1.0 + np.expm1(u), np.exp(u))
        if by_user:
            keep = (np.abs(ratio - 1.0) >= LEAST_DISTANCE) | (u == 0.0)
            ratio = np.unique(ratio[keep])
            with np.errstate(divide="ignore"):
                u = np.where(np.abs(ratio - 1.0) < 0.5, np.log1p(ratio - 1.0), np.log(ratio))
        (log_f, f_error), (log_g, g_error) = (_bracket(d, u, ratio, by_user) for d in (side.f, side.g))
        return cls(u, ratio, log_f, log_g, f_error, g_error)

    def and_at(self, side: Side, u: Array) -> Nodes:
        """These nodes and further ones."""
        more = Nodes.at(side, np.sort(u))
        together = {name: np.concatenate([value, getattr(more, name)]) for name, value in vars(self).items()}
        _, index = np.unique(together["u"], return_index=True)
        return Nodes(**{name: value[index] for name, value in together.items()})

    def log_width(self, *, by_user: bool) -> Array:
        """Log of the distance in s between neighbours."""
        low, high = slice(None, -1), slice(1, None)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if by_user:
                # 2 q q' (t' - t), which at t' = inf is 2 q
                across = np.log(self.ratio[high] - self.ratio[low]) + log_sigmoid(-self.u[high])
                across = np.where(np.isinf(self.ratio[high]), 0.0, across)
                width = across + log_sigmoid(-self.u[low])
            else:
                width = log_sigmoid(-self.u[low]) + log_sigmoid(self.u[high])
                width = width + np.log(-np.expm1(self.u[low] - self.u[high]))
        return np.asarray(width + np.log(2.0))


def has_user_function(side: Side) -> bool:
    """Whether one of the divergences is that of a user's function."""
    return any(isinstance(d.log_kernel, GeneratorKernel) for d in (side.f, side.g))


def _bracket(divergence: Divergence, u: Array, ratio: Array, by_user: bool) -> tuple[Array, Array]:
    """Log kernel and log of its largest error; at ratio one both are -inf."""
    kernel = divergence.log_kernel
    log_kernel = divergence.log_kernel_everywhere(u)
    with np.errstate(invalid="ignore"):  # -inf has no error
        log_error = log_kernel + np.log(LOG_ERROR * np.maximum(np.abs(log_kernel), LEAST_ERROR_UNITS))
    inside = np.isfinite(u) & (u != 0.0)
    if isinstance(kernel, GeneratorKernel):
        log_kernel[inside], log_error[inside] = kernel.bracket(ratio[inside])
        for end, value, error in zip(
            (-np.inf, np.inf), (divergence.at_zero, divergence.slope_at_infinity), kernel.limit_errors, strict=True
        ):
            rounding = FUNCTION_ROUNDING * (
                value + (kernel.size + abs(kernel.slope)) * (1.0 + divergence.largest_log_ratio)
            )
            log_error[u == end] = np.log(error + rounding)
    elif by_user:
        # A kernel never falls away from ratio one, so its values at both ends of where u may be are a bracket.
        outer, inner = (divergence.log_kernel(u[inside] * (1.0 + sign * LOG_RATIO_ERROR)) for sign in (1.0, -1.0))
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 = -inf, where both are the same
            spread = np.where(outer > inner, outer + np.log(-np.expm1(inner - outer)), -np.inf)
            log_error[inside] = np.logaddexp(log_error[inside], spread)
    log_error[np.isneginf(log_kernel) & ~np.isfinite(log_error)] = -np.inf
    log_error[u == 0.0] = log_kernel[u == 0.0] = -np.inf
    return log_kernel, log_error
