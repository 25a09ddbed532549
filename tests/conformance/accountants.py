"""Our ways to account, each as an `Accounting`: all must satisfy the contract, and so they agree."""

from __future__ import annotations

from typing import Any, ClassVar

from benchmarks.peers import DpAccounting, History, OpacusPrv, Ours

# So many rounds are recorded one at a time; more of them at once, to keep the tests short.
ONE_BY_ONE = 5_000


class Api(Ours):
    """Runs by `*` and `+`.

    The clauses ask much twice, so answers are kept, by the parts in the order in which they came: two ways to account
    share an answer only where they arrived at the same parts.
    """

    _known: ClassVar[dict[tuple[object, ...], float]] = {}

    def epsilon(self, history: History, delta: float) -> float:
        return self._kept("epsilon", self.run(history), delta=delta)

    def delta(self, history: History, epsilon: float) -> float:
        return self._kept("delta", self.run(history), epsilon=epsilon)

    def _kept(self, question: str, run: Any, **given: float) -> float:
        key = (question, getattr(run, "run", run).parts, *given.values())
        if key not in self._known:
            self._known[key] = float(getattr(run, question)(**given))
        return self._known[key]


class Recorded(Api):
    """An `Accountant` that records the rounds of each part at once."""

    title: ClassVar[str] = "dprounds Accountant"

    def run(self, history: History) -> Any:
        accountant = self.dprounds.Accountant()
        for kind, parameters, rounds in history:
            accountant.record(self._mechanism(kind, parameters), rounds=rounds)
        return accountant


class RecordedOneByOne(Api):
    """An `Accountant` that records round after round, as a training loop does."""

    title: ClassVar[str] = "dprounds Accountant, one by one"

    def run(self, history: History) -> Any:
        accountant = self.dprounds.Accountant()
        for kind, parameters, rounds in history:
            step = self._mechanism(kind, parameters)
            if type(rounds) is int and 0 <= rounds <= ONE_BY_ONE:
                for _ in range(rounds):
                    accountant.record(step)
            else:
                accountant.record(step, rounds=rounds)
        return accountant


class Resumed(Api):
    """An `Accountant` that is written to JSON and read again after each part."""

    title: ClassVar[str] = "dprounds Accountant, resumed"

    def run(self, history: History) -> Any:
        accountant = self.dprounds.Accountant()
        for kind, parameters, rounds in history:
            accountant.record(self._mechanism(kind, parameters), rounds=rounds)
            accountant = self.dprounds.Accountant.from_json(accountant.to_json())
        return accountant


class InsideOpacus(OpacusPrv):
    """Our accountant with Opacus's interface."""

    title: ClassVar[str] = "dprounds in Opacus"

    def __init__(self) -> None:
        import dprounds
        from dprounds.integrations.opacus import ExactAccountant

        self._kind = ExactAccountant
        self.errors = (dprounds.PrivacyError,)

    def _accountant(self) -> Any:
        return self._kind()


class InsideDpAccounting(DpAccounting):
    """Our accountant with dp-accounting's interface."""

    title: ClassVar[str] = "dprounds in dp-accounting"

    def __init__(self) -> None:
        super().__init__()
        import dprounds
        from dprounds.integrations.dp_accounting import ExactAccountant

        self._kind = ExactAccountant
        self.errors = (dprounds.PrivacyError, self.peer.UnsupportedEventError)

    def _accountant(self, history: History) -> Any:
        return self._kind(self._relation(history))
