"""What each library answers for a history, at a stated setting; a library is imported when its adapter is made.

A history is a list of ``(kind, parameters, rounds)``, in the words of dprounds:

==========================  ====================================
``gaussian``                ``noise_multiplier``
``sampled-gaussian``        ``noise_multiplier``, ``sampling_rate``
``laplace``                 ``noise_multiplier`` (scale over L1 sensitivity)
``randomized-response``     ``epsilon``
==========================  ====================================

Adapters pass their arguments on as they come: what a library does with a bad one is what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

Parameters = dict[str, Any]  # a bad input may be anything


class Part(NamedTuple):
    """One mechanism and how often it was released."""

    kind: str
    parameters: Parameters
    rounds: Any  # an integer, unless the input is bad on purpose


History = Sequence[Part]


class NotCovered(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The library has no such mechanism, or no such question."""


class Accounting(Protocol):
    """A library at one setting."""

    library: ClassVar[str]  # the distribution's name, "" for none
    title: ClassVar[str]
    # "bound" if the library says that its answer is never too small, "estimate" if it says that it is close
    claim: ClassVar[str]
    errors: tuple[type[BaseException], ...]  # of its own, beside those of Python

    def epsilon(self, history: History, delta: float) -> float:
        """Epsilon of all parts together."""
        ...

    def delta(self, history: History, epsilon: float) -> float:
        """Delta of all parts together."""
        ...


class Ours:
    """dprounds at its defaults."""

    library: ClassVar[str] = "dprounds"
    title: ClassVar[str] = "dprounds"
    claim: ClassVar[str] = "bound"

    def __init__(self) -> None:
        import dprounds
        from dprounds.mechanisms import Run  # the names load on use: what is timed as the import must hold them

        self.dprounds, self._nothing = dprounds, Run()
        self.errors: tuple[type[BaseException], ...] = (dprounds.PrivacyError,)

    def _mechanism(self, kind: str, parameters: Parameters) -> Any:  # noqa: ANN401  (any mechanism)
        d = self.dprounds
        if kind == "gaussian":
            return d.Gaussian(parameters["noise_multiplier"])
        if kind == "sampled-gaussian":
            return d.PoissonSampled(d.Gaussian(parameters["noise_multiplier"]), parameters["sampling_rate"])
        if kind == "laplace":
            return d.Laplace(parameters["noise_multiplier"])
        if kind == "randomized-response":
            return d.RandomizedResponse(parameters["epsilon"])
        raise NotCovered(kind)

    def run(self, history: History) -> Any:  # noqa: ANN401  (this file imports nothing of dprounds)
        """The history as one run, by `*` and `+`."""
        total = self._nothing
        for kind, parameters, rounds in history:
            total = total + self._mechanism(kind, parameters) * rounds
        return total

    def epsilon(self, history: History, delta: float) -> float:
        """Epsilon by the public API."""
        return float(self.run(history).epsilon(delta=delta))

    def delta(self, history: History, epsilon: float) -> float:
        """Delta by the public API."""
        return float(self.run(history).delta(epsilon=epsilon))


class OursOptimal(Ours):
    """dprounds by the paper's conversion alone, what it falls back to."""

    title: ClassVar[str] = "dprounds, optimal"

    def epsilon(self, history: History, delta: float) -> float:
        """Epsilon by the best Rényi order."""
        return float(self.run(history).epsilon(delta=delta, method="optimal"))

    def delta(self, history: History, epsilon: float) -> float:
        """Delta by the best Rényi order."""
        return float(self.run(history).delta(epsilon=epsilon, method="optimal"))


