"""The accountant that Opacus's engine records with."""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import opacus.accountants
import opacus.optimizers
from opacus.accountants import IAccountant
from opacus.optimizers import DPOptimizer

from dprounds import _validate
from dprounds.errors import LedgerError, ParameterError, UnsupportedError
from dprounds.integrations.granted import Granted
from dprounds.integrations.opacus.account import Account, GrantName, Stamp, new_identity, stamp_of
from dprounds.integrations.opacus.history import Line, checked_history, checked_line, one_step
from dprounds.integrations.opacus.hook import StepHook, rate_drawn_here
from dprounds.mechanisms.base import ADD_REMOVE, RELATIONS, ZERO_OUT, Run

if TYPE_CHECKING:  # a ledger needs SQLAlchemy, and this file does not
    from dprounds.ledger import Grant

__all__ = ["NAME", "ExactAccountant"]

NAME = "dprounds"
# Accountants of Opacus whose histories have the same shape: noise multiplier, sampling rate, steps.
SAME_SHAPE = (NAME, "rdp", "prv", "gdp")


class Journal(Protocol):
    """Where steps are counted before they are made."""

    path: Path
    grant: GrantName | None

    def take(self, noise: float, rate: float) -> None:
        """Write one more step to disk before it is recorded."""

    def reserve(self, noise: float, rate: float, steps: int, most_ahead: float) -> None:
        """Write `steps` more steps to disk, and at most `most_ahead` after those."""

    def write(self, account: Account) -> None:
        """Write this account to disk."""


class ExactAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types, so its class is Any
    """What Opacus's optimizer has released so far, and its exact epsilon.

    `history` is in Opacus's own shape, ``[(noise_multiplier, sample_rate, num_steps), …]``, in the order of training.

    **Which neighbours.** After ``engine.make_private`` the number of records n is public, and neighbours differ by one
    record that is replaced by an empty one, whose gradient is zero (*zero-out*). Adding or removing a record is not
    covered there: Opacus derives the sampling rate and the divisor of the noisy sum from n, so that one record more
    changes the scale of the noise, and the weights show that. With `make_private_with_public_records` rate and divisor
    come from a number that you give, and the same epsilon holds for adding or removing one record.

    The epsilon is the same because the pair of laws is. At a fixed rate and divisor, a step without the record, or with
    an empty one in its place, is the noise plus the sum over the others that were drawn. With the record, its clipped
    gradient is added with the probability of the rate. That is the Poisson-sampled Gaussian.

    The accountant cannot see, and assumes, that the batch of each step is one Poisson sample at the optimizer's rate,
    as `DPDataLoader` draws it. (It draws multiples of 2^-24; every rate is rounded up to one when it is accounted.)
    After ``make_private(poisson_sampling=False)`` the loader goes through all records once in a pass, shuffled. Then
    ``(noise_multiplier, 1.0, 1)`` is recorded with the first step of each pass, and `run` has a `Shuffled` epoch for
    it; loaders of which that cannot be told are refused. It assumes that each step's batch is a new one of the pass
    that was begun last. And batches that the loop itself
    sums through ``optimizer.signal_skip_step`` look like the parts of one batch that a `BatchMemoryManager` has split:
    one step is recorded where several are due, and the epsilon is below the truth. Batches summed by several
    ``backward`` before a step are seen, and refused until `allow_accumulation` says what they are.

    A step is refused, before the weights move, if its noise is scaled to less than the norm at which ghost or per-layer
    clipping has clipped. Where flat clipping has clipped the parts of one batch at different norms, the largest counts.
    """

    def __init__(self) -> None:
        self.history: list[Line] = []
        # of the accountants that recorded before, if this one has resumed
        self._stamps: list[Stamp] = []
        self._identity = new_identity()
        self._journal: Journal | None = None
        # None until a loader was made private
        self._relation: str | None = None
        # of a pass over a loader that shuffles; 0 if there was none
        self._batches = 0
        # the grant that these steps are made under, what is left of it, and the file in which they are counted ahead
        self._grant_name: GrantName | None = None
        self._granted: Granted | None = None
        self._file: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        # a copy goes on independently, under a new name, without the file, and without leave to use the grant
        account = self._account()
        kept = {"_relation": self._relation, "_batches": self._batches, "_grant_name": self._grant_name}
        return {
            "history": account.history,
            "_stamps": account.stamps,
            "_journal": None,
            "_granted": None,
            "_file": None,
            **kept,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _identity=new_identity())

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step: noise in [0, inf) times the clipping norm, on a batch sampled at a rate in [0, 1]."""
        if type(noise_multiplier) is not float or type(sample_rate) is not float:
            noise_multiplier, sample_rate, _ = checked_line(noise_multiplier, sample_rate, 1)
        if self._grant_name is not None:
            noise_multiplier, sample_rate, _ = checked_line(noise_multiplier, sample_rate, 1)
            self._begin_grant(noise_multiplier, sample_rate, 1).use(self._one_step(noise_multiplier, sample_rate))
        if self._journal is not None:
            noise_multiplier, sample_rate, _ = checked_line(noise_multiplier, sample_rate, 1)
            self._journal.take(noise_multiplier, sample_rate)
        history = self.history
        if history:
            noise, rate, steps = history[-1]
            if noise == noise_multiplier and rate == sample_rate:  # equal to checked numbers, so both are in range
                history[-1] = (noise, rate, steps + 1)
                return
        history.append(checked_line(noise_multiplier, sample_rate, 1))

    @property
    def run(self) -> Run:
        """Everything recorded, as one run for `relation`. Refuses a step without noise, which no run describes."""
        return self.run_for(self.relation)

    def run_for(self, relation: str) -> Run:
        """Everything recorded, for other neighbours: ``"zero-out"``, ``"add-remove"`` or ``"replace-one"``.

        Guarantee
        ---------
        Raises `UnsupportedError` for add-remove where the number of records is used, or a run that bounds the training.
        """
        relation = _validate.choice("relation", relation, RELATIONS)
        if relation == ADD_REMOVE != self.relation:
            raise UnsupportedError(
                "This training used the number of records, so that adding or removing one is not covered: use "
                "make_private_with_public_records."
            )
        lines = checked_history(self.history)
        parts = ((one_step(noise, rate, relation, self._batches) * steps).parts for noise, rate, steps in lines)
        return Run(tuple(chain.from_iterable(parts)))

    @property
    def relation(self) -> str:
        """Which data sets are neighbours: ``"zero-out"``, or ``"add-remove"`` where the number of records is not used.

        The second is that of `make_private_with_public_records`, if all loaders of the engine were made so.
        """
        return self._relation or ZERO_OUT

    def use_grant(self, grant: Grant) -> None:
        """Make no step, from now on, that `grant` does not cover: it is refused before the weights move.

        The work of the grant begins with the first step, or in a block of `count_ahead` at once. After a crash it goes
        on only where all steps were made in such blocks: load the newest checkpoint, begin the block with the same
        file, and call this with ``ledger.grant(…)``. What that file had reserved counts as made. Committing is up to
        you.

        Parameters
        ----------
        grant
            Of a budget with this accountant's `relation`, for a run as `planned_run` returns it: each step needs one
            that was granted, with at most its noise and at least its rate.
        """
        granted = Granted(
            grant,
            relation=self.relation,
            advice="Open a budget with that relation; for add-remove, use make_private_with_public_records.",
        )
        if self._granted is not None or self._grant_name not in (None, granted.name):
            name, job = self._grant_name or granted.name
            raise ParameterError(f"accountant must have no grant yet, and makes its steps under {job!r} of {name!r}.")
        if len(self) and (self._journal is None or self._journal.grant != granted.name):
            raise ParameterError(
                f"accountant must have made no step before it uses a grant, got one of {len(self)}. To resume, use the "
                "grant in the block of count_ahead."
            )
        granted.use(self.run)
        if self._journal is not None:
            # before the file names the grant: whoever finds it there may resume
            granted.begin(resumes=self._journal.grant == granted.name)
        self._granted, self._grant_name = granted, granted.name
        if self._journal is not None:
            self._file = self._journal.path
            self._journal.write(self._account())

    def granted_steps(self, noise: float, rate: float) -> float:
        """How many more of these steps the grant covers; infinitely many without a grant."""
        if self._grant_name is None:
            return math.inf
        step = self._one_step(noise, rate)
        if self._granted is None or not step.parts:
            return 0 if self._granted is None else math.inf
        return self._granted.rounds_left(step.mechanisms[0])

    def check_grant(self, noise: float, rate: float, steps: int) -> None:
        """Raise where the grant does not cover so many more steps; begin its work where it does."""
        if self._grant_name is not None:
            self._begin_grant(noise, rate, steps)

    def _begin_grant(self, noise: float, rate: float, steps: int) -> Granted:
        name = " of ".join(map(repr, reversed(self._grant_name or ())))
        if self._granted is None:
            raise LedgerError(
                f"This training is made under the grant {name}, and this accountant may not use it: it is a copy, or "
                "was restored. Call accountant.use_grant(ledger.grant(…)) in the block of count_ahead that resumes it."
            )
        if self._file is not None and (self._journal is None or self._journal.path != self._file):
            raise LedgerError(
                f"The steps under the grant {name} are counted in {self._file.name!r}: make all of them in blocks of "
                "count_ahead with that file, or a crash would forget some."
            )
        self._granted.check(self._one_step(noise, rate) * steps)
        self._granted.begin(resumes=self._journal is not None and self._journal.grant == self._grant_name)
        return self._granted

    def _one_step(self, noise: float, rate: float) -> Run:
        if noise == 0 and rate > 0:
            raise UnsupportedError("No grant covers a step without noise, so it was not made.")
        return one_step(noise, rate, self.relation, self._batches)

    def _count_in(self, file: Path, saved: Account | None) -> None:
        """Count the steps under the grant in this file from now on, if there is a grant; `saved` is what it holds."""
        if self._grant_name is None:
            return
        known = self._granted is not None and self._file in (None, file)
        if not known and (saved is None or saved.grant != self._grant_name):
            raise ParameterError(
                f"path must be the file in which the steps under the grant {self._grant_name[1]!r} were counted, got "
                f"{file.name!r}."
            )
        if self._granted is not None:
            self._granted.begin(resumes=False)  # before the file names the grant: whoever finds it there may resume
            self._file = file

    def get_epsilon(
        self,
        delta: float,
        *,
        method: str | None = None,
        relation: str | None = None,
        poisson: bool = True,
        **ignored: object,
    ) -> float:
        """Epsilon of all steps so far, at `delta`; ``inf`` if one of them added no noise.

        Guarantee
        ---------
        Raises, or returns an epsilon at which the training so far is (epsilon, delta)-DP, if each step's batch is one
        Poisson sample, or one of a shuffled pass, whole or split by a `BatchMemoryManager`, or a sum as it was declared
        to `allow_accumulation`.
        It holds for replacing a record by an empty one, the number of records being public; after
        `make_private_with_public_records` it holds for adding or removing one record. Errs upward.

        Parameters
        ----------
        delta
            Failure mass, in (0, 1); below 1/n, since publishing one of n records has a delta of 1/n.
        method
            The bound; by default exact, or by the best Rényi order for too few steps to be summed.
        relation
            As for `run_for`; by default the accountant's own.
        poisson
            As in Opacus's GDP accountant, but only Poisson samples are accounted here.

        The parameters of Opacus's other accountants (`alphas`, `eps_error`, `delta_error`), and options of its
        optimizers, which `make_private_with_epsilon` passes along, are accepted and change nothing. Other names are
        refused.
        """
        if ignored and (unknown := sorted(ignored.keys() - _names_in_opacus())):
            raise ParameterError(f"get_epsilon takes method, relation and poisson, got {_validate.show(unknown[0])}.")
        if poisson is not True:
            raise UnsupportedError("Only Poisson samples are accounted here: draw batches with DPDataLoader.")
        delta = _validate.real("delta", delta, _validate.DELTA)
        if self._lacks_noise():
            return math.inf
        return self.run_for(relation or self.relation).epsilon(delta=delta, method=method)

    def __len__(self) -> int:
        """The number of steps so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus knows this accountant."""
        return NAME

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[DPOptimizer], None]:
        """What Opacus's optimizer calls after it has added noise and before it steps."""
        rate = _validate.real("sample_rate", sample_rate, _validate.SAMPLING_RATE)
        self._relation = ZERO_OUT  # Opacus takes the rate from the number of records
        return StepHook(self, rate_drawn_here(rate))

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """The account as `load_state_dict` restores it: its history, and stamps that no other training has."""
        state = OrderedDict() if destination is None else destination
        state["mechanism"] = NAME
        state.update(self._account().state)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *, of_opacus: bool = False) -> None:
        """Go on from what `state_dict` wrote.

        Guarantee
        ---------
        Raises `ParameterError`, a `ValueError`, and changes nothing, or restores every recorded step and forgets none:
        what this accountant has recorded must be the beginning of what is restored, the very same steps by their
        stamps. A state without stamps is of another training. To go back to earlier weights, load the model's state
        alone; the steps since then were made.

        Opacus's ``engine.load_checkpoint`` loads the weights before it calls this. If this raises, the model has the
        checkpoint's weights, and the account does not have their steps: go on with neither.

        Parameters
        ----------
        state_dict
            The state of an accountant of this kind.
        of_opacus
            Take the state of one of Opacus's own accountants too. Its history bounds the training only if every step
            was made on one Poisson sample at the rate that it names, whole or split by a `BatchMemoryManager`; if no
            batches were summed before a step, which Opacus records as one sample at a higher rate; if clipping was not
            adaptive; and if no scheduler has changed the clipping norm, or clipping was flat and it did so between
            batches. The history does not show whether these hold.
        """
        given: object = state_dict  # a checkpoint may hold anything
        if not isinstance(given, Mapping) or not {"history", "mechanism"} <= set(given):
            raise ParameterError(
                f"The accountant's state must hold history and mechanism, got {_validate.show(state_dict)}."
            )
        mechanism = _validate.choice("mechanism", state_dict["mechanism"], SAME_SHAPE)
        if mechanism != NAME and of_opacus is not True:
            raise ParameterError(
                f"mechanism must be '{NAME}', got '{mechanism}': a history of Opacus's own may be no bound. "
                "If this one is, by what load_state_dict asks of it, pass of_opacus=True. The account is as it was; if "
                "engine.load_checkpoint was called, the weights are those of the checkpoint already."
            )
        account = Account.checked(state_dict)
        if not account.goes_on_from(self._account()):
            raise ParameterError(
                f"The accountant's state must go on from the {len(self)} steps that are recorded here, and lacks some "
                "of them, or has as many of another training. They were made, so the account is as it was. If "
                "engine.load_checkpoint was called, the weights are those of the checkpoint already, and their steps "
                "are not in this account. To resume a training, load its checkpoint with a new engine, before the "
                "first step. To go back to earlier weights of this training, load the model's state alone."
            )
        if self._granted is not None:
            raise ParameterError("The accountant's state must be loaded before the accountant uses a grant.")
        joined = self._joined(account)
        if self._journal is not None:
            self._journal.write(joined)
        self._adopt(joined)
        self.history, self._stamps, self._identity = account.history, account.stamps, new_identity()

    def _joined(self, account: Account) -> Account:
        """An account with the grant that either names, and the relation of both; refused where they name two grants."""
        if None not in (account.grant, self._grant_name) and account.grant != self._grant_name:
            raise ParameterError(
                f"The accountant's state must be of the grant {self._grant_name}, got {account.grant}."
            )
        batches = max(self._batches, account.batches)
        known = {self._relation, account.relation if account.history else None} - {None}
        relation = known.pop() if len(known) == 1 else ZERO_OUT
        named = self._grant_name or account.grant
        return replace(account, grant=named, relation=relation or ZERO_OUT, batches=batches)

    def _adopt(self, account: Account) -> None:
        """Take over the grant of an account, and its relation where it has steps."""
        joined = self._joined(account)
        self._grant_name, self._batches = joined.grant, joined.batches
        if account.history:
            self._relation = joined.relation

    def _account(self) -> Account:
        """The recorded steps, and the accountants that recorded them."""
        history = checked_history(self.history)
        stamps = self._stamps_after(sum(steps for _, _, steps in history))
        return Account(history, stamps, self.relation, self._grant_name, self._batches)

    def _stamps_after(self, steps: int) -> list[Stamp]:
        """The stamps of an account of `steps` steps, those that were restored and those of this accountant."""
        restored = self._stamps[-1][1] if self._stamps else 0
        return [*self._stamps, *([stamp_of(self._identity, steps)] if steps != restored else [])]

    def _lacks_noise(self) -> bool:
        """Whether some step added no noise to what was sampled."""
        return any(noise == 0 and rate > 0 and steps > 0 for noise, rate, steps in checked_history(self.history))


def _names_in_opacus() -> set[str]:
    """Arguments of Opacus's optimizers and of its accountants' epsilons."""
    optimizers = [kind.__init__ for kind in vars(opacus.optimizers).values() if inspect.isclass(kind)]
    accountants = [kind.get_epsilon for kind in vars(opacus.accountants).values() if hasattr(kind, "get_epsilon")]
    # the loader's option, which make_private takes by name and make_private_with_epsilon does not
    return {"rand_on_empty"}.union(*(inspect.signature(method).parameters for method in optimizers + accountants))
