"""A pool gives each question its own answer, and gives up in time what takes too long or is no longer wanted."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import functools
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest

from dprounds.questions.vocabulary import METHODS
from dprounds.web.asked import answer
from dprounds.web.pool import BusyError, Cache, CrashedError, GoneError, Pool, Reply, TooLongError, key
from dprounds.web.worker import FRAME, GIVEN_UP, READY, Desk, encoded

on_posix = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="freezes processes by signal")

QUICK = {"order": 8, "rdp": 0.5, "delta": 1e-5}
OTHER = {"order": 9, "rdp": 0.5, "delta": 1e-5}
# The noise of this one takes many seconds.
LONG = {"mechanism": "discrete-gaussian", "sampling_rate": 1e-6, "rounds": 40, "epsilon": 0.01, "delta": 1e-12}

# A worker that also takes Python for a question, and a question that has no end.
PROGRAM = """
import time
import numpy as np
from dprounds.web import worker

answer = worker.answer

def answer_or_do(question, given, known=()):
    print("Not to be taken for an answer.")
    if question != "do":
        return answer(question, given, known)
    done = {}
    exec(given["code"], globals(), done)
    return done

worker.answer = answer_or_do
worker.main()
"""
ENDLESS = {"code": "while True: np.exp(1.0)"}


def freeze(pids: Iterable[int]) -> None:
    """Make workers take forever."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers take Python for a question, and are not replaced only because the machine is busy."""
    monkeypatch.setattr("dprounds.web.pool.WORKER", ("-P", "-c", PROGRAM))
    monkeypatch.setattr("dprounds.web.pool.STOP_SECONDS", 20.0)


def expected(question: str, asked: Mapping[str, object]) -> Any:
    """What the library answers, as JSON holds it."""
    return json.loads(encoded(answer(question, asked)))


@contextlib.asynccontextmanager
async def opened(**changes: float) -> AsyncIterator[Pool]:
    """A pool of one worker."""
    arguments: dict[str, Any] = {"workers": 1, "seconds": 30.0, "waiting": 4, "cache_bytes": 10_000} | changes
    pool = Pool(**arguments)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@on_posix
def test_a_pool_stops_what_takes_too_long_and_refuses_what_may_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprounds.web.pool.STOP_SECONDS", 0.2)

    async def scene() -> None:
        async with opened(seconds=0.5, waiting=0) as pool:
            freeze(pool.pids())
            first = asyncio.ensure_future(pool.ask("convert", QUICK))
            await asyncio.sleep(0.05)
            with pytest.raises(BusyError):
                await pool.ask("convert", QUICK)
            with pytest.raises(TooLongError):
                await first
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())


