"""What ``dprounds statement`` and ``certify`` print, and remarks on a δ; plain commands need no Typer for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprounds.cli.output import FileError, opened
from dprounds.questions.wording import delta_advice, delta_remark, holds_for

if TYPE_CHECKING:  # the library loads when it is asked, not for --help
    from dprounds.certificates import Claim

__all__ = ["DIGITS", "FORMATS", "certify", "held_for", "publish"]

DIGITS = 5  # of a number that is claimed
FORMATS = ("text", "markdown", "latex", "json")


def publish(
    *, run: Path | None, delta: float | None, certificate: Path | None, form: str, typed: dict[str, Any]
) -> None:
    """Print what may be published about the run that was typed."""
    from dprounds import questions

    release = questions.run_of(questions.Setting(**typed), opened(run))
    if delta is None and certificate is None:
        raise questions.QuestionError(
            f"{{argument}} is missing: {delta_advice(_known_records(typed))}.",
            argument="delta",
            advice="Or give a {certificate}.",
        )
    claim = None
    if certificate is not None:
        from dprounds.certificates import verify

        claim = verify(certificate)
    found = release.statement(delta=delta, certificate=claim)
    print(found if form == "text" else getattr(found, form)())
    _remark_on(float(found.delta), typed)


def certify(
    *,
    run: Path | None,
    delta: float | None,
    epsilon: float | None,
    out: Path | None,
    two_sided: bool,
    digits: int,
    typed: dict[str, Any],
) -> None:
    """Write a certificate of what the run that was typed costs."""
    from dprounds import certificates, questions

    if out is None:
        raise questions.QuestionError("{argument} is missing: name the file of the certificate.", argument="out")
    if (delta is None) == (epsilon is None):
        advice = f"Of δ: {delta_advice(_known_records(typed))}." if delta is None else ""
        raise questions.QuestionError("Give either {argument} or {epsilon}.", argument="delta", advice=advice)
    release = questions.run_of(questions.Setting(**typed), opened(run))
    claim = certificates.certify(release, delta=delta, epsilon=epsilon, two_sided=two_sided, digits=digits)
    try:
        claim.save(out)
    except OSError as error:
        raise FileError(f"{out} cannot be written: {error.strerror or error}.") from None
    print(claim.sentence)
    print(held_for(claim))
    print(f"Written to {out}, SHA-256 {claim.sha256}.")
    _remark_on(claim.delta, typed, is_answer=delta is None)


def held_for(claim: Claim) -> str:
    """For which neighbours and which sampling a claim holds, in words."""
    if "run" not in claim.claimed:
        return holds_for(None, None, given="rdp")
    parts = claim.claimed["run"]
    sampled = "poisson" if any("sampling_rate" in part for part in parts) else None
    by_noise = all("noise_multiplier" in part for part in parts)
    return holds_for(claim.claimed["relation"], sampled, given="sensitivity" if by_noise else "round")


def _known_records(typed: dict[str, Any]) -> int | None:
    """The number of records, if it was typed."""
    from dprounds.questions.rows import known_size

    return known_size(typed.get("dataset_size"))


def _remark_on(delta: float, typed: dict[str, Any], *, is_answer: bool = False) -> None:
    """Say that a δ is too large for the number of records, on stderr: what is printed may go into a file."""
    remark = delta_remark(delta, _known_records(typed), is_answer=is_answer)
    if remark is not None:
        print(remark, file=sys.stderr)
