"""Reference values that take seconds each, kept with their arguments in ``tests/data``.

``python -m tests.references.stored`` computes every one again and writes the file; a test computes the first of each
function again. A value that the file does not have is computed on the spot.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from pathlib import Path
from typing import Any

from mpmath import mp, mpf, nstr

__all__ = ["computed", "kept", "stored"]

FILE = Path(__file__).parents[1] / "data/stored_references.json"
DIGITS = 40

kept: dict[str, dict[str, str]] = json.loads(FILE.read_text()) if FILE.exists() else {}


def stored(function: Callable[..., mpf]) -> Callable[..., mpf]:
    """The same function of numbers and words, with the values that the file has."""
    values = kept.get(function.__name__, {})

    @wraps(function)
    def recalled(*arguments: Any) -> mpf:
        value = values.get(json.dumps(arguments))
        with mp.workdps(DIGITS):
            return function(*arguments) if value is None else mpf(value)

    return recalled


def computed(function: Callable[..., mpf], arguments: list[Any]) -> str:
    """The value as the file has it."""
    value = function(*arguments)
    with mp.workdps(DIGITS):
        return str(nstr(value, DIGITS))


def main() -> None:
    """Write the file: every case of the tests that use it."""
    from tests.accounting.test_levels import TWO_ROUNDS
    from tests.references.loader_slopes import allocation_slope, fixed_size_slope, two_rounds_slope
    from tests.references.slopes import epsilon_slope
    from tests.references.two_rounds import two_rounds_delta
    from tests.test_sensitivity import ALLOCATION_SLOPES, FIXED_SIZE_SLOPES, SLOPES, TWO_ROUNDS_SLOPES

    cases: dict[Any, list[Any]] = {
        two_rounds_delta: TWO_ROUNDS,
        epsilon_slope: SLOPES,
        allocation_slope: ALLOCATION_SLOPES,
        fixed_size_slope: FIXED_SIZE_SLOPES,
        two_rounds_slope: TWO_ROUNDS_SLOPES,
    }
    found = {
        function.__name__: {json.dumps(arguments): computed(unwrap(function), list(arguments)) for arguments in given}
        for function, given in cases.items()
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
