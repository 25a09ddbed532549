"""The budget ledger: one budget, many jobs, nothing lost. Needs SQLAlchemy, and psycopg for PostgreSQL."""

from importlib.util import find_spec

from dprounds.errors import BudgetExceededError, JobStateError, LedgerError, UnsupportedError

if find_spec("sqlalchemy") is None:
    raise UnsupportedError("The ledger needs SQLAlchemy. In a checkout of dprounds: pip install '.[ledger]'")

from dprounds.ledger.book import Ledger
from dprounds.ledger.budget import BlockLeft, Budget, Status
from dprounds.ledger.entries import Entry
from dprounds.ledger.grants import Grant
from dprounds.ledger.pricing import Price
from dprounds.ledger.refusals import Refusal, Refusals
from dprounds.ledger.spending import Moment
from dprounds.ledger.tokens import Token, Tokens

__all__ = [
    "BlockLeft",
    "Budget",
    "BudgetExceededError",
    "Entry",
    "Grant",
    "JobStateError",
    "Ledger",
    "LedgerError",
    "Moment",
    "Price",
    "Refusal",
    "Refusals",
    "Status",
    "Token",
    "Tokens",
]
