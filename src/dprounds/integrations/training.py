"""Train until the budget is spent: loops that end before the step that would exceed it, whatever computes the steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from dprounds import _validate
from dprounds.accountant import Accountant
from dprounds.errors import ParameterError
from dprounds.integrations.checkpoints import locked, resolved, sync_folder
from dprounds.mechanisms.base import Release, Run
from dprounds.planning import checked_release, max_rounds

__all__ = ["Check", "affordable_rounds", "guarded", "rounds_left", "while_affordable"]

Batch = TypeVar("Batch")
# Whether one more round is within the plan. It is called before each batch, so it must be fast.
Check = Callable[[], bool]

# With many different releases spent, a plan takes several exact sums over all of them. Checking one number of rounds
# takes a single sum. So a loop that also records other releases checks whether this many rounds fit, and then whether
# one does.
ROUNDS_AHEAD = 1024


def while_affordable(
    batches: Iterable[Batch],
    accountant: Accountant,
    step: Release,
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
) -> Iterator[Batch]:
    """The batches, until one more round of `step` would exceed the budget.

    The loop's body records what it releases, at most one round of `step` for each batch. If it records anything else,
    that is noticed before the next batch, and the rest of the budget is planned again.

    Guarantee
    ---------
    Raises, or stops such that all that `accountant` holds, with one more round of `step` after each batch that was
    yielded, is within (`epsilon`, `delta`) by `method`.

    Parameters
    ----------
    batches
        What to train on. ``itertools.chain.from_iterable(itertools.repeat(loader))`` passes over a loader forever.
    accountant
        What has been spent, and where the body records.
    step
        One round, a mechanism or a run.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in [0, 1).
    method
        The bound to plan by; by default exact where every part has a moment function.

    Examples
    --------
    >>> from itertools import count
    >>> from dprounds import Accountant, Gaussian
    >>> accountant, step = Accountant(), Gaussian(20.0)
    >>> for batch in while_affordable(count(), accountant, step, epsilon=6.0, delta=1e-5):
    ...     accountant.record(step)
    >>> accountant.run, accountant.epsilon(delta=1e-5) <= 6.0, accountant.would_exceed(step, 6.0, 1e-5)
    (Gaussian(20.0) * 685, True, True)
    """
    once = checked_release("step", step) * 1
    planned: tuple[Run, int] | None = None

    def plan() -> Check:
        nonlocal planned
        now = accountant.run
        again = planned is not None and _rounds_since(planned[0], now, once) == planned[1]
        left = rounds_left(now, once, epsilon=epsilon, delta=delta, method=method, again=again)
        planned = now, left
        return lambda: _rounds_since(now, accountant.run, once) < left

    return guarded(batches, plan)


def affordable_rounds(
    path: str | os.PathLike[str],
    step: Release,
    *,
    epsilon: float,
    delta: float,
    reserve: int = 100,
    method: str | None = None,
) -> Iterator[int]:
    """Numbers of rounds to make, each in the file at `path` before it is yielded, while the budget allows one more.

    It needs no training library: the body of the loop makes one round of `step`, in JAX, Keras, over the network or by
    hand. No number is yielded twice, also after a kill. So ``jax.random.fold_in(key, number)`` draws the same noise
    never again, while restoring a generator with the weights would.

    Rounds are written `reserve` at a time. A loop that ends, by ``break`` or an exception too, gives back those that
    were not yielded. A process that is killed cannot, and every round that it had reserved counts as made.

    Guarantee
    ---------
    Raises, or everything in the file, with all rounds that were yielded, is within (`epsilon`, `delta`) by `method`.

    Parameters
    ----------
    path
        An account, as `Accountant.to_json` writes it; a new one if there is no such file. One process at a time uses
        it. ``dprounds epsilon --run`` and ``--spent`` read it.
    step
        One round, a mechanism or a run.
    epsilon, delta
        The budget, in nats, in [0, inf); and its failure mass, in [0, 1).
    reserve
        Rounds written at a time, at least 1. A larger number takes less time, and loses more rounds to a kill.
    method
        The bound to plan by; by default exact where every part has a moment function.

    Examples
    --------
    >>> import tempfile
    >>> from dprounds import Gaussian
    >>> path = Path(tempfile.mkdtemp()) / "spent.json"
    >>> for number in affordable_rounds(path, Gaussian(20.0), epsilon=6.0, delta=1e-5):
    ...     if number == 299:
    ...         break
    >>> made = list(affordable_rounds(path, Gaussian(20.0), epsilon=6.0, delta=1e-5))
    >>> made[0], made[-1], Accountant.from_json(path.read_text()).run
    (300, 684, Gaussian(20.0) * 685)
    """
    once = checked_release("step", step) * 1
    if not once.rounds:
        raise ParameterError("step must have at least one round: any number of empty ones would be affordable.")
    file, block = resolved(path), _validate.count("reserve", reserve, least=1)
    if not file.parent.is_dir():
        raise ParameterError(f"path {file.name!r} must be in a folder that exists.")
    # asked at the call, so that arguments are refused there
    max_rounds(once, epsilon=epsilon, delta=delta, method=method, spent=_read(file).run)
    return _on_disk(
        file, once, block, lambda spent: max_rounds(once, epsilon=epsilon, delta=delta, method=method, spent=spent)
    )


def _on_disk(path: Path, once: Run, reserve: int, allowed: Callable[[Run], int]) -> Iterator[int]:
    """The numbers of the rounds, in one process, under the lock of the file."""
    process = os.getpid()
    with locked(path):
        spent = _read(path).run
        left, made = allowed(spent), 0
        try:
            while left > made:
                reserved = min(reserve, left - made)
                _write(path, spent + once * (made + reserved))
                for _ in range(reserved):
                    if os.getpid() != process:
                        raise ParameterError("affordable_rounds counts for the process that began it, and no other.")
                    made += 1
                    yield spent.rounds + (made - 1) * once.rounds
        finally:
            if os.getpid() == process and left:  # a fork has a copy of this loop, and must not give back its rounds
                _write(path, spent + once * made)


def _read(path: Path) -> Accountant:
    """The account in the file, a new one if there is none, or `ParameterError`: a damaged file is not an empty one."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Accountant()
    except (OSError, ValueError):
        raise ParameterError(f"path {path.name!r} cannot be read: it is damaged, or no account.") from None
    try:
        return Accountant.from_json(text)
    except ParameterError as error:
        raise ParameterError(f"path {path.name!r} cannot be read: {error}") from None


