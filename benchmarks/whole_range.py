"""Random runs over the whole range that is promised: ``python -m benchmarks.whole_range --runs 100000``.

Noise from 0.3 to 1e4, sampling rates from 1e-9 to 1, 1 to 1e12 rounds, delta from 1e-30 to 0.9; half of the runs are
in the range that users of DP-SGD have. Reports how wide the brackets are, how long they take, and every answer that an
independent bound of `benchmarks.adversary` contradicts. A run is known by its seed and number, so that a sweep can go
on where another stopped: ``--write FILE`` keeps the answers, and leaves out those that the file has.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.adversary import Part, beyond_a_threshold, epsilon_below, exact_delta, from_moments

__all__ = ["Question", "answered", "code", "main", "question", "report"]

Record = dict[str, Any]  # one line of JSON

# How often each noise is drawn, plain and on a sample; a mixture has two to four parts of any. Kinds that take long are
# drawn less often, so that a hundred thousand runs stay possible; of each there are a thousand then.
KINDS = {
    ("gaussian", True): 54,
    ("gaussian", False): 10,
    ("laplace", True): 4,
    ("laplace", False): 2,
    ("response", True): 10,
    ("response", False): 8,
    ("discrete-gaussian", True): 1,
    ("discrete-gaussian", False): 8,
    ("mixture", False): 3,
}
NAMES = {
    "gaussian": "Gaussian",
    "laplace": "Laplace",
    "response": "RandomizedResponse",
    "discrete-gaussian": "DiscreteGaussian",
}
DATA_SIZES = (1_000, 10_000, 50_000, 60_000, 250_000, 1_281_167, 10**7, 10**8)
# What the sweep is held to: relative widths of brackets that are called exact.
WIDEST = {"DP-SGD": 1e-9, "elsewhere": 1e-6}
SHOWN = 20


class Question(NamedTuple):
    """A run and its delta; `region` says which part of the range it was drawn from."""

    number: int
    region: str
    kind: str
    parts: tuple[Part, ...]
    delta: float


def question(seed: int, number: int) -> Question:
    """The run of this number, the same on every machine."""
    dice = random.Random(f"{seed}/{number}")
    usual = dice.random() < 0.5

    def between(low: float, high: float) -> float:
        return math.exp(dice.uniform(math.log(low), math.log(high)))

    def sampling_rate() -> float:
        if usual or dice.random() < 0.2:
            return min((1 << dice.randint(4, 14)) / dice.choice(DATA_SIZES), 1.0)
        return 1.0 if dice.random() < 0.03 else min(between(1e-9, 1.0), 1.0)

    def part(noise: str, is_sampled: bool) -> Part:
        size = between(0.5, 10.0) if usual else between(0.3, 1e4)
        rate = sampling_rate() if is_sampled else 1.0
        if usual:  # from a tenth of an epoch to three hundred
            rounds = math.ceil(between(0.1, 300.0) / rate) if is_sampled else round(between(1, 1e5))
        else:
            rounds = dice.randint(1, 3) if dice.random() < 0.1 else round(between(1, 1e12))
        return Part(noise, 1.0 / size if noise == "response" else size, rate, rounds)

    noise, is_sampled = dice.choices(list(KINDS), list(KINDS.values()))[0]
    if noise == "mixture":
        drawn = dice.choices([kind for kind in KINDS if kind[0] != "mixture"], k=dice.randint(2, 4))
        parts = tuple(part(*each) for each in drawn)
    else:
        parts = (part(noise, is_sampled),)
    region = "DP-SGD" if usual and noise == "gaussian" and is_sampled else "elsewhere"
    name = f"sampled {noise}" if is_sampled else noise
    return Question(number, region, name, parts, between(1e-10, 1e-4) if usual else between(1e-30, 0.9))


def code(asked: Question) -> str:
    """The Python that asks it."""
    parts = []
    for noise, size, rate, rounds in asked.parts:
        step = f"{NAMES[noise]}({size!r})"
        parts.append(f"{step if rate == 1 else f'PoissonSampled({step}, {rate!r})'} * {rounds}")
    return f"({' + '.join(parts)}).guarantee(delta={asked.delta!r})"


def answered(number: int, *, seed: int, merge_every: int) -> Record:
    """What dprounds answers, and what the adversary says of it."""
    import dprounds

    asked = question(seed, number)
    record: Record = {
        "number": number,
        "region": asked.region,
        "kind": asked.kind,
        "parts": asked.parts,
        "delta": asked.delta,
        "code": code(asked),
    }
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            total: Any = None
            for noise, size, rate, rounds in asked.parts:
                step = getattr(dprounds, NAMES[noise])(size)
                run = (step if rate == 1 else dprounds.PoissonSampled(step, rate)) * rounds
                total = run if total is None else total + run
            found = total.guarantee(delta=asked.delta)
    except Exception as error:  # noqa: BLE001  (whatever goes wrong is a finding of the sweep)
        method = "refused" if isinstance(error, dprounds.PrivacyError) else "crashed"
        message = f"{type(error).__name__}: {error}"
        return {**record, "method": method, "seconds": time.process_time() - start, "message": message}
    record["seconds"] = time.process_time() - start
    lower, upper = found.lower, found.upper
    width = (upper - lower) / upper if upper else 0.0
    record |= {"method": found.method, "epsilon": found.epsilon, "lower": lower, "upper": upper, "width": width}
    merge = merge_every > 0 and number % merge_every == 0
    start = time.process_time()
    try:
        found = judged(asked.parts, asked.delta, lower, upper, merge=merge)
        return {**record, **found, "seconds of the adversary": time.process_time() - start}
    except (ArithmeticError, ValueError) as error:
        return {**record, "bounds": {}, "contradictions": [f"not judged: {error}"]}


def judged(parts: tuple[Part, ...], delta: float, lower: float, upper: float, *, merge: bool) -> Record:
    """The independent bounds of epsilon by name, and in words what contradicts them."""
    contradictions = []
    if not 0 <= lower <= upper:  # also where one is not a number
        return {"bounds": {}, "contradictions": [f"[{lower!r}, {upper!r}] is no bracket"]}
    bounds: dict[str, float] = {"a threshold": max(beyond_a_threshold(part, delta) for part in parts)}
    if merge and 0 < upper < math.inf:
        bounds["merged outputs"] = epsilon_below(parts, delta, upper)
    contradictions += [f"ε ≥ {low!r} by {name}" for name, low in bounds.items() if low > upper]
    bounds["moments"] = from_moments(parts, delta)
    if lower > bounds["moments"]:
        contradictions.append(f"ε ≤ {bounds['moments']!r} by moments")
    if upper < math.inf:
        truth = exact_delta(parts, upper)
        if truth is not None:
            bounds["the exact profile"] = upper
            if truth > delta:
                contradictions.append(f"δ = {float(truth)!r} at the upper end, {float(truth / delta - 1):.1e} too much")
            least = exact_delta(parts, lower)
            if lower > 0 and least is not None and least < delta:
                contradictions.append(f"δ = {float(least)!r} at the lower end, below {delta!r}")
    return {"bounds": bounds, "contradictions": contradictions}


def quantiles(values: Iterable[float], form: str = "8.1e") -> str:
    """Median, 90 %, 99 %, 99.9 % and the largest."""
    found = np.quantile(list(values), [0.5, 0.9, 0.99, 0.999, 1.0])
    return "  ".join(f"{value:{form}}" for value in found)


def grouped(records: Iterable[Record], key: Callable[[Record], str]) -> Iterator[tuple[str, list[Record]]]:
    """Records by a key, in the order of the keys."""
    groups = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return iter(sorted(groups.items()))


def decade(value: float) -> int:
    """The exponent of the power of ten at or below a value."""
    return math.floor(math.log10(value) + 1e-12)


def where(record: Record) -> str:
    """The region of one sampled part: of its rounds that see a record, and of delta as a share of its rate."""
    _, size, rate, rounds = record["parts"][0]
    seen, rest = decade(rate * rounds), decade(record["delta"] / rate)
    noise = "σ < 1" if size < 1 else "σ < 10" if size < 10 else "σ ≥ 10"
    often = "qT < 0.1" if seen < -1 else "qT < 10" if seen < 1 else "qT ≥ 10"
    return f"{noise:<7} {often:<9} {'δ < q/1000' if rest < -3 else 'δ ≥ q/1000'}"


def report(records: list[Record]) -> None:
    """Print widths, methods, times, contradictions, and how sharp the bounds were."""
    answers = [record for record in records if "upper" in record]
    exact = [record for record in answers if record["method"] == "exact"]
    print(f"{len(records)} runs; methods: {dict(Counter(record['method'] for record in records))}")
    columns = "    median       90 %       99 %     99.9 %    largest"
    print(f"\nRelative width of the brackets, all methods{'':17}runs  exact{columns}")
    tables = [
        ("by kind", answers, lambda record: f"{record['kind']}, {record['region']}"),
        (
            "sampled Gaussian",
            [each for each in answers if each["kind"] == "sampled gaussian"],
            where,
        ),
        ("by delta", answers, lambda record: f"δ from 1e{5 * (decade(record['delta']) // 5):+03d}"),
        ("by rounds", answers, lambda record: f"T from 1e{2 * (decade(max(p[3] for p in record['parts'])) // 2):02d}"),
    ]
    for title, chosen, key in tables:
        print(f"  {title}")
        for name, group in grouped(chosen, key):
            share = sum(record["method"] == "exact" for record in group) / len(group)
            print(f"    {name:<52}{len(group):7} {share:6.1%}  {quantiles(record['width'] for record in group)}")
    for region, widest in WIDEST.items():
        inside = [record for record in exact if record["region"] == region]
        wider = sum(record["width"] > widest for record in inside)
        print(f"  {region}: {wider} of {len(inside)} exact brackets are wider than {widest:g}")
    print(f"\nThe {SHOWN} widest that are called exact")
    listed(exact, "width")
    print(f"\nSeconds of CPU a question{columns}")
    for name, group in grouped(records, lambda record: str(record["kind"])):
        print(f"  {name:<24}{quantiles((record['seconds'] for record in group), '9.4f')}")
    print(f"\nThe {SHOWN} slowest")
    listed(records, "seconds")
    sharpness(answers)
    for record in records:
        if "message" in record:
            print(f"{record['method'].upper()}  {record['code']}\n  {record['message']}")
    wrong = [record for record in answers if record["contradictions"]]
    print(f"\n{len(wrong)} contradictions")
    for record in wrong:
        print(
            f"  #{record['number']} {record['code']}  # {record['method']} [{record['lower']!r}, {record['upper']!r}]"
        )
        for words in record["contradictions"]:
            print(f"    {words}")


def listed(records: list[Record], field: str) -> None:
    """The records with the largest values of a field, with the code that asks them."""
    for record in sorted(records, key=lambda record: -float(record[field]))[:SHOWN]:
        print(f"  {record[field]:9.2e}  {record['method']:<8} {record['code']}")


def sharpness(answers: list[Record]) -> None:
    """How close the bounds were to the end of the bracket that they judge: a check that is far away has no teeth."""
    print(f"\nHow close the bounds were to what they judge{'':10} runs     1e-9     1e-4      1 %     10 %    twice")
    ratios: dict[str, list[float]] = defaultdict(list)
    for record in answers:
        lower_bounds = {name: value for name, value in record["bounds"].items() if name != "moments"}
        if not 0 < record["upper"] < math.inf or not lower_bounds:
            continue
        for name, value in lower_bounds.items():
            ratios[f"{name}, below the upper end"].append(record["upper"] / value if value else math.inf)
        ratios["the best of these"].append(record["upper"] / max(*lower_bounds.values(), 1e-300))
        if record["lower"] > 0:
            ratios["moments, above the lower end"].append(record["bounds"]["moments"] / record["lower"])
    for name, found in ratios.items():
        shares = [sum(ratio <= 1.0 + far for ratio in found) / len(found) for far in (1e-9, 1e-4, 0.01, 0.1, 1.0)]
        print(f"  {name:<48} {len(found):8}  {'  '.join(f'{share:7.1%}' for share in shares)}")


def main() -> None:
    """Ask, judge, report."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--first", type=int, default=0, help="the number of the first run")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--seconds", type=float, default=math.inf, help="stop asking after these")
    options.add_argument("--merge-every", type=int, default=32, help="runs for one that the slow bound judges; 0: none")
    options.add_argument("--write", type=Path, help="JSON lines: kept, read again and added to")
    given = options.parse_args()
    records: list[Record] = []
    if given.write and given.write.exists():
        records = [json.loads(line) for line in given.write.read_text().splitlines()]
    known = {record["number"] for record in records}
    numbers = [number for number in range(given.first, given.first + given.runs) if number not in known]
    ask = partial(answered, seed=given.seed, merge_every=given.merge_every)
    start = time.monotonic()
    with Pool(given.jobs) as pool:
        for record in pool.imap_unordered(ask, numbers, chunksize=4):
            records.append(record)
            if given.write:
                with given.write.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if time.monotonic() - start > given.seconds:
                pool.terminate()
                break
    report(records)


if __name__ == "__main__":
    main()
