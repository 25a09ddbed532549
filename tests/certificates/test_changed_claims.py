"""A sample of the changed claims that `benchmarks.certificates` tries by the thousand."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.certificates import Change, bases, changes, is_wrongly_verified
from dprounds.certificates import checker

DOCUMENTS = bases()


@pytest.mark.parametrize("seed", range(4))
def test_no_false_claim_is_verified(seed: int) -> None:
    wrong = [change.what for change in islice(changes(1000 + seed, DOCUMENTS), 60) if is_wrongly_verified(change)]
    assert wrong == []


def test_a_checker_that_says_yes_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "check", lambda data: "Verified")
    assert is_wrongly_verified(Change({}, "nothing", is_false=True))
    assert any(is_wrongly_verified(change) for change in islice(changes(0, DOCUMENTS), 5))
