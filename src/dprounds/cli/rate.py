"""``dprounds rate``: how large may my batches be?"""

from __future__ import annotations

from dprounds.cli import options as o
from dprounds.cli.output import opened, show
from dprounds.cli.pictures import by_method

__all__ = ["rate"]


def rate(
    *,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    mechanism: o.NoisyMechanism = "gaussian",
    noise_multiplier: o.NoiseMultiplier = None,
    dataset_size: o.DatasetSize = None,
    rounds: o.Rounds = None,
    epochs: o.Epochs = None,
    spent: o.SpentFile = None,
    method: o.Method = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """How large a sampling rate, and so a batch, may I use within (ε, δ)?

    Example: dprounds rate --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --dataset-size 60000 --rounds 10000
    """
    from dprounds import questions

    setting = questions.Setting(
        mechanism=mechanism,
        noise_multiplier=noise_multiplier,
        dataset_size=dataset_size,
        rounds=rounds,
        epochs=epochs,
    )
    found = questions.rate(setting, epsilon=epsilon, delta=delta, method=method, spent=opened(spent))
    show(found, json=json, plot=plot, draw=lambda: by_method(found))
