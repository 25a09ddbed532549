"""``dprounds epsilon``: what does this run cost?"""

from __future__ import annotations

from dprounds.cli import options as o
from dprounds.cli.output import drawable, opened, show
from dprounds.cli.pictures import cost_so_far

__all__ = ["epsilon"]


def epsilon(
    *,
    delta: o.Delta = None,
    mechanism: o.Mechanism = "gaussian",
    noise_multiplier: o.NoiseMultiplier = None,
    step_epsilon: o.StepEpsilon = None,
    step_delta: o.StepDelta = None,
    rho: o.Rho = None,
    sampling_rate: o.SamplingRate = None,
    batch_size: o.BatchSize = None,
    dataset_size: o.DatasetSize = None,
    rounds: o.Rounds = None,
    epochs: o.Epochs = None,
    run: o.RunFile = None,
    method: o.Method = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """What does this run cost: its ε at δ?

    Example: dprounds epsilon --delta 1e-5 --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 60
    """
    from dprounds import questions

    setting = questions.Setting(
        mechanism=mechanism,
        noise_multiplier=noise_multiplier,
        step_epsilon=step_epsilon,
        step_delta=step_delta,
        rho=rho,
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        rounds=rounds,
        epochs=epochs,
    )
    whole = opened(run)
    found = questions.epsilon(setting, delta=delta, method=method, run=whole)
    show(found, json=json, plot=plot, draw=lambda: cost_so_far(found, drawable(whole or setting.run())))
