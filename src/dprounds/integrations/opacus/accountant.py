"""The accountant that Opacus's engine records with."""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from itertools import chain
from typing import Any, Protocol

import opacus.accountants
import opacus.optimizers
from opacus.accountants import IAccountant
from opacus.optimizers import DPOptimizer

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.opacus.account import Account, Stamp, new_identity, stamp_of
from dprounds.integrations.opacus.history import Line, checked_history, checked_line, one_step
from dprounds.integrations.opacus.hook import StepHook, rate_drawn_here
from dprounds.mechanisms.base import Run

__all__ = ["NAME", "ExactAccountant"]

NAME = "dprounds"
# Accountants of Opacus whose histories have the same shape: noise multiplier, sampling rate, steps.
SAME_SHAPE = (NAME, "rdp", "prv", "gdp")


class Journal(Protocol):
    """Where steps are counted before they are made."""

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
    After ``make_private(poisson_sampling=False)`` a batch is not a Poisson sample. And batches that the loop itself
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

    def __getstate__(self) -> dict[str, Any]:
        # a copy goes on independently, under a new name and without the file
        account = self._account()
        return {"history": account.history, "_stamps": account.stamps, "_journal": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _identity=new_identity())

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step: noise in [0, inf) times the clipping norm, on a batch sampled at a rate in [0, 1]."""
        if type(noise_multiplier) is not float or type(sample_rate) is not float:
            noise_multiplier, sample_rate, _ = checked_line(noise_multiplier, sample_rate, 1)
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
        """Everything recorded, as one run. Refuses a step without noise, which no run describes."""
        lines = checked_history(self.history)
        return Run(tuple(chain.from_iterable((one_step(noise, rate) * steps).parts for noise, rate, steps in lines)))

    def get_epsilon(self, delta: float, *, method: str | None = None, poisson: bool = True, **ignored: object) -> float:
        """Epsilon of all steps so far, at `delta`; ``inf`` if one of them added no noise.

        Guarantee
        ---------
        Raises, or returns an epsilon at which the training so far is (epsilon, delta)-DP, if each step's batch is one
        Poisson sample, whole or split by a `BatchMemoryManager`, or a sum as it was declared to `allow_accumulation`.
        It holds for replacing a record by an empty one, the number of records being public; after
        `make_private_with_public_records` it holds for adding or removing one record. Errs upward.

        Parameters
        ----------
        delta
            Failure mass, in (0, 1); below 1/n, since publishing one of n records has a delta of 1/n.
        method
            The bound; by default exact, or by the best Rényi order for too few steps to be summed.
        poisson
            As in Opacus's GDP accountant, but only Poisson samples are accounted here.

        The parameters of Opacus's other accountants (`alphas`, `eps_error`, `delta_error`), and options of its
        optimizers, which `make_private_with_epsilon` passes along, are accepted and change nothing. Other names are
        refused.
        """
        if ignored and (unknown := sorted(ignored.keys() - _names_in_opacus())):
            raise ParameterError(f"get_epsilon takes method and poisson, got {_validate.show(unknown[0])}.")
        if poisson is not True:
            raise UnsupportedError("Only Poisson samples are accounted here: draw batches with DPDataLoader.")
        delta = _validate.real("delta", delta, _validate.DELTA)
        if self._lacks_noise():
            return math.inf
        return self.run.epsilon(delta=delta, method=method)

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
        return StepHook(self, rate_drawn_here(rate))

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """The account as `load_state_dict` restores it: its history, and stamps that no other training has."""
        state = OrderedDict() if destination is None else destination
        account = self._account()
        state["history"], state["mechanism"], state["stamps"] = account.history, NAME, account.stamps
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
        if self._journal is not None:
            self._journal.write(account)
        self.history, self._stamps, self._identity = account.history, account.stamps, new_identity()

    def _account(self) -> Account:
        """The recorded steps, and the accountants that recorded them."""
        history = checked_history(self.history)
        return Account(history, self._stamps_after(sum(steps for _, _, steps in history)))

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