class DpAccounting:
    """dp-accounting's `PLDAccountant` at its defaults."""

    library: ClassVar[str] = "dp-accounting"
    title: ClassVar[str] = "dp-accounting PLD"
    claim: ClassVar[str] = "bound"
    interval: ClassVar[float] = 1e-4  # its default

    def __init__(self) -> None:
        import dp_accounting

        self.peer = dp_accounting
        self.errors: tuple[type[BaseException], ...] = (dp_accounting.UnsupportedEventError,)

    def _event(self, kind: str, parameters: Parameters) -> Any:  # noqa: ANN401  (the peer has no types)
        d = self.peer
        if kind == "gaussian":
            return d.GaussianDpEvent(parameters["noise_multiplier"])
        if kind == "sampled-gaussian":
            return d.PoissonSampledDpEvent(
                parameters["sampling_rate"], d.GaussianDpEvent(parameters["noise_multiplier"])
            )
        if kind == "laplace":
            return d.LaplaceDpEvent(parameters["noise_multiplier"])
        if kind == "randomized-response":
            # it redraws one of two buckets with probability p: the truth comes out with 1 - p/2 = e^ε / (1 + e^ε)
            return d.RandomizedResponseDpEvent(2.0 / (1.0 + math.exp(parameters["epsilon"])), 2)
        raise NotCovered(kind)

    def _relation(self, history: History) -> Any:  # noqa: ANN401  (the peer has no types)
        """It has randomized response for a replaced record only, under which its Gaussian is another one."""
        kinds = {part.kind for part in history}
        if "randomized-response" not in kinds:
            return self.peer.NeighboringRelation.ADD_OR_REMOVE_ONE
        if kinds == {"randomized-response"}:
            return self.peer.NeighboringRelation.REPLACE_ONE
        raise NotCovered("randomized response beside others")

    def _accountant(self, history: History) -> Any:  # noqa: ANN401  (the peer has no types)
        return self.peer.pld.PLDAccountant(self._relation(history), value_discretization_interval=self.interval)

    def _composed(self, history: History) -> Any:  # noqa: ANN401  (the peer has no types)
        accountant = self._accountant(history)
        for kind, parameters, rounds in history:
            accountant.compose(self._event(kind, parameters), rounds)
        return accountant

    def epsilon(self, history: History, delta: float) -> float:
        """Epsilon of the composed events."""
        return float(self._composed(history).get_epsilon(delta))

    def delta(self, history: History, epsilon: float) -> float:
        """Delta of the composed events."""
        return float(self._composed(history).get_delta(epsilon))


class DpAccountingFine(DpAccounting):
    """The same with a grid of losses ten times as fine."""

    title: ClassVar[str] = "dp-accounting PLD, 1e-5"
    interval: ClassVar[float] = 1e-5


class DpAccountingRdp(DpAccounting):
    """dp-accounting's `RdpAccountant` with dense orders."""

    title: ClassVar[str] = "dp-accounting RDP"
    # its default list has 156 orders; these are 400, evenly in log(order - 1) from 1.01 to 2,001
    orders: ClassVar[list[float]] = [1.0 + 0.01 * 200_000.0 ** (k / 399) for k in range(400)]

    def _accountant(self, history: History) -> Any:  # noqa: ANN401  (the peer has no types)
        return self.peer.rdp.RdpAccountant(self.orders, self._relation(history))


class OpacusPrv:
    """Opacus' `PRVAccountant` at its defaults."""

    library: ClassVar[str] = "opacus"
    title: ClassVar[str] = "Opacus PRV"
    claim: ClassVar[str] = "bound"

    def __init__(self) -> None:
        from opacus import accountants

        self.peer = accountants
        self.errors: tuple[type[BaseException], ...] = ()

    def _accountant(self) -> Any:  # noqa: ANN401  (the peer has no types)
        return self.peer.PRVAccountant()

    def epsilon(self, history: History, delta: float) -> float:
        """Epsilon of a history that is loaded as a resumed training would load it."""
        steps = []
        for kind, parameters, rounds in history:
            if kind not in ("gaussian", "sampled-gaussian"):
                raise NotCovered(kind)
            steps.append((parameters["noise_multiplier"], parameters.get("sampling_rate", 1.0), rounds))
        accountant = self._accountant()
        accountant.load_state_dict({"history": steps, "mechanism": accountant.mechanism()})
        return float(accountant.get_epsilon(delta))

    def delta(self, history: History, epsilon: float) -> float:
        """Not a question that it takes."""
        raise NotCovered("delta")


