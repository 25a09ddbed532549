"""What ``dprounds statement`` prints, and remarks on a δ; without Typer, which a plain command does not load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dprounds.cli.output import opened
from dprounds.questions.wording import delta_advice, delta_remark

__all__ = ["FORMATS", "known_records", "publish", "remark_on"]

FORMATS = ("text", "markdown", "latex", "json")


def publish(
    *, run: Path | None, delta: float | None, certificate: Path | None, form: str, typed: dict[str, Any]
) -> None:
    """Print what may be published about the run that was typed."""
    from dprounds import questions

    release = questions.run_of(questions.Setting(**typed), opened(run))
    if delta is None and certificate is None:
        raise questions.QuestionError(
            f"{{argument}} is missing: {delta_advice(known_records(typed))}.",
            argument="delta",
            advice="Or give a {certificate}.",
        )
    claim = None
    if certificate is not None:
        from dprounds.certificates import verify

        claim = verify(certificate)
    found = release.statement(delta=delta, certificate=claim)
    print(found if form == "text" else getattr(found, form)())
    remark_on(float(found.delta), typed)


def known_records(typed: dict[str, Any]) -> int | None:
    """The number of records, if it was typed."""
    from dprounds.questions.rows import known_size

    return known_size(typed.get("dataset_size"))


def remark_on(delta: float, typed: dict[str, Any], *, is_answer: bool = False) -> None:
    """Say that a δ is too large for the number of records, on stderr: what is printed may go into a file."""
    remark = delta_remark(delta, known_records(typed), is_answer=is_answer)
    if remark is not None:
        print(remark, file=sys.stderr)
