"""``dprounds rounds``: how many rounds may I train?"""

from __future__ import annotations

from functools import partial

from dprounds.cli import options as o
from dprounds.cli.output import opened, show
from dprounds.cli.pictures import allowed_rounds, by_method

__all__ = ["rounds"]


def rounds(
    *,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    mechanism: o.Mechanism = "gaussian",
    noise_multiplier: o.NoiseMultiplier = None,
    step_epsilon: o.StepEpsilon = None,
    step_delta: o.StepDelta = None,
    rho: o.Rho = None,
    sampling_rate: o.SamplingRate = None,
    batch_size: o.BatchSize = None,
    dataset_size: o.DatasetSize = None,
    run: o.RunFile = None,
    spent: o.SpentFile = None,
    method: o.Method = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """How many rounds may I train within (ε, δ)?

    With --run FILE one round makes all of the file's releases; --spent FILE counts what was released before.

    Example: dprounds rounds --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000
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
    )
    step, before = opened(run), opened(spent)
    found = questions.rounds(setting, epsilon=epsilon, delta=delta, method=method, run=step, spent=before)
    # beside what was spent before, the curve of the step alone would cross the budget elsewhere
    draw = partial(by_method, found) if before is not None else partial(allowed_rounds, found, step or setting.step())
    show(found, json=json, plot=plot, draw=draw)