class OpacusRdp(OpacusPrv):
    """Opacus' `RDPAccountant` at its default orders."""

    title: ClassVar[str] = "Opacus RDP"

    def _accountant(self) -> Any:  # noqa: ANN401  (the peer has no types)
        return self.peer.RDPAccountant()


class Prv:
    """prv-accountant, the upper end of its bracket."""

    library: ClassVar[str] = "prv-accountant"
    title: ClassVar[str] = "prv-accountant"
    claim: ClassVar[str] = "bound"
    eps_error: ClassVar[float] = 0.01
    # what its documentation recommends, of delta
    delta_error: ClassVar[float] = 1e-3

    def __init__(self) -> None:
        import prv_accountant
        from prv_accountant import privacy_random_variables

        self.peer, self.laws = prv_accountant, privacy_random_variables
        self.errors: tuple[type[BaseException], ...] = ()

    def _law(self, kind: str, parameters: Parameters) -> Any:  # noqa: ANN401  (the peer has no types)
        if kind == "gaussian":
            return self.laws.GaussianMechanism(noise_multiplier=parameters["noise_multiplier"])
        if kind == "sampled-gaussian":
            return self.laws.PoissonSubsampledGaussianMechanism(
                noise_multiplier=parameters["noise_multiplier"], sampling_probability=parameters["sampling_rate"]
            )
        if kind == "laplace":
            return self.laws.LaplaceMechanism(mu=1.0 / parameters["noise_multiplier"])
        if kind == "randomized-response":
            return self.laws.PureDPMechanism(parameters["epsilon"])
        raise NotCovered(kind)

    def epsilon(self, history: History, delta: float) -> float:
        """The upper end of its bracket."""
        laws = [self._law(part.kind, part.parameters) for part in history]
        rounds = [part.rounds for part in history]
        accountant = self.peer.PRVAccountant(
            prvs=laws, max_self_compositions=rounds, eps_error=self.eps_error, delta_error=self.delta_error * delta
        )
        return float(accountant.compute_epsilon(delta, rounds)[2])

    def delta(self, history: History, epsilon: float) -> float:
        """The upper end of its bracket, at the error in delta that suits 1e-5."""
        laws = [self._law(part.kind, part.parameters) for part in history]
        rounds = [part.rounds for part in history]
        accountant = self.peer.PRVAccountant(
            prvs=laws, max_self_compositions=rounds, eps_error=self.eps_error, delta_error=self.delta_error * 1e-5
        )
        return float(accountant.compute_delta(epsilon, rounds)[2])


class PrvFine(Prv):
    """The same with a tenth of the error in epsilon."""

    title: ClassVar[str] = "prv-accountant, 0.001"
    eps_error: ClassVar[float] = 1e-3


