"""The contract of a ledger, on SQLite and on PostgreSQL."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import socket
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dprounds import ApproximateDP, Gaussian, Laplace, ParameterError, PoissonSampled, PureDP, UnsupportedError
from dprounds.ledger import BudgetExceededError, JobStateError, Ledger, LedgerError, database, export
from dprounds.ledger.filters import UNIT
from dprounds.ledger.pricing import Here
from dprounds.mechanisms import Mechanism, Run

STEP = Gaussian(20.0)


def opened(ledger: Ledger, **given: Any) -> Ledger:
    ledger.open("patients", **{"epsilon": 6.0, "delta": 1e-5, **given})
    return ledger


def kinds(ledger: Ledger, name: str = "patients") -> list[str]:
    return [entry.kind for entry in ledger.history(name)]


def test_as_many_gaussian_releases_fit_as_are_proven_to(ledger: Ledger) -> None:
    opened(ledger)
    ledger.reserve("patients", STEP * 683, key="many")
    for key in ("last but one", "last"):
        assert ledger.reserve("patients", STEP, key=key).state == "reserved"
    assert ledger.remaining_rounds("patients", STEP) == 0
    with pytest.raises(BudgetExceededError, match="Not one of its rounds would fit"):
        ledger.reserve("patients", STEP, key="one too many")
    assert ledger.status("patients").epsilon_spent <= 6.0
    assert ledger.status("patients").share_left < 0.002
    ledger.verify()


def test_a_refusal_says_what_is_left_and_what_would_fit(ledger: Ledger) -> None:
    opened(ledger, filter="renyi").reserve("patients", STEP * 600, key="first")
    with pytest.raises(BudgetExceededError) as refused:
        ledger.reserve("patients", STEP * 100, key="second")
    assert refused.value.fields["rounds"] == 3
    assert "'patients' (epsilon 6, delta 1e-05) does not allow this job" in str(refused.value)
    assert str(refused.value).endswith("3 of its 100 rounds would fit.")
    assert kinds(ledger) == ["open", "reserve"]
    # what is left is rounded down, and the cost up, as everywhere
    cap, cost = ledger.budget("patients").filter.caps[0], ledger.cost("patients", STEP * 100).cost["rdp_remove"]
    left = cap - ledger.cost("patients", STEP * 600).cost["rdp_remove"]
    fields: dict[str, Any] = dict(refused.value.fields)
    assert fields["share"] == math.floor(Fraction(left, cap) * 10**4) / 10**4
    assert left * UNIT * (1 - Fraction(1, 10**5)) < Fraction(fields["left"]) <= left * UNIT
    assert cost * UNIT <= Fraction(fields["cost"]) < cost * UNIT * (1 + Fraction(1, 10**5))
    assert ledger.reserve("patients", STEP * 3, key="second").state == "reserved"


def test_work_under_a_grant_is_charged_before_it_begins_and_committed_after(ledger: Ledger) -> None:
    opened(ledger)
    with ledger.spend("patients", STEP * 100, key="train", by="research") as grant:
        assert ledger.status("patients").reserved == 1
        assert grant.covers(STEP * 100)
        assert not grant.covers(STEP * 101)
        assert not grant.covers(Gaussian(19.0))
    status = ledger.status("patients")
    assert (status.reserved, status.committed, status.voided, status.entries) == (0, 1, 0, 4)
    assert grant.state == "committed"
    assert [(entry.kind, entry.by) for entry in ledger.history("patients")] == [
        ("open", ""),
        ("reserve", "research"),
        ("begin", "research"),
        ("commit", "research"),
    ]
    with (
        pytest.raises(ParameterError, match="'train' is committed already"),
        ledger.spend("patients", STEP * 100, key="train"),
    ):
        raise AssertionError("the work must not be done twice")
    ledger.verify()


def test_work_that_fails_stays_charged(ledger: Ledger) -> None:
    opened(ledger)
    with pytest.raises(ZeroDivisionError), ledger.spend("patients", STEP * 100, key="train"):
        raise ZeroDivisionError
    assert kinds(ledger) == ["open", "reserve", "begin"]
    assert ledger.remaining_rounds("patients", STEP) == 585
    # what was done may have been seen: it is not done again for the same charge, and not given back
    with (
        pytest.raises(ParameterError, match="'train' is begun already"),
        ledger.spend("patients", STEP * 100, key="train"),
    ):
        raise AssertionError("the work must not be done twice")
    with pytest.raises(LedgerError, match="is begun: it cannot be voided"):
        ledger.void("patients", "train", reason="it failed")
    assert ledger.grant("patients", "train").run == STEP * 100
    ledger.grant("patients", "train").commit()
    assert ledger.status("patients").committed == 1
    ledger.verify()


def test_work_begins_once(ledger: Ledger) -> None:
    opened(ledger)
    first, second = (ledger.reserve("patients", STEP, key="train") for _ in range(2))
    assert ledger.status("patients").reserved == 1
    first.begin()
    with pytest.raises(LedgerError, match="'train' of 'patients' is begun: it cannot be begun"):
        second.begin()
    first.take(resumes=False)
    with pytest.raises(LedgerError, match="may have looked at the data already"):
        first.take(resumes=False)
    with pytest.raises(LedgerError, match="cannot be begun"):
        second.take(resumes=False)  # as far as it knows, nothing has begun
    ledger.grant("patients", "train").take(resumes=True)
    assert ledger.status("patients").reserved == 1
    ledger.verify()


def test_a_key_is_one_job(ledger: Ledger) -> None:
    opened(ledger)
    first = ledger.reserve("patients", STEP * 100, key="train")
    again = ledger.reserve("patients", 100 * STEP, key="train")
    assert (first.key, first.run, first.state) == (again.key, again.run, again.state)
    first.commit()
    first.commit()
    assert ledger.reserve("patients", STEP * 100, key="train").state == "committed"
    assert kinds(ledger) == ["open", "reserve", "commit"]
    with pytest.raises(ParameterError, match="'train' is a job of 'patients' with another run"):
        ledger.reserve("patients", STEP * 99, key="train")
    ledger.open("others", epsilon=6.0, delta=1e-5)
    assert ledger.reserve("others", STEP, key="train").state == "reserved"


def test_what_never_began_is_given_back_and_stays_in_the_history(ledger: Ledger) -> None:
    opened(ledger)
    ledger.reserve("patients", STEP * 500, key="train")
    ledger.void("patients", "train", reason="the machine never started", by="ops")
    ledger.void("patients", "train", reason="the machine never started", by="ops")
    assert kinds(ledger) == ["open", "reserve", "void"]
    assert ledger.history("patients")[-1].detail == "the machine never started"
    assert ledger.remaining_rounds("patients", STEP) == 685
    with pytest.raises(LedgerError, match="'train' of 'patients' is voided: it cannot be committed"):
        ledger.commit("patients", "train")
    with pytest.raises(JobStateError, match="'train' of 'patients' is voided: reserve it with another key"):
        ledger.reserve("patients", STEP * 500, key="train")  # or someone would work without a charge
    ledger.reserve("patients", STEP, key="other").commit()
    with pytest.raises(LedgerError, match="is committed: it cannot be voided"):
        ledger.void("patients", "other", reason="regret")
    ledger.verify()


@pytest.mark.parametrize(
    ("given", "step", "most"),
    [
        ({"filter": "renyi"}, STEP, 603),
        ({"filter": "renyi", "blocks": True}, STEP, 603),
        ({"filter": "pure", "delta": None}, PureDP(0.0625), 96),
    ],
)
def test_rounds_that_were_not_made_are_given_back(
    ledger: Ledger, given: dict[str, Any], step: Mechanism, most: int
) -> None:
    opened(ledger, **given)
    blocks = ["a", "b"] if "blocks" in given else None
    grant = ledger.reserve("patients", step * most, key="long", blocks=blocks)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("patients", step, key="more", blocks=blocks)
    grant.begin()
    with pytest.raises(ParameterError, match="made must be rounds that were reserved"):
        grant.commit(made=step * (most + 1))
    with pytest.raises(ParameterError, match="made must be rounds that were reserved"):
        grant.commit(made=Laplace(50.0) * 1)
    grant.commit(made=step * 13)
    ledger.verify()
    assert ledger.remaining_rounds("patients", step, blocks=blocks) == most - 13
    # the retry of a commit gives nothing back again, and no other number of rounds
    grant.commit(made=step * 13)
    grant.commit()
    with pytest.raises(LedgerError, match="committed with another number of rounds"):
        grant.commit(made=step * 12)
    last = ledger.history("patients")[-1]
    assert (last.kind, last.run) == ("commit", step * 13)
    assert all(amount < 0 for amount in last.cost)
    ledger.reserve("patients", step * (most - 13), key="rest", blocks=blocks).commit(made=Run())
    assert ledger.remaining_rounds("patients", step, blocks=blocks) == most - 13
    whole = ledger.reserve("patients", step * 5, key="whole", blocks=blocks)
    whole.commit(made=step * 5)
    with pytest.raises(LedgerError, match="committed with another"):
        whole.commit(made=step * 4)
    status = ledger.status("patients")
    assert (status.reserved, status.committed) == (0, 3)
    ledger.verify()


def test_a_gaussian_budget_gives_no_rounds_back(ledger: Ledger) -> None:
    grant = opened(ledger).reserve("patients", STEP * 600, key="long")
    with pytest.raises(UnsupportedError, match="charges a job whole"):
        grant.commit(made=STEP * 3)
    assert ledger.grant("patients", "long").state == "reserved"


def test_a_budget_never_changes(ledger: Ledger) -> None:
    opened(ledger)
    with pytest.raises(ParameterError, match="there is a budget named 'patients' already"):
        opened(ledger, epsilon=100.0)
    assert ledger.status("patients").epsilon == 6.0
    assert ledger.names() == ["patients"]


def test_another_process_sees_the_same_ledger(ledger: Ledger, url: str) -> None:
    opened(ledger, note="a study", by="officer").reserve("patients", STEP * 100, key="train")
    other = Ledger(url)
    assert other.status("patients") == ledger.status("patients")
    assert other.history("patients") == ledger.history("patients")
    assert other.status("patients").note == "a study"
    other.close()


def test_a_ledger_survives_a_fork(ledger: Ledger) -> None:
    opened(ledger).reserve("patients", STEP, key="parent")
    child = os.fork()
    if not child:
        try:
            ledger.reserve("patients", STEP, key="child").commit()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    ledger.reserve("patients", STEP, key="parent again")
    assert [entry.key for entry in ledger.history("patients")] == ["", "parent", "child", "child", "parent again"]
    ledger.verify()


def test_every_block_has_the_whole_budget_and_a_job_charges_all_or_none(ledger: Ledger) -> None:
    opened(ledger, blocks=True)
    ledger.reserve("patients", STEP * 600, key="a", blocks=["2026-01"])
    ledger.reserve("patients", STEP * 600, key="b", blocks=["2026-02"])
    with pytest.raises(BudgetExceededError, match="85 of its 100 rounds would fit"):
        ledger.reserve("patients", STEP * 100, key="c", blocks=["2026-03", "2026-02"])
    assert ledger.status("patients").blocks == 2
    ledger.reserve("patients", STEP * 600, key="d", blocks=["2026-03"])
    assert ledger.remaining_rounds("patients", STEP, blocks=["2026-04"]) == 685
    assert ledger.remaining_rounds("patients", STEP, blocks=["2026-04", "2026-01"]) == 85
    ledger.void("patients", "d", reason="never started")
    assert ledger.status("patients", block="2026-03").share_left == 1.0
    assert ledger.status("patients").share_left < 0.13
    wrong: Any
    for wrong in (5, "2026-01", [], True):
        with pytest.raises(ParameterError, match="blocks must list those that the job reads"):
            ledger.reserve("patients", STEP, key="e", blocks=wrong)
    with pytest.raises(ParameterError, match="blocks must list those that the job reads"):
        ledger.reserve("patients", STEP, key="e")
    with pytest.raises(ParameterError, match="another list of blocks"):
        ledger.reserve("patients", STEP * 600, key="a", blocks=["2026-02"])
    ledger.verify()


def test_a_thousand_blocks_in_one_job(ledger: Ledger) -> None:
    opened(ledger, blocks=True)
    days = [f"day {number}" for number in range(1200)]
    ledger.reserve("patients", STEP * 10, key="first", blocks=days).commit()
    ledger.reserve("patients", STEP * 10, key="second", blocks=[*days[600:], "another"])
    assert ledger.status("patients").blocks == 1201
    assert ledger.remaining_rounds("patients", STEP, blocks=days[:600]) == 675
    assert ledger.remaining_rounds("patients", STEP, blocks=days) == 665
    ledger.verify()


def test_blocks_are_listed_with_the_least_left_first(ledger: Ledger) -> None:
    opened(ledger, blocks=True)
    assert ledger.blocks("patients") == []
    ledger.reserve("patients", STEP * 100, key="a", blocks=["c", "a"])
    ledger.reserve("patients", STEP * 300, key="b", blocks=["b", "a"])
    ledger.reserve("patients", STEP * 200, key="c", blocks=["never read"])
    ledger.void("patients", "c", reason="never started")
    found = ledger.blocks("patients")
    assert [one.block for one in found] == ["a", "b", "c", "never read"]
    assert [one.share_left for one in found] == [ledger.status("patients", block=one.block).share_left for one in found]
    assert (found[0].share_left, found[-1].share_left) == (ledger.status("patients").share_left, 1.0)
    assert ledger.cost("patients", STEP, blocks=["a", "c", "never read", "new", "newer"]).new_blocks == 2
    ledger.open("others", epsilon=1.0, filter="pure")
    assert ledger.blocks("others") == []
    assert ledger.cost("others", Laplace(50.0)).new_blocks == 0


def test_a_budget_without_blocks_takes_none(ledger: Ledger) -> None:
    opened(ledger)
    with pytest.raises(ParameterError, match="has no blocks"):
        ledger.reserve("patients", STEP, key="a", blocks=["2026-01"])
    with pytest.raises(UnsupportedError, match="two of them count"):
        ledger.open("others", epsilon=1.0, delta=1e-5, blocks=True, relation="replace-one")


def test_a_job_of_another_relation_is_refused(ledger: Ledger) -> None:
    opened(ledger, relation="replace-one")
    with pytest.raises(UnsupportedError, match="replace-one, and this job by add-remove"):
        ledger.reserve("patients", PoissonSampled(Gaussian(2.0), 0.01), key="a")
    assert ledger.reserve("patients", STEP, key="b").state == "reserved"


def test_each_filter_adds_up_its_own_costs(ledger: Ledger) -> None:
    ledger.open("pure", epsilon=1.0, filter="pure")
    ledger.open("renyi", epsilon=1.0, delta=1e-5, filter="renyi", order=20.0)
    ledger.open("gaussian", epsilon=1.0, delta=1e-5)
    for name in ledger.names():
        ledger.reserve(name, Laplace(10.0) * 3, key="a")
    assert ledger.status("pure").epsilon_spent == pytest.approx(0.3, abs=1e-12)
    assert ledger.status("pure").reading == ledger.status("pure").epsilon_spent
    assert ledger.status("renyi").order == 20.0
    cost = ledger.history("gaussian")[1].cost
    assert cost[0] * UNIT < 3 * 0.126**2  # three times less than 1.26 epsilon, squared
    assert cost[1] == 0
    ledger.reserve("gaussian", ApproximateDP(0.01, 1e-9), key="b")
    assert ledger.history("gaussian")[2].cost[1] >= 1e-9 / UNIT
    with pytest.raises(UnsupportedError, match="no finite Rényi bound at order 20"):
        ledger.reserve("renyi", ApproximateDP(0.01, 1e-9), key="b")
    ledger.verify()


def test_the_odometer_passes_its_levels_one_by_one(ledger: Ledger) -> None:
    opened(ledger)
    readings = [ledger.status("patients").reading]
    for key in range(9):
        ledger.reserve("patients", STEP * 75, key=str(key))
        readings.append(ledger.status("patients").reading)
    assert readings == [0.75, 3.0, 3.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, None]
    spent = [ledger.status("patients").epsilon_spent]
    assert spent[0] < 6.0


def test_a_training_run_is_charged_whole(ledger: Ledger) -> None:
    opened(ledger)
    run = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 2_000
    ledger.reserve("patients", run, key="train", delta=1e-8)
    assert ledger.history("patients")[1].run == run
    assert ledger.status("patients").epsilon_spent > run.epsilon(delta=1e-5)
    ledger.verify()


def test_history_comes_in_parts(ledger: Ledger) -> None:
    opened(ledger)
    for key in "abcd":
        ledger.reserve("patients", STEP, key=key)
    assert [entry.key for entry in ledger.history("patients", after=1, limit=2)] == ["a", "b"]
    assert ledger.history("patients", after=5) == []
    with pytest.raises(ParameterError, match="after must be an integer in"):
        ledger.history("patients", after=2**64)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"name": "two\nlines"}, "name must be text on one line"),
        ({"name": "nul\x00"}, "name must be text on one line"),
        ({"name": 3}, "name must be text on one line"),
        ({"name": "n" * 201}, "name must have at most 200 letters, got 201"),
        ({"epsilon": math.nan}, "epsilon must be in"),
        ({"delta": None}, "delta must be given"),
        ({"delta": 0.0}, "delta must be in"),
        ({"filter": "natural"}, "filter must be one of"),
        ({"relation": "other"}, "relation must be one of"),
        ({"blocks": "yes"}, "blocks must be True or False"),
    ],
)
def test_an_opening_that_is_wrong_is_refused(ledger: Ledger, given: dict[str, Any], said: str) -> None:
    arguments = {"name": "patients", "epsilon": 1.0, "delta": 1e-5, **given}
    with pytest.raises(ParameterError, match=said):
        ledger.open(**arguments)
    assert ledger.names() == []


def test_jobs_that_are_wrong_are_refused(ledger: Ledger) -> None:
    opened(ledger)
    for arguments, said in (
        ({"name": "nobody", "run": STEP, "key": "a"}, "there is none named 'nobody'"),
        ({"name": "{x}", "run": STEP, "key": "a"}, "there is none named '{x}'"),
        ({"name": "patients", "run": STEP, "key": ""}, "key must not be empty"),
        ({"name": "patients", "run": 3, "key": "a"}, "run must be"),
        ({"name": "patients", "run": STEP, "key": "a", "by": None}, "by must be text"),
        ({"name": "patients", "run": STEP, "key": "a", "by": "b" * 201}, "by must have at most 200 letters"),
        ({"name": "patients", "run": STEP, "key": "a", "delta": 2.0}, "delta must be in"),
        ({"name": "patients", "run": STEP, "key": "a", "delta": math.nan}, "delta must be in"),
    ):
        with pytest.raises(ParameterError) as refused:
            ledger.reserve(**arguments)  # type: ignore[arg-type]  # that is the point
        assert said in str(refused.value)
    for settle in (ledger.commit, ledger.grant):
        with pytest.raises(ParameterError, match="has none with key 'a'"):
            settle("patients", "a")
    with pytest.raises(ParameterError, match="reason must not be empty"):
        ledger.void("patients", "a", reason="")
    assert kinds(ledger) == ["open"]


def test_an_empty_job_costs_nothing(ledger: Ledger) -> None:
    opened(ledger)
    ledger.reserve("patients", Run(), key="nothing").commit()
    assert ledger.status("patients").share_left == 1.0
    ledger.verify()


@pytest.mark.parametrize("url", ["", "budget.db", "sqlite://", "sqlite:///:memory:", "mysql://a/b", None])
def test_a_url_that_keeps_nothing_is_refused(url: str) -> None:
    with pytest.raises(ParameterError, match="url must name"):
        Ledger(url)


def test_a_server_that_never_answered_is_not_waited_for_as_long_as_other_writers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(database, "FIRST_ANSWER", 0.05)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"postgresql://127.0.0.1:{taken.getsockname()[1]}/budget"
        with pytest.raises(LedgerError, match=r"does not answer: .* Check that it runs"):
            Ledger(url, timeout=1e6)


@pytest.mark.parametrize("timeout", [0.0, -1.0, math.nan])
def test_a_timeout_is_positive(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(ParameterError, match="timeout must be in"):
        Ledger(f"sqlite:///{tmp_path}/budget.db", timeout=timeout)


def test_ten_tenths_are_more_than_one(ledger: Ledger) -> None:
    """The double next to 0.1 is above it, and costs are rounded up: the tenth is refused, and a little less fits."""
    ledger.open("pure", epsilon=1.0, filter="pure")
    for key in range(9):
        ledger.reserve("pure", PureDP(0.1), key=str(key))
    with pytest.raises(BudgetExceededError):
        ledger.reserve("pure", PureDP(0.1), key="9")
    assert ledger.reserve("pure", PureDP(0.1 - 1e-15), key="9").state == "reserved"


def test_a_price_is_what_would_be_charged_and_charges_nothing(ledger: Ledger) -> None:
    opened(ledger).reserve("patients", STEP * 85, key="first")
    price = ledger.cost("patients", STEP * 100)
    assert price.fits
    assert ledger.status("patients").entries == 2
    ledger.reserve("patients", STEP * 100, key="second")
    assert tuple(price.cost.values()) == ledger.history("patients")[2].cost
    assert ledger.status("patients").share_left <= price.share_left - price.share + 1e-11
    assert price.share >= price.cost["mu_squared"] / ledger.budget("patients").filter.caps[0]  # rounded up
    refused = ledger.cost("patients", STEP * 501)
    assert not refused.fits
    assert refused.refusal.endswith("500 of its 501 rounds would fit.")
    assert ledger.cost("patients", STEP * 500).fits
    revealing = ApproximateDP(0.01, 1e-6)  # more than may be revealed in all
    assert ledger.cost("patients", revealing).share > 1
    ledger.open("nothing revealed", epsilon=6.0, delta=1e-5, revealed=0.0)
    assert ledger.cost("nothing revealed", revealing).share == math.inf
    beyond = ledger.cost("patients", Gaussian(1e-200))  # costs more than doubles hold
    assert beyond.refusal.endswith("Not one of its rounds would fit.")


def test_costs_are_computed_where_the_ledger_is_told_to(url: str) -> None:
    class Elsewhere(Here):
        asked: ClassVar[list[str]] = []

        def cost(self, *given: Any) -> tuple[int, ...]:
            self.asked.append("cost")
            return super().cost(*given)

        def rounds_that_fit(self, *given: Any) -> int:
            self.asked.append("rounds")
            return super().rounds_that_fit(*given)

    ledger = opened(Ledger(url, pricing=Elsewhere()))
    ledger.reserve("patients", STEP, key="a")
    with pytest.raises(BudgetExceededError):
        ledger.reserve("patients", STEP * 1000, key="b")
    assert ledger.remaining_rounds("patients", STEP) == 684
    assert ledger.cost("patients", STEP).fits
    assert Elsewhere.asked == ["cost", "cost", "rounds", "rounds", "cost"]
    ledger.close()


def test_spending_is_the_share_of_the_fullest_block_over_time(ledger: Ledger) -> None:
    opened(ledger, blocks=True)
    for number, blocks in enumerate((["a"], ["b"], ["a", "b"], ["a"])):
        ledger.reserve("patients", STEP * 68, key=str(number), blocks=blocks)
    ledger.commit("patients", "0")
    ledger.void("patients", "3", reason="never started")
    ledger.reserve("patients", STEP * 68, key="last", blocks=["c"])
    shares = [moment.share for moment in ledger.spending("patients")]
    assert [round(share / shares[1]) for share in shares] == [0, 1, 1, 2, 3, 2, 2]
    assert shares[-1] == pytest.approx(1 - ledger.status("patients").share_left, abs=1e-11)
    entries = [entry for entry in ledger.history("patients") if entry.kind != "commit"]
    assert [moment.at for moment in ledger.spending("patients")] == [entry.at for entry in entries]
    few = ledger.spending("patients", points=3)
    assert (few[0], few[-1]) == (ledger.spending("patients")[0], ledger.spending("patients")[-1])
    assert len(few) == 3


def test_refusals_are_kept_newest_first_and_cut_to_their_columns(ledger: Ledger) -> None:
    for number in range(3):
        ledger.refusals.record(token=None, address="192.0.2.1", route="GET /x", reason=f"unknown {number}")
    ledger.refusals.record(token="t" * 300, address="a\nb", route="r" * 300, reason="x" * 5000)
    found = ledger.refusals.last(2)
    assert [(one.token, one.address, one.reason[:9]) for one in found] == [
        ("t" * 200, "a?b", "x" * 9),
        ("none", "192.0.2.1", "unknown 2"),
    ]
    assert found[0].number > found[1].number


@pytest.mark.parametrize("jobs", [0, 5])
def test_a_history_is_exported_in_parts_as_one_file(ledger: Ledger, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(ledger)
    for key in range(jobs):
        ledger.reserve("patients", STEP, key=f'{key}, "ü"', by="=1")
    monkeypatch.setattr(export, "ENTRIES_AT_ONCE", 2)
    rows = [export.flat(entry, ("mu_squared", "delta")) for entry in ledger.history("patients")]
    written = {kind: b"".join(export.exported(ledger, "patients", kind)) for kind in export.FORMATS}
    assert json.loads(written["json"]) == rows
    as_text = [{name: str(value) for name, value in row.items()} for row in rows]
    assert list(csv.DictReader(io.StringIO(written["csv"].decode(), newline=""))) == as_text
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra parquet")
    assert parquet.read_table(io.BytesIO(written["parquet"])).to_pylist() == rows
    assert b"".join(export.exported(ledger, "patients", "json", after=jobs + 1)) == b"[]\n"
    with pytest.raises(ParameterError, match="format must be one of"):
        export.exported(ledger, "patients", "xlsx")


def test_an_exported_entry_tells_its_blocks_apart(ledger: Ledger) -> None:
    opened(ledger, blocks=True)
    ledger.reserve("patients", STEP, key="a", blocks=["north", "south east", 'the "old" ü'])
    (row,) = csv.DictReader(io.StringIO(b"".join(export.exported(ledger, "patients", "csv", after=1)).decode()))
    assert json.loads(row["blocks"]) == ["north", "south east", 'the "old" ü']


def test_spending_falls_where_rounds_are_given_back(ledger: Ledger) -> None:
    opened(ledger, filter="renyi").reserve("patients", STEP * 100, key="train")
    ledger.commit("patients", "train", made=STEP * 25)
    shares = [moment.share for moment in ledger.spending("patients")]
    assert shares == [0.0, pytest.approx(4 * shares[2]), pytest.approx(1 - ledger.status("patients").share_left)]


def test_a_curve_of_few_points_hides_no_peak_and_ends_where_the_status_does(ledger: Ledger) -> None:
    opened(ledger, filter="renyi")
    for number in range(12):
        ledger.reserve("patients", STEP * (300 if number == 6 else 10), key=f"void {number}")
        ledger.void("patients", f"void {number}", reason="never started")
    ledger.reserve("patients", STEP * 100, key="train").commit(made=STEP * 25)
    whole = ledger.spending("patients")
    assert len(whole) == 27
    for points in (2, 5, 10, 13, 26):
        few = ledger.spending("patients", points=points)
        assert len(few) <= max(points, 3)
        assert [moment for moment in whole if moment in few] == few
        assert max(few, key=lambda moment: moment.share) == max(whole, key=lambda moment: moment.share)
        assert few[-1].share == pytest.approx(1 - ledger.status("patients").share_left, abs=1e-11)