@on_posix
@pytest.mark.parametrize("leaves_after", [0.0, 0.7])
def test_a_frozen_worker_that_nobody_waits_for_is_replaced(
    leaves_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprounds.web.pool.STOP_SECONDS", 0.2)

    async def scene() -> None:
        async with opened() as pool:
            freeze(pool.pids())
            waiting = asyncio.ensure_future(pool.ask("convert", QUICK, lambda: asyncio.sleep(leaves_after + 0.1)))
            with pytest.raises(GoneError):
                await pool.ask("convert", OTHER, lambda: asyncio.sleep(leaves_after))
            with pytest.raises(GoneError):  # it waited for the same worker
                await waiting
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("leaves_after", [0.0, 0.005, 0.4])
def test_what_nobody_waits_for_ends_at_once_and_its_worker_takes_the_next(leaves_after: float) -> None:
    async def scene() -> None:
        async with opened() as pool:
            pids = pool.pids()
            with pytest.raises(GoneError):
                await pool.ask("do", ENDLESS, lambda: asyncio.sleep(leaves_after))
            reply = await pool.ask("convert", QUICK)
            assert json.loads(reply.content) == expected("convert", QUICK)
            assert pool.pids() == pids

    asyncio.run(scene())


@pytest.mark.usefixtures("scripted")
def test_what_takes_too_long_ends_in_time_and_its_worker_takes_the_next() -> None:
    async def scene() -> None:
        async with opened(seconds=0.4) as pool:
            pids = pool.pids()
            with pytest.raises(TooLongError):
                await pool.ask("do", ENDLESS)
            assert (await pool.ask("convert", QUICK)).status == 200
            assert pool.pids() == pids

    asyncio.run(scene())


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("code", ["time.sleep(60)", "sum(range(10**12))"], ids=["asleep", "in C, with the lock"])
def test_a_worker_that_does_not_hear_is_replaced(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprounds.web.pool.STOP_SECONDS", 0.3)

    async def scene() -> None:
        async with opened() as pool:
            pids = pool.pids()
            with pytest.raises(GoneError):
                await pool.ask("do", {"code": code}, lambda: asyncio.sleep(0.2))
            assert (await pool.ask("convert", QUICK)).status == 200
            assert not set(pool.pids()) & set(pids)

    asyncio.run(scene())


# What an interrupt may do to a computation, and to the next one.
SWALLOWED = """
try:
    while True:
        np.exp(1.0)
except BaseException:
    wrong = 1
"""
SETTINGS_CHANGED = """
np.errstate(all="raise").__enter__()
while True:
    np.exp(1.0)
"""


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("code", [SWALLOWED, SETTINGS_CHANGED], ids=["swallowed", "settings changed"])
def test_an_interrupt_leaves_no_wrong_answer_behind(code: str) -> None:
    async def scene() -> None:
        async with opened() as pool:
            pids = pool.pids()
            with pytest.raises(GoneError):
                await pool.ask("do", {"code": code}, lambda: asyncio.sleep(0.1))
            assert pool.cache.size == 0
            reply = await pool.ask("do", {"code": "settings = np.geterr()"})
            assert json.loads(reply.content)["settings"]["over"] == "warn"
            assert pool.pids() == pids

    asyncio.run(scene())


@pytest.mark.usefixtures("scripted")
def test_each_question_gets_its_own_answer_whatever_was_given_up_before() -> None:
    dice = random.Random(1)
    ends = {"given up": 0, "answered": 0}
    few: dict[str, Any] = {"noise_multiplier": 20, "rounds": 9}
    questions: list[tuple[str, dict[str, Any]]] = [("convert", QUICK), ("epsilon", few), ("noise", LONG)]

    async def scene() -> None:
        async with opened(cache_bytes=0) as pool:
            pids = pool.pids()
            for i in range(100):
                question, asked = dice.choice(questions)
                asked = asked | {"delta": 1e-6 * (i + 1)}
                leaving = functools.partial(asyncio.sleep, dice.uniform(0.0, 0.03))
                with contextlib.suppress(GoneError):
                    reply = await pool.ask(question, asked, leaving)
                    assert json.loads(reply.content) == expected(question, asked)
                    ends["answered"] += 1
                    continue
                ends["given up"] += 1
                after = OTHER | {"rdp": 0.01 * (i + 1), "method": "moments"}
                assert json.loads((await pool.ask("convert", after)).content) == expected("convert", after)
            assert pool.pids() == pids

    asyncio.run(scene())
    assert min(ends.values()) > 10


def test_a_late_interrupt_hits_neither_the_next_question_nor_what_lies_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()

    def reply(line: bytes) -> tuple[int, bytes]:
        _thread.interrupt_main()
        return 200, bytes(bytearray(line))  # calls, in which the interrupt comes through

    monkeypatch.setattr("dprounds.web.worker.reply", reply)
    monkeypatch.setattr("dprounds.web.worker.os._exit", lambda _: None)
    before = signal.signal(signal.SIGINT, desk.interrupted)
    try:
        desk.read(io.BytesIO(b"first\n\nsecond\n"))
        assert desk.next_reply() == (GIVEN_UP, b"")
        _thread.interrupt_main()
        assert desk.next_reply() == (200, b"second\n")
        desk.interrupted(signal.SIGINT, None)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_worker_replies_once_to_each_question_whenever_it_is_given_up() -> None:
    quick, endless = (encoded(asked) + b"\n" for asked in (["convert", QUICK, []], ["do", ENDLESS, []]))
    command = [sys.executable, "-P", "-c", PROGRAM]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as worker:
        to_worker, from_worker = worker.stdin, worker.stdout
        assert to_worker
        assert from_worker

        def reply(*lines: bytes) -> tuple[int, bytes]:
            for line in lines:
                to_worker.write(line)
                to_worker.flush()
            status, length = FRAME.unpack(from_worker.read(FRAME.size))
            return status, from_worker.read(length)

        patience = threading.Timer(60.0, worker.kill)  # so that a reply that never comes fails the test
        patience.start()
        try:
            assert from_worker.read(len(READY)) == READY
            answered = (200, encoded(expected("convert", QUICK)))
            assert reply(b"\n", quick) == answered  # before there was anything to give up
            assert reply(b"\n", b"\n", quick) == answered  # after the answer
            assert reply(endless + b"\n") == (GIVEN_UP, b"")  # before it began
            assert reply(endless, b"\n\n", b"\n") == (GIVEN_UP, b"")  # more than once
            assert reply(b"\n", quick) == answered
            to_worker.close()
            assert worker.wait() == 0
        finally:
            worker.kill()
            patience.cancel()


@on_posix
def test_a_cancelled_question_costs_the_pool_no_worker() -> None:
    async def scene() -> None:
        async with opened() as pool:
            freeze(pool.pids())
            tasks = [asyncio.ensure_future(pool.ask("convert", asked)) for asked in (QUICK, OTHER)]
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())


@pytest.mark.usefixtures("scripted")
def test_long_questions_leave_a_worker_for_quick_ones() -> None:
    async def scene() -> None:
        async with opened(workers=2) as pool:
            long = [asyncio.ensure_future(pool.ask("do", ENDLESS | {"number": number})) for number in (1, 2, 3)]
            await asyncio.sleep(0.1)
            assert (await asyncio.wait_for(pool.ask("convert", QUICK, quick=True), 60)).status == 200
            for task in long:
                task.cancel()
            ends = await asyncio.gather(*long, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends)

    asyncio.run(scene())


@on_posix
def test_what_is_remembered_needs_no_worker() -> None:
    async def scene() -> None:
        async with opened() as pool:
            first = await pool.ask("convert", QUICK)
            freeze(pool.pids())
            assert await pool.ask("convert", dict(reversed(QUICK.items()))) == first

    asyncio.run(scene())


def test_an_error_that_nobody_foresaw_ends_the_worker_only(capfd: pytest.CaptureFixture[str]) -> None:
    async def scene() -> None:
        async with opened() as pool:
            with pytest.raises(CrashedError):
                await pool.ask("no such question", {})
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())
    assert "KeyError" in capfd.readouterr().err  # said on standard error, where the owner looks