class Autodp:
    """autodp: the exact composition of Gaussians where there are only such, and else its Rényi functions."""

    library: ClassVar[str] = "autodp"
    title: ClassVar[str] = "autodp"
    claim: ClassVar[str] = "bound"

    def __init__(self) -> None:
        from autodp import mechanism_zoo, transformer_zoo

        self.zoo, self.transformers = mechanism_zoo, transformer_zoo
        self.errors: tuple[type[BaseException], ...] = ()

    def _mechanism(self, kind: str, parameters: Parameters) -> Any:  # noqa: ANN401  (the peer has no types)
        if kind == "gaussian":
            return self.zoo.ExactGaussianMechanism(sigma=parameters["noise_multiplier"])
        if kind == "sampled-gaussian":
            amplify = self.transformers.AmplificationBySampling(PoissonSampling=True)
            base = self.zoo.ExactGaussianMechanism(sigma=parameters["noise_multiplier"])
            return amplify(base, parameters["sampling_rate"], improved_bound_flag=True)
        if kind == "laplace":
            return self.zoo.LaplaceMechanism(b=parameters["noise_multiplier"])
        if kind == "randomized-response":
            return self.zoo.RandresponseMechanism(p=1.0 / (1.0 + math.exp(-parameters["epsilon"])))
        raise NotCovered(kind)

    def _composed(self, history: History) -> Any:  # noqa: ANN401  (the peer has no types)
        gaussian = {part.kind for part in history} == {"gaussian"}
        compose = self.transformers.ComposeGaussian() if gaussian else self.transformers.Composition()
        return compose(
            [self._mechanism(part.kind, part.parameters) for part in history], [part.rounds for part in history]
        )

    def epsilon(self, history: History, delta: float) -> float:
        """Epsilon of the composed mechanism."""
        return float(self._composed(history).get_approxDP(delta))

    def delta(self, history: History, epsilon: float) -> float:
        """Delta of the composed mechanism."""
        return float(self._composed(history).get_approx_delta(epsilon))


class AutodpFourier(Autodp):
    """autodp's analytical Fourier accountant, asked for delta and inverted here by bisection.

    Its own epsilon (`get_approxDP`) minimises ``|delta(log x) - delta|`` over x in (0, 1), so it ends just below zero
    whatever was asked; its delta answers, and that is what is asked.
    """

    title: ClassVar[str] = "autodp Fourier"
    claim: ClassVar[str] = "estimate"

    def _mechanism(self, kind: str, parameters: Parameters) -> Any:  # noqa: ANN401  (the peer has no types)
        zoo = self.zoo
        if kind == "laplace":
            return zoo.LaplaceMechanism(b=parameters["noise_multiplier"], phi_off=False, RDP_off=True)
        if kind == "randomized-response":
            p = 1.0 / (1.0 + math.exp(-parameters["epsilon"]))
            return zoo.RandresponseMechanism(p=p, phi_off=False, RDP_off=True)
        gaussian = zoo.GaussianMechanism(
            sigma=parameters["noise_multiplier"], phi_off=False, RDP_off=True, approxDP_off=True
        )
        if kind == "gaussian":
            return gaussian
        if kind == "sampled-gaussian":
            amplify = self.transformers.AmplificationBySampling_pld(PoissonSampling=True, neighboring="remove_only")
            return amplify(gaussian, parameters["sampling_rate"])
        raise NotCovered(kind)

    def _composed(self, history: History) -> Any:  # noqa: ANN401  (the peer has no types)
        return self.transformers.ComposeAFA()(
            [self._mechanism(part.kind, part.parameters) for part in history], [part.rounds for part in history]
        )

    def epsilon(self, history: History, delta: float) -> float:
        """The least epsilon whose delta is within `delta`, by bisection on its delta."""
        composed = self._composed(history)

        def delta_at(epsilon: float) -> float:
            return float(composed.get_approx_delta(epsilon))

        low, high = 0.0, 1.0
        while not delta_at(high) <= delta:
            low, high = high, 2.0 * high
            if high > 1e4:
                return math.inf
        while high - low > 1e-9 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
        return high


PEERS: dict[str, Callable[[], Accounting]] = {
    "dprounds": Ours,
    "dprounds-optimal": OursOptimal,
    "dp-accounting-pld": DpAccounting,
    "dp-accounting-pld-fine": DpAccountingFine,
    "dp-accounting-rdp": DpAccountingRdp,
    "opacus-prv": OpacusPrv,
    "opacus-rdp": OpacusRdp,
    "prv-accountant": Prv,
    "prv-accountant-fine": PrvFine,
    "autodp": Autodp,
    "autodp-fourier": AutodpFourier,
}
