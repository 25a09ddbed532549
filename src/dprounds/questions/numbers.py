"""Decimals as people write them, none of which may silently become 0 or infinity: that would be another question."""

from __future__ import annotations

import math

__all__ = ["BeyondDoublesError", "double"]


class BeyondDoublesError(ValueError):
    """No double is near a decimal: the nearest one is 0 or infinity, and the decimal is not."""

    def __init__(self, text: str, size: str) -> None:
        super().__init__(f"{text[:60]} is too {size} for a double")
        self.size = size


def double(text: str) -> float:
    """The double nearest to a decimal; raises `BeyondDoublesError` where that would be 0 or infinity instead."""
    value = float(text)
    mantissa = text.lower().partition("e")[0]
    if (value == 0 and mantissa.strip("+-_.0 ")) or (math.isinf(value) and "inf" not in text.lower()):
        raise BeyondDoublesError(text, "large" if value else "small")
    return value