def test_what_one_method_answered_is_not_computed_again_for_the_table() -> None:
    asked = {"noise_multiplier": 20, "epsilon": 6, "delta": 1e-5}

    async def scene() -> None:
        async with opened(cache_bytes=100_000) as pool:
            by_one = await pool.ask("rounds", asked | {"method": "exact"})
            assert json.loads(by_one.content)["answers"][0]["rounds"] == 685
            # a value that nothing computes shows where the table has it from
            pool.cache.put(
                key("rounds", asked | {"method": "balle"}),
                Reply(200, by_one.content.replace(b"685", b"601").replace(b"exact", b"balle")),
            )
            pool.cache.put(key("rounds", asked | {"method": "moments"}), Reply(422, b'{"error":"not a row"}'))
            table = json.loads((await pool.ask("rounds", asked, parts=METHODS)).content)
            rounds = {row["method"]: row["rounds"] for row in table["answers"]}
            assert rounds == {"moments": 501, "balle": 601, "closed-form": 603, "optimal": 603, "exact": 685}
            assert table["answers"][-1]["change_from_balle"] == 84
            assert "stop at 601" in table["sentence"]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("rounds", {"noise_multiplier": 20, "epsilon": 6, "delta": 1e-5}),
        ("epsilon", {"noise_multiplier": 20, "delta": 1e-5, "rounds": 600}),
        ("epsilon", {"mechanism": "zcdp", "rho": 0.1, "delta": 0, "rounds": 3}),
        ("delta", {"noise_multiplier": 20, "epsilon": 6, "rounds": 600}),
        ("noise", {"epsilon": 6, "delta": 1e-5, "rounds": 600}),
        ("rate", {"noise_multiplier": 1, "epsilon": 3, "delta": 1e-5, "rounds": 1000}),
        ("rate", {"noise_multiplier": 1, "epsilon": 3, "delta": 1e-5, "epochs": 10, "dataset_size": 1000}),
    ],
)
def test_a_table_with_a_known_row_says_what_it_says_without(question: str, asked: dict[str, object]) -> None:
    method = "optimal" if "rho" in asked else "exact"
    known = json.loads(encoded(answer(question, asked | {"method": method})))["answers"]
    with_it, without = answer(question, asked, known), answer(question, asked)
    assert with_it["sentence"] == without["sentence"]
    for row, other in zip(with_it.pop("answers"), without.pop("answers"), strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            assert value == other[name] or value == pytest.approx(other[name], rel=1e-15)
    assert with_it == without


def test_a_cache_keeps_the_last_answers_up_to_its_size() -> None:
    cache = Cache(most_bytes=100)
    for i in range(10):
        cache.put(b"%d" % i, Reply(200, bytes(29)))
        cache.get(b"0")
    assert cache.size <= 100
    assert cache.get(b"0")
    assert cache.get(b"9")
    assert cache.get(b"8") is None or cache.get(b"7") is None
    cache.put(b"large", Reply(200, bytes(1000)))
    assert cache.size <= 100
