"""The exact accountant inside Opacus: ``PrivacyEngine(accountant="dprounds")``.

Importing this module registers the accountant, and replaces the methods of Opacus that `patches` lists.
`while_affordable` trains until the budget is spent. `make_private_with_public_records` makes the epsilon hold for
adding or removing a record. `get_noise_multiplier` answers as Opacus's function of that name does, on the safe side and
closely. `count_ahead` writes every step to disk before it is made.
"""

from __future__ import annotations

try:
    from opacus.accountants import register_accountant
except ModuleNotFoundError as missing:
    if str(missing.name).partition(".")[0] not in ("opacus", "torch"):
        raise
    raise ModuleNotFoundError(
        "dprounds.integrations.opacus needs Opacus. In a checkout of dprounds: pip install '.[opacus]'",
        name=missing.name,
    ) from None

from dprounds.integrations.opacus.accountant import NAME, ExactAccountant
from dprounds.integrations.opacus.loops import allow_accumulation, drop_split_batches, planned_run, while_affordable
from dprounds.integrations.opacus.noise import get_noise_multiplier
from dprounds.integrations.opacus.on_disk import count_ahead
from dprounds.integrations.opacus.public_records import make_private_with_public_records

__all__ = [
    "ExactAccountant",
    "allow_accumulation",
    "count_ahead",
    "drop_split_batches",
    "get_noise_multiplier",
    "make_private_with_public_records",
    "planned_run",
    "while_affordable",
]

register_accountant(NAME, ExactAccountant, force=True)  # reloading the module registers the class again
