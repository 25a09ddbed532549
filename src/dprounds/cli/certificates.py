"""``dprounds certify``, ``verify`` and ``statement``: what a run costs, to be checked or published."""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from dprounds.cli import publishing
from dprounds.cli.options import number
from dprounds.cli.publishing import DIGITS, FORMATS
from dprounds.cli.question import file_option, typed_option
from dprounds.questions.vocabulary import ANSWER, BUDGET, QUESTIONS, WORDS

__all__ = ["certify", "statement", "verify"]

ASKED = QUESTIONS["epsilon"]  # whose words describe a run and its δ
OUT = typer.Option(
    "--out", "-o", help="Required: the certificate, a JSON file.", metavar="FILE", rich_help_panel=ANSWER
)
EPSILON = typer.Option(
    "--epsilon", help="Certify δ at this ε instead.", parser=number, metavar="NUMBER", rich_help_panel=BUDGET
)
TWO_SIDED = typer.Option(
    "--two-sided", help="Claim also that ε − 1e-4 is not enough.", metavar="", rich_help_panel=ANSWER
)
SIGNIFICANT = typer.Option(
    "--digits", metavar="NUMBER", help="Digits of the number that is claimed.", rich_help_panel=ANSWER
)


def _setting_parameters() -> dict[str, tuple[object, object]]:
    """The flags that describe a run and its δ, with their types and defaults."""
    parameters = {name: typed_option(ASKED, WORDS[name]) for name in ASKED.flags if name != "method"}
    return parameters | {"run": (Annotated[Path | None, file_option("run")], None)}


def _signature(parameters: dict[str, tuple[object, object]]) -> Signature:
    """Of a command with these flags."""
    return Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in parameters.items()
        ]
    )


def certify(
    *,
    run: Path | None,
    delta: float | None,
    epsilon: float | None,
    out: Path | None,
    two_sided: bool,
    digits: int,
    **typed: Any,  # noqa: ANN401  (what the flags hold)
) -> None:
    """Write a certificate of what this run costs: a claim, rounded up to a short decimal, with its evidence.

    Whoever has python-flint can check it with dprounds verify, or with the one file certificates/checker.py alone.

    Example: dprounds certify --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-5
    --out claim.json
    """
    publishing.certify(run=run, delta=delta, epsilon=epsilon, out=out, two_sided=two_sided, digits=digits, typed=typed)


vars(certify)["__signature__"] = _signature(
    {
        **_setting_parameters(),
        "epsilon": (Annotated[float | None, EPSILON], None),
        "out": (Annotated[Path | None, OUT], None),
        "two_sided": (Annotated[bool, TWO_SIDED], False),
        "digits": (Annotated[int, SIGNIFICANT], DIGITS),
    }
)


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CLAIM", help="A certificate, as dprounds certify writes it.")],
) -> None:
    """Check a certificate: every bound is computed again in ball arithmetic, and nothing in it is trusted.

    Example: dprounds verify claim.json
    """
    from dprounds import certificates

    claim = certificates.verify(certificate)
    print(claim.sentence)
    print(publishing.held_for(claim))


def _format(text: str) -> str:
    if text not in FORMATS:
        raise typer.BadParameter(f"it must be one of {', '.join(FORMATS)}, got {text[:60]!r}.")
    return text


FORMAT = typer.Option(
    "--format",
    help=f"One of {', '.join(FORMATS)}.",
    parser=_format,
    metavar="WORD",
    rich_help_panel=ANSWER,
)
CERTIFICATE = typer.Option(
    "--certificate",
    help="A certificate of this run, which is checked first: its ε and δ are stated, with its SHA-256.",
    metavar="CLAIM",
    rich_help_panel=ANSWER,
)


def statement(
    *,
    run: Path | None,
    delta: float | None,
    certificate: Path | None,
    form: str,
    **typed: Any,  # noqa: ANN401  (what the flags hold)
) -> None:
    """Write what may be published about this run, in a paper, a model card, a data sheet or a registry.

    Example: dprounds statement --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-5
    """
    publishing.publish(run=run, delta=delta, certificate=certificate, form=form, typed=typed)


vars(statement)["__signature__"] = _signature(
    {
        **_setting_parameters(),
        "certificate": (Annotated[Path | None, CERTIFICATE], None),
        "form": (Annotated[str, FORMAT], "text"),
    }
)
