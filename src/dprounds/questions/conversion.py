"""The question about one Rényi bound: what it means in epsilon and delta, or the other way round."""

from __future__ import annotations

import math

from dprounds import _validate
from dprounds.conversions import delta_from_rdp, epsilon_from_rdp, rdp_from_dp
from dprounds.questions.answers import Answers, tightest
from dprounds.questions.rows import Values, answers_of, chosen, compared_with_balle, needed, rows_by
from dprounds.questions.setting import QuestionError
from dprounds.questions.vocabulary import CONVERSION_METHODS, listed
from dprounds.questions.wording import DELTA, EPSILON, RDP, plain

__all__ = ["convert"]


def convert(
    *,
    order: float | None,
    rdp: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    method: str | None = None,
) -> Answers:
    """What a Rényi guarantee means: of rdp, epsilon and delta the one that is not given.

    Examples
    --------
    >>> convert(order=8.0, rdp=0.5, delta=1e-5).sentence
    "(8, 0.5)-RDP is (1.7098, 1e-05)-DP, and no smaller ε holds for all such mechanisms; Balle's bound gives 1.7142."
    """
    order = needed("order", order, _validate.ORDER)
    given = {name: value for name, value in (("rdp", rdp), ("epsilon", epsilon), ("delta", delta)) if value is not None}
    if len(given) != 2:
        got = listed([f"{{{name}}}" for name in given]) if given else "none"
        raise QuestionError(
            f"Two of {{rdp}}, {{epsilon}} and {{delta}} are needed to convert into the third, got {got}.",
            given=tuple(given),
        )
    quantity = EPSILON if epsilon is None else DELTA if delta is None else RDP

    def ask(by: str) -> Values:
        if quantity is EPSILON:
            value = epsilon_from_rdp(given["rdp"], order=order, delta=given["delta"], method=by)
        elif quantity is DELTA:
            value = delta_from_rdp(given["rdp"], order=order, epsilon=given["epsilon"], method=by)
        else:
            value = rdp_from_dp(given["epsilon"], order=order, delta=given["delta"], method=by)
        return {quantity.name: float(value), "order": order, **given}

    rows = rows_by(chosen(method, CONVERSION_METHODS), ask, quantity)
    best = tightest(rows)
    shown = {**{name: f"{plain(value)}" for name, value in given.items()}}
    shown[quantity.name] = quantity.text(float(best.values[quantity.name] or 0.0))
    sentence = f"({plain(order)}, {shown['rdp']})-RDP is ({shown['epsilon']}, {shown['delta']})-DP"
    if quantity is EPSILON and math.isinf(float(best.values["epsilon"] or 0.0)):
        sentence = f"No ε holds for all ({plain(order)}, {shown['rdp']})-RDP mechanisms at δ = {shown['delta']}: " + (
            "an infinite bound says nothing."
            if math.isinf(given["rdp"])
            else "a finite order bounds no largest loss. Choose a δ above 0, or give the bound of the infinite order."
        )
        return answers_of("convert", {"order": order, **given}, quantity, rows, sentence)
    if best.method == "optimal":
        limit = "larger rdp" if quantity is RDP else f"smaller {quantity.title}"
        sentence += f", and no {limit} holds for all such mechanisms"
    sentence += compared_with_balle(rows, best, quantity, "Balle's bound gives {}")
    return answers_of("convert", {"order": order, **given}, quantity, rows, sentence)
