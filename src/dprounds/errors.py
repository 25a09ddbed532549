"""Everything that dprounds raises.

PrivacyError
├── ParameterError    an argument is outside its stated range (also a ValueError)
├── UnsupportedError  no theorem here covers the request
├── InfeasibleError   no parameter in the searched range meets the budget
├── NumericalError    a computation lost the precision that its guarantee needs
├── BudgetExceededError  a ledger's budget does not allow a job
├── LedgerError       a ledger cannot be read or written, or what it holds does not fit together
│   └── JobStateError a job of a ledger is in a state that does not allow this
└── CertificateError  a certificate does not prove what it claims
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "BudgetExceededError",
    "CertificateError",
    "InfeasibleError",
    "JobStateError",
    "LedgerError",
    "NumericalError",
    "ParameterError",
    "PrivacyError",
    "UnsupportedError",
]


class PrivacyError(Exception):
    """Anything that dprounds refuses to answer.

    `argument` is what the sentence is about, if it is about one; `advice` says what to do instead; `fields` are what
    else it holds, such as the interval and the value. With any of these, sentence and advice are templates: fields
    stand in braces, and any other name in braces is that of an argument, which `worded` writes as a face does.

    Examples
    --------
    >>> error = ParameterError("{argument} is {what}.", argument="batch_size", what="{}", advice="Or {rounds}.")
    >>> str(error), error.argument, error.fields["what"]
    ('batch_size is {}. Or rounds.', 'batch_size', '{}')
    >>> error.worded(lambda name: f"--{name.replace('_', '-')}")
    '--batch-size is {}. Or --rounds.'
    """

    def __init__(
        self, sentence: str = "", /, *, argument: str | None = None, advice: str = "", **fields: object
    ) -> None:
        self.sentence: str = sentence
        self.argument: str | None = argument
        self.advice: str = advice
        self.fields: dict[str, object] = fields
        super().__init__(self.worded(str))

    def worded(self, name: Callable[[str], str]) -> str:
        """The sentence and the advice, every name of an argument written by `name`."""
        parts = [part for part in (self.sentence, self.advice) if part]
        if self.argument is None and not self.fields:
            return " ".join(parts)
        values = _Values(self.fields, name)
        if self.argument is not None:
            values["argument"] = name(self.argument)
        return " ".join(part.format_map(values) for part in parts)


class _Values(dict[str, object]):
    """Fields by name; a name that is no field is that of an argument."""

    def __init__(self, fields: dict[str, object], name: Callable[[str], str]) -> None:
        super().__init__(fields)
        self.name = name

    def __missing__(self, key: str) -> str:
        return self.name(key)


class ParameterError(PrivacyError, ValueError):
    """An argument is outside its stated range."""


class UnsupportedError(PrivacyError):
    """No theorem here covers the request."""


class InfeasibleError(PrivacyError):
    """No parameter in the searched range meets the budget."""


class NumericalError(PrivacyError):
    """A computation lost the precision that its guarantee needs, so there is no answer rather than a wrong one."""


class BudgetExceededError(PrivacyError):
    """A ledger's budget does not allow a job: nothing was charged."""


class LedgerError(PrivacyError):
    """A ledger cannot be read or written, or what it holds does not fit together."""


class JobStateError(LedgerError):
    """A job of a ledger is in a state that does not allow this: it was done, or given back, already."""


class CertificateError(PrivacyError):
    """A certificate does not prove what it claims, or cannot be read."""