def _write(path: Path, run: Run) -> None:
    """Replace the account; a reader sees all of the old one or all of the new one, even after a power cut."""
    accountant = Accountant()
    accountant.record(run)
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(accountant.to_json())
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    sync_folder(path)


def guarded(batches: Iterable[Batch], plan: Callable[[], Check]) -> Iterator[Batch]:
    """The batches, until a fresh plan does not admit one more.

    `plan` is called at once, so that it can refuse arguments at the call, and again whenever its check says no.
    """
    return _guarded(iter(batches), plan, plan())


def _guarded(batches: Iterator[Batch], plan: Callable[[], Check], check: Check) -> Iterator[Batch]:
    while check() or (check := plan())():
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch


def rounds_left(
    spent: Run, step: Release, *, epsilon: float, delta: float, method: str | None = None, again: bool = False
) -> int:
    """A number of rounds of `step` that fits in addition to what is `spent`, and 0 only if none does.

    It is the largest such number if nothing else is spent, or if the rounds of an earlier answer were used up and this
    is called `again`. Otherwise it may be `ROUNDS_AHEAD`, or one.
    """
    budget = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    if len(spent.parts) > 1 and not again:
        # fewer rounds of the same step cost less, so all up to this number fit
        for rounds in (ROUNDS_AHEAD, 1):
            if (spent + step * rounds).epsilon(delta=delta, method=method) <= budget:
                return rounds
        return 0
    return max_rounds(step, epsilon=budget, delta=delta, method=method, spent=spent)


def _rounds_since(before: Run, now: Run, step: Run) -> float:
    """Rounds of `step` recorded since `before`; infinitely many, which no plan admits, if anything else was."""
    if not step.parts:
        return 0.0 if now == before else float("inf")
    mechanism, once = step.parts[0]
    rounds = (dict(now.parts).get(mechanism, 0) - dict(before.parts).get(mechanism, 0)) // once
    return rounds if rounds >= 0 and now == before + step * rounds else float("inf")
