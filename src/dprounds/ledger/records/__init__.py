"""Budgets for many records, each with its own: a folder of Parquet files. Needs PyArrow, and what the ledger needs."""

from importlib.util import find_spec

from dprounds.errors import UnsupportedError

if find_spec("pyarrow") is None:
    raise UnsupportedError("The record store needs PyArrow. In a checkout of dprounds: pip install '.[records]'")

from dprounds.ledger.records.store import RecordStore

__all__ = ["RecordStore"]
