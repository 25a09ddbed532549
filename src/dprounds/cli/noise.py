"""``dprounds noise``: how much noise do I need?"""

from __future__ import annotations

from dprounds.cli import options as o
from dprounds.cli.output import opened, show
from dprounds.cli.pictures import by_method

__all__ = ["noise"]


def noise(
    *,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    mechanism: o.NoisyMechanism = "gaussian",
    sampling_rate: o.SamplingRate = None,
    batch_size: o.BatchSize = None,
    dataset_size: o.DatasetSize = None,
    rounds: o.Rounds = None,
    epochs: o.Epochs = None,
    spent: o.SpentFile = None,
    method: o.Method = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """How much noise do I need to stay within (ε, δ)?

    Example: dprounds noise --epsilon 3 --delta 1e-5 --batch-size 256 --dataset-size 60000 --epochs 60
    """
    from dprounds import questions

    setting = questions.Setting(
        mechanism=mechanism,
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        rounds=rounds,
        epochs=epochs,
    )
    found = questions.noise(setting, epsilon=epsilon, delta=delta, method=method, spent=opened(spent))
    show(found, json=json, plot=plot, draw=lambda: by_method(found))
