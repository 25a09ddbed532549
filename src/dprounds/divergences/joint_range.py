r"""The joint range of two f-divergences: every pair of values that two distributions can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds._validate import Interval, real, real_array
from dprounds.divergences.certificate import proven_chord
from dprounds.divergences.family import Divergence, PlainScale
from dprounds.divergences.generator import f_divergence
from dprounds.divergences.kernels import log_sigmoid
from dprounds.divergences.limits import greatest_by_rule, least_by_rule
from dprounds.divergences.mesh import Chord, Side, pair_log_weights
from dprounds.errors import ParameterError

__all__ = ["BoundaryPoint", "JointRange", "Region", "joint_range"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Values that are solved at once. A block of the mesh then takes a few megabytes.
VALUES_PER_BLOCK = 128

# More points would take hours, and no picture would show them.
MOST_POINTS = 1_000_000
# Where a divergence has no largest value, a plotted region ends at a pair with likelihood ratios exp(±4), whose total
# variation is 0.96: nearly all of the shape and none of the asymptote.
PLOTTED_LOG_RATIO = 4.0


@dataclass(frozen=True, kw_only=True)
class BoundaryPoint:
    """The least or greatest second divergence at given first ones, with a pair that shows it and a proof.

    Attributes
    ----------
    value
        The extreme of the second divergence; inf where it has no limit.
    bound
        What the supporting line proves: no pair is beyond it. At most the least, at least the greatest. Its distance
        from `value` is what remains unproven.
    p, q
        A pair of distributions on four points (some may be empty), along the last axis.
    attained
        Whether the pair (p, q) has both values. Otherwise the extreme is only approached: (p, q) is the limit, and
        the rest of the first divergence sits on a vanishing mass whose likelihood ratio runs off to zero or infinity.

    Notes
    -----
    `value` is computed from log ratios. The masses p and q are those ratios rounded to doubles: where the divergences
    are tiny, or ratios beyond exp(±700), they cannot show all of its digits.
    """

    value: float | Array
    bound: float | Array
    p: Array
    q: Array
    attained: bool | Mask


@dataclass(frozen=True, kw_only=True)
class Region:
    """The region between the two boundaries, at some values of the first divergence."""

    value: Array
    least: Array
    greatest: Array


@dataclass(frozen=True)
class JointRange:
    """All pairs (D_f, D_g) that two distributions can have, described by the boundary; see `joint_range`."""

    f: Divergence
    g: Divergence

    def least(self, value: ArrayLike) -> BoundaryPoint:
        """The least D_g over all pairs of distributions with D_f = `value`.

        Guarantee
        ---------
        Raises, or returns a `bound` that no pair of distributions with this D_f is below: proven from convexity between
        all likelihood ratios that were looked at, whatever corners the functions have. `value` is attained or
        approached. Assumed are convexity, the rounding that `f_divergence` states, and likelihood ratios that are 0,
        infinite or within the reach of both functions; docs/theory/divergences.md.

        Parameters
        ----------
        value
            In [0, f.largest]; arrays welcome.

        Examples
        --------
        >>> from dprounds.divergences import kl, total_variation
        >>> round(joint_range(total_variation, kl).least(0.5).value, 6)
        0.532298
        """
        return self._extreme(value, 1.0)

    def greatest(self, value: ArrayLike) -> BoundaryPoint:
        """The greatest D_g over all pairs of distributions with D_f = `value`, inf where there is none.

        Guarantee
        ---------
        Raises, or returns a `bound` that no pair of distributions with this D_f is above, proven as in `least`. `value`
        is attained or approached. A bound that cannot be proven is the largest D_g, possibly inf.

        Parameters
        ----------
        value
            In [0, f.largest]; arrays welcome.

        Examples
        --------
        >>> from dprounds.divergences import squared_hellinger, total_variation
        >>> round(joint_range(total_variation, squared_hellinger).greatest(0.25).value, 12)
        0.25
        """
        return self._extreme(value, -1.0)

    def region(self, points: int = 101, *, upto: float | None = None) -> Region:
        """Both boundaries at `points` equally spaced values of D_f, ready to be drawn.

        Parameters
        ----------
        points
            How many, from 2 to 1,000,000.
        upto
            The last value, in (0, f.largest]. Unless given, the largest, or where that is inf the divergence of a
            symmetric binary pair with likelihood ratios exp(±4).

        Examples
        --------
        >>> from dprounds.divergences import squared_hellinger, total_variation
        >>> region = joint_range(total_variation, squared_hellinger).region(points=3)
        >>> region.least.round(3).tolist(), region.greatest.round(3).tolist()
        ([0.0, 0.134, 1.0], [0.0, 0.5, 1.0])
        """
        points = _validate.count("points", points, least=2)
        if points > MOST_POINTS:
            raise ParameterError(f"points must be an integer in [2, {MOST_POINTS}], got {_validate.show(points)}.")
        largest = self.f.largest
        if upto is not None:
            text = f"(0, {largest:.17g}]"
            last = real("upto", upto, Interval(text, 0.0, largest, False, True))
        elif np.isfinite(largest):
            last = largest
        else:
            ends = self.f.log_kernel(PLOTTED_LOG_RATIO * np.array([-1.0, 1.0]))
            last = float(self.f.scale.value(np.logaddexp(ends[0], ends[1])))
        value = np.linspace(0.0, last, points)
        return Region(
            value=value,
            least=np.asarray(self.least(value).value),
            greatest=np.asarray(self.greatest(value).value),
        )

    def _extreme(self, value: ArrayLike, sign: float) -> BoundaryPoint:
        """The least (`sign` 1) or greatest (-1) side at every value."""
        largest = self.f.largest
        given = real_array("value", value, Interval(f"[0, {largest:.17g}]", 0.0, largest, True, True))
        flat = given.ravel()
        answer = Chord.blank(self.f.scale.log_divergence(flat))
        by_rule = least_by_rule if sign > 0 else greatest_by_rule
        searched = np.flatnonzero(~by_rule(self.f, self.g, answer, flat == largest))
        if searched.size:
            side = Side.of(self.f, self.g, sign)
            for first in range(0, searched.size, VALUES_PER_BLOCK):
                block = searched[first : first + VALUES_PER_BLOCK]
                answer.put(block, proven_chord(side, answer.log_target[block]))
        return self._boundary_point(answer, sign, given.shape)

    def _boundary_point(self, chord: Chord, sign: float, shape: tuple[int, ...]) -> BoundaryPoint:
        """The chords as values, bounds and distributions, in the shape of what was asked."""
        log_share = PlainScale().log_divergence(np.stack([1.0 - chord.share, chord.share], axis=-1))
        pairs = np.concatenate([chord.left, chord.right], axis=-1)
        weights = np.concatenate([pair_log_weights(chord.left), pair_log_weights(chord.right)], axis=-1)
        weights += np.repeat(log_share, 2, axis=-1)
        value = self.g.scale.value(chord.log_value)
        bound = self.g.scale.value(chord.log_bound)
        # the two may cross by rounding only; neither side's definition allows it
        bound = np.minimum(bound, value) if sign > 0 else np.clip(bound, value, self.g.largest)
        p = np.exp(weights + log_sigmoid(pairs)).reshape(*shape, 4)
        q = np.exp(weights + log_sigmoid(-pairs)).reshape(*shape, 4)
        if not shape:
            return BoundaryPoint(value=float(value[0]), bound=float(bound[0]), p=p, q=q, attained=not chord.ray[0])
        attained = ~chord.ray.reshape(shape)
        return BoundaryPoint(value=value.reshape(shape), bound=bound.reshape(shape), p=p, q=q, attained=attained)


def joint_range(
    f: Divergence | Callable[[Array], ArrayLike], g: Divergence | Callable[[Array], ArrayLike]
) -> JointRange:
    r"""The joint range of two f-divergences: what D_f = v says of D_g, exactly and for all distributions.

    Parameters
    ----------
    f, g
        Divergences of this package, or convex functions of the likelihood ratio, which `f_divergence` wraps.

    Theorem
    -------
    [HV11, Theorem 8]: the range of all pairs of distributions is the convex hull of that of binary ones;
    docs/theory/divergences.md.

    Examples
    --------
    The budget of Rényi divergence at order 8 below which every mechanism is (1, 1e-5)-DP:

    >>> from dprounds.divergences import hockey_stick, renyi
    >>> round(joint_range(hockey_stick(1.0), renyi(8.0)).least(1e-5).value, 6)
    0.028752
    """
    return JointRange(*(d if isinstance(d, Divergence) else f_divergence(d) for d in (f, g)))
