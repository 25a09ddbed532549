"""Opacus with a public number of records, so that its epsilon holds for adding or removing one."""

from __future__ import annotations

import math
from typing import Any

from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from torch.utils.data import DataLoader

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.opacus.accountant import ExactAccountant
from dprounds.mechanisms.base import ADD_REMOVE

__all__ = ["make_private_with_public_records"]


def make_private_with_public_records(
    engine: PrivacyEngine,
    *,
    public_records: int,
    data_loader: DataLoader[Any],
    poisson_sampling: bool = True,
    **options: Any,  # noqa: ANN401  (make_private's own)
) -> tuple[Any, ...]:
    """What ``engine.make_private`` returns, with nothing in it that depends on the number of records.

    ``make_private`` takes the sampling rate, the batches of an epoch and the divisor of the noisy sum from
    ``len(dataset)``. One record more or less changes them, and with them the scale of the noise, and many weights or
    steps show that. Here they come from `public_records` and the loader's batch size: records are drawn at the rate
    ``batch_size / public_records``, the sum is divided by ``batch_size``, and a pass over the loader has
    ``public_records / batch_size`` batches, rounded up.

    Guarantee
    ---------
    Raises, or sets up a training whose epsilon holds for adding or removing one record, if neither `public_records` nor
    any other argument was chosen by looking at the records. Batches have ``batch_size`` records on average if the
    dataset has `public_records`, and proportionally more or fewer if it does not.

    Parameters
    ----------
    engine
        A `PrivacyEngine`.
    public_records
        About how many records there are: a number that you would have named with one record more or less, such as
        2,000. Never ``len(dataset)``.
    data_loader
        A loader with a fixed ``batch_size``.
    poisson_sampling
        True: there is no public rate without Poisson samples.
    options
        The other arguments of ``make_private``. Plan `noise_multiplier` from the public rate, by
        ``get_noise_multiplier(sample_rate=batch_size / public_records, …)``.
    """
    records = _validate.count("public_records", public_records, least=1)
    size = data_loader.batch_size
    if size is None or size > records:
        raise ParameterError(
            f"data_loader must have a batch_size of at most public_records={records}, got {_validate.show(size)}."
        )
    if poisson_sampling is not True:
        raise UnsupportedError("A public rate needs Poisson samples: leave poisson_sampling as it is.")
    accountant = engine.accountant
    before = accountant._relation if isinstance(accountant, ExactAccountant) else None
    module, optimizer, *loss, loader = engine.make_private(data_loader=data_loader, **options)
    if not isinstance(loader, DPDataLoader) or loader.distributed:
        raise UnsupportedError("A public number of records is not supported in distributed training.")
    rate = size / records
    # replace everything that make_private has derived from len(dataset)
    loader.sample_rate = loader.batch_sampler.sample_rate = rate
    loader.batch_sampler.steps = math.ceil(records / size)
    optimizer.expected_batch_size = size
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=rate))
    if isinstance(accountant, ExactAccountant) and before in (None, ADD_REMOVE):
        accountant._relation = ADD_REMOVE  # unless an earlier loader of this engine was made private by its length
    return module, optimizer, *loss, loader
