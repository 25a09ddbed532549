"""What neighbouring plans tell of the next one: guesses, for a search that checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Trends"]

# Points are left out while errors of their values could count for more than this many times as much.
MOST_AMPLIFIED = 8.0


@dataclass(frozen=True)
class Trends:
    """Quantities that change slowly along a coordinate, each with the points at which it is known."""

    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, at: float, value: float) -> None:
        """Remember a value, if it is a number."""
        if math.isfinite(at) and math.isfinite(value):
            self.points.setdefault(name, []).append((at, value))

    def foretold(self, name: str, at: float, *, points: int = 3) -> float | None:
        """The value, by a polynomial through so many of the nearest points; None if nothing is known.

        Examples
        --------
        >>> trends = Trends()
        >>> for x in (0.0, 1.0, 3.0):
        ...     trends.add("square", x, x * x)
        >>> round(trends.foretold("square", 2.0), 6)
        4.0
        """
        near = sorted(self.points.get(name, ()), key=lambda point: abs(point[0] - at))[:points]
        while near:
            weights = _weights([x for x, _ in near], at)
            if sum(map(abs, weights)) <= MOST_AMPLIFIED:
                return sum(weight * value for weight, (_, value) in zip(weights, near, strict=True))
            near.pop()
        return None


def _weights(points: Sequence[float], at: float) -> list[float]:
    """Of the values at some points in the polynomial through them; infinite where two points are one."""
    found = []
    for i, x in enumerate(points):
        others = [other for j, other in enumerate(points) if j != i]
        if x in others:
            return [math.inf]
        found.append(math.prod((at - other) / (x - other) for other in others))
    return found
