"""Certificates, tried in the large: ``python -m benchmarks.certificates --changes 5000 --runs 1000 --references 50``.

*Changes* alters certificates that are true to the ninth digit: a smaller ε or δ, more rounds, less noise, a higher
rate, other evidence, swapped directions, missing fields, other types, huge numbers, text in place of numbers, deep
nesting, huge files. No false claim may be verified, and none may crash, take over 20 seconds or a gigabyte. *Runs*
certifies random runs, and *epochs* some of random allocation, and lists those whose reported ε cannot be certified
within 1e-6 of itself. *References* compares bounds with 60 digits of mpmath.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from dprounds import (
    ApproximateDP,
    Gaussian,
    Laplace,
    PoissonSampled,
    PrivacyError,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    UnsupportedError,
)
from dprounds.certificates import certify, certify_conversion, certify_rdp, checker
from dprounds.mechanisms import Mechanism, Run

__all__ = ["Change", "bases", "changes", "is_wrongly_verified", "random_epochs", "random_run"]

Json = Any  # whatever JSON holds
Document = dict[str, Any]
Drawn = Callable[[random.Random], tuple[Run, float]]
MOST_SECONDS = 20.0
MOST_KILOBYTES = 1_000_000
CLOSE = 1e-6
# A claim has nine digits; where epsilon is 0, it may be one unit of the last of them.
LAST_DECIMAL = 1e-9
NONSENSE: list[Any] = [
    *(None, True, -1, 0, 7, 1.5, "", "abc", "nan", "inf", "-1", "1e9999", "1/0", "1e999", "1e-999", "1" * 300),
    *([], {}, [[]], 10**400, "0x1p3", "٣", " 1", "1 ", "1_0", "1e5\n", "9" * 40 + "e999", "1/" + "9" * 40),
]


class Change(NamedTuple):
    """A changed certificate, what was changed, and whether its claim is false for sure."""

    document: Document
    what: str
    is_false: bool
    data: bytes | None = None  # where it is no document, but what a file may hold

    @property
    def file(self) -> bytes:
        """What the checker is given."""
        return json.dumps(self.document).encode() if self.data is None else self.data


def bases() -> list[Document]:
    """Certificates whose numbers are true to about nine digits, so that a change in the seventh makes them false."""
    sgd = PoissonSampled(Gaussian(1.1), 256 / 60_000)
    made = [
        certify(sgd * 14_062, delta=1e-5, digits=9),
        certify(PoissonSampled(Gaussian(1.0), 0.01) * 1000, delta=1e-6, digits=9, two_sided=True),
        certify(PoissonSampled(Gaussian(4.0), 0.001) * 100_000, epsilon=0.25, digits=9),
        certify(sgd * 500 + Gaussian(8.0) * 4 + Laplace(6.0) * 2, delta=1e-5, digits=9),
        certify(Gaussian(20.0) * 685, delta=1e-5, digits=9, two_sided=True),
        certify(Gaussian(5.0) * 10 + RandomizedResponse(0.2) * 5 + ApproximateDP(0.1, 1e-8) * 3, delta=1e-5, digits=9),
        certify_rdp(sgd * 1000, order=8.5, digits=9),
        certify_rdp(Laplace(3.0) * 5 + PureDP(0.3) * 2, order=4.0, digits=9),
        certify_conversion(0.5, order=8.0, delta=1e-5, digits=9),
        certify_conversion(1.5, order=3.0, delta=0.5, digits=9),
        # lattices: several rounds, from below too; two parts; one round in closed form; a line of Laplace noise
        certify(PoissonSampled(Gaussian(1.0), 0.01) * 3, delta=1e-5, digits=9),
        certify(PoissonSampled(Gaussian(1.0), 0.01) * 2, delta=1e-5, digits=9, two_sided=True),
        certify(Laplace(10.0) * 2000, delta=1e-6, digits=9, two_sided=True),
        certify(
            PoissonSampled(Gaussian(1.0), 0.01) * 2 + PoissonSampled(Gaussian(0.9), 0.02) * 3, delta=1e-5, digits=9
        ),
        certify(PoissonSampled(Gaussian(0.7), 0.05), epsilon=1.0, digits=9),
        # a line that only a virtual Gaussian ends, and no line at all
        certify(Laplace(3.0) * 30, delta=1e-6, digits=9),
        certify(RandomizedResponse(0.2) * 20, delta=1e-6, digits=9, two_sided=True),
        certify(ApproximateDP(0.4, 1e-7) * 2 + PureDP(0.5) * 3, epsilon=2.3, digits=9),
        certify(Laplace(2.0) + RandomizedResponse(0.25) * 2, epsilon=1.0, digits=9),
        # random allocation: several epochs, from below too; one epoch; with other parts, and delta
        certify(RandomAllocation(Gaussian(1.0), steps=100) * 10, delta=1e-5, digits=9, two_sided=True),
        certify(RandomAllocation(Gaussian(0.8), steps=40), delta=1e-6, digits=9),
        certify(
            RandomAllocation(Gaussian(3.0), 50, repeats=3) * 4 + PoissonSampled(Gaussian(1.0), 0.01) * 200,
            delta=1e-5,
            digits=9,
        ),
        certify(RandomAllocation(Gaussian(1.1), 234) * 30 + Gaussian(8.0) * 2, epsilon=2.0, digits=9),
    ]
    return [json.loads(claim.text) for claim in made]


def changes(seed: int, documents: list[Document]) -> Iterator[Change]:
    """Changed certificates without end."""
    draw = random.Random(seed)
    ways = (_harder, _harder_with_other_evidence, _other_evidence, _nonsense, _without, _swapped, _too_many, _file)
    while True:
        yield draw.choice(ways)(draw, copy.deepcopy(draw.choice(documents)))


def _scaled(text: str, factor: Fraction) -> str:
    """A number times a factor, exactly, as a fraction of few digits, or as a decimal where it needs more."""
    value = Fraction(text) * factor
    written = f"{value.numerator}/{value.denominator}"
    return written if max(map(len, written.split("/"))) <= 40 else f"{float(value):.17g}"


def _harder(draw: random.Random, document: Document) -> Change:
    """A claim that says more: false, because the base is true to nine digits only, or to six."""
    claim = document["claim"]
    finest = 10 if _is_coarse(document["evidence"]) else 1
    less = 1 - Fraction(draw.choice([finest, 10, 1000, 10**5, 9 * 10**5]), 10**6)
    more = 1 / less
    ways = [
        name for name in ("epsilon", "delta", "rdp") if claim.get(name, "0") != "0" and claim["kind"] != "conversion"
    ]
    if claim["kind"] == "conversion":
        ways = ["epsilon", "delta", "hypothesis"]
    if "run" in claim:
        ways += ["part"] * 4
    if claim.get("lower_epsilon"):
        ways += ["lower_epsilon"]
    name = draw.choice(ways)
    if name == "hypothesis":
        claim["rdp"] = _scaled(claim["rdp"], more)
    elif name == "part":
        name = _harder_part(draw, claim, less, more)
    elif name == "lower_epsilon":
        claim[name] = _scaled(claim["epsilon"], draw.choice([Fraction(1), more]))
    else:
        claim[name] = _scaled(claim[name], less)
    return Change(document, f"harder: {name}", is_false=True)


def _is_coarse(evidence: Document) -> bool:
    """Whether a bound is known to exceed the truth by some 1e-7 of it: that of a lattice, or of a smoothed line."""
    lines = [line for line in evidence.values() if isinstance(line, dict)]
    return any("grids" in line or line.get("smoothing", "0") != "0" for line in lines)


def _harder_part(draw: random.Random, claim: Document, less: Fraction, more: Fraction) -> str:
    """More rounds, less noise, a higher rate, fewer steps, or a larger loss of one part; and all one knows of it."""
    largest = max(claim["run"], key=lambda part: part["rounds"])
    name: str = draw.choice([name for name in largest if name != "mechanism"])
    if name in ("rounds", "repeats"):
        largest[name] = largest[name] + max(1, math.ceil(largest[name] * (more - 1)))
    elif name == "steps":
        largest[name] -= 1
    elif name == "noise_multiplier":
        largest[name] = _scaled(largest[name], less)
    else:
        largest[name] = _scaled(largest[name], more)
    return name


def _numbers(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all that is no object and no list."""
    if isinstance(value, dict):
        for key in value:
            yield from _numbers(value[key], (*path, key))
    elif isinstance(value, list):
        for key, each in enumerate(value):
            yield from _numbers(each, (*path, key))
    else:
        yield path


def _at(document: Json, path: tuple[Json, ...]) -> Json:
    for key in path:
        document = document[key]
    return document


def _turn(draw: random.Random, evidence: Json) -> None:
    """Some numbers of the evidence, times a factor from a thousandth to a thousand, most of them near one."""
    for path in list(_numbers(evidence)):
        old = _at(evidence, path)
        if draw.random() < 0.5 or old is None or old in ("remove", "add"):
            continue
        factor = math.exp(draw.gauss(0.0, draw.choice([0.01, 0.1, 1.0, 2.5])))
        if isinstance(old, int):
            new: Any = round(old * factor)
        else:
            new = f"{float(Fraction(old)) * factor:.6g}" if draw.random() < 0.95 else draw.choice(["0", "1", "3"])
        _at(evidence, path[:-1])[path[-1]] = new


def _other_evidence(draw: random.Random, document: Document) -> Change:
    _turn(draw, document["evidence"])
    return Change(document, "evidence", is_false=False)


def _harder_with_other_evidence(draw: random.Random, document: Document) -> Change:
    change = _harder(draw, document)
    _turn(draw, change.document["evidence"])
    return change._replace(what=f"{change.what} and evidence")


def _nonsense(draw: random.Random, document: Document) -> Change:
    path = draw.choice(list(_numbers(document)))
    value = draw.choice(NONSENSE)
    if _at(document, path) is value:  # null in place of null changes nothing
        return Change(document, "unchanged", is_false=False)
    _at(document, path[:-1])[path[-1]] = value
    # in the claim, only these can leave it true: a number that is weaker than what was there
    numbers = ("1e999", "9" * 40 + "e999", "1" * 300, "1e-999", "1/" + "9" * 40, 7)
    weaker = path[0] == "evidence" or value in numbers or path[-1] == "kind"
    return Change(document, "nonsense", is_false=not weaker)


def _without(draw: random.Random, document: Document) -> Change:
    path = draw.choice(list(_numbers(document)))
    owner = _at(document, path[:-1])
    del owner[path[-1]]
    return Change(document, "a field is missing", is_false=True)


def _swapped(draw: random.Random, document: Document) -> Change:
    evidence, claim = document["evidence"], document["claim"]
    if "add" in evidence:
        evidence["remove"], evidence["add"] = evidence["add"], evidence["remove"]
        if draw.random() < 0.5:
            return _harder(draw, document)._replace(what="swapped directions and harder")
        return Change(document, "swapped directions", is_false=False)
    claim["relation"] = draw.choice(["add-remove", "replace-one", "zero-out", "", 1])
    return Change(document, "relation", is_false=True)


def _too_many(draw: random.Random, document: Document) -> Change:
    """A field with a similar name, or one too many."""
    path = draw.choice(list(_numbers(document)))
    owner = _at(document, path[:-1])
    if isinstance(owner, dict):
        owner[draw.choice(["Epsilon", "eps", "note", "precision ", "é"])] = draw.choice(NONSENSE)
    else:
        owner.append(draw.choice(NONSENSE))
    return Change(document, "a field too many", is_false=True)


def _file(draw: random.Random, document: Document) -> Change:
    """What is no certificate, though a file may hold it; or one with other bytes, which may still be true."""
    text = json.dumps(document)
    size = draw.choice([10, 1000, 100_000, 400_000])
    place = draw.randrange(len(text))
    run = document["claim"].get("run", [{}])
    files: dict[str, bytes] = {
        "nested lists": text.replace(":", ":" + "[" * size, 1).encode(),
        "nested objects": (text[:-1] + ',"x":' + '{"x":' * size + "1" + "}" * size + "}").encode(),
        "closed nesting": text.replace('"claim": ', '"claim": ' + "[" * size + "]" * size + ', "x": ', 1).encode(),
        "long number": text.replace('"version": 1', '"version": 1' + "0" * size, 1).encode(),
        "long text": text.replace('"version": 1', '"version": "' + "1" * size + '"', 1).encode(),
        "many parts": json.dumps({**document, "claim": {**document["claim"], "run": run * (2 + size // 100)}}).encode(),
        "many quadratures": _with_many_lines(document, size // 100),
        "too large": text.encode() + b" " * 10**6,
        "larger than memory should be": b"[" + b"0," * (5 * 10**6) + b"0]",
        "cut off": text[:place].encode(),
        "given twice": text.replace('"version": 1', '"version": 1, "version": 1', 1).encode(),
        "no number": text.replace(
            '"version": 1', '"version": ' + draw.choice(["NaN", "Infinity", "1.0", "1e0"])
        ).encode(),
        "other encoding": text.encode(draw.choice(["utf-16", "utf-32", "utf-16-be"])),
        "surrogate": text.replace('"mechanism": "', '"mechanism": "\\ud800', 1)
        .replace('"kind": "', '"kind": "\\ud800')
        .encode(),
        "no object": draw.choice([b"", b"null", b"[]", b'"claim"', b"1", b"{}", b"\xff", b"\x00" * 1000]),
    }
    if draw.random() < 0.3:
        byte = draw.choice(b'0123456789.-e"{}[], \x00\xff')
        return Change(document, "file: another byte", is_false=False, data=_with_byte(text.encode(), place, byte))
    what = draw.choice(sorted(files))
    return Change(document, f"file: {what}", is_false=True, data=files[what])


def _with_byte(data: bytes, place: int, byte: int) -> bytes:
    return data[:place] + bytes([byte]) + data[place + 1 :]


def _with_many_lines(document: Document, number: int) -> bytes:
    """Evidence whose first list has more items than there are parts."""
    changed = copy.deepcopy(document)
    for line in changed["evidence"].values():
        for name in ("quadratures", "grids"):
            if isinstance(line, dict) and name in line:
                line[name] = line[name] * (2 + number) or [{}]
                return json.dumps(changed).encode()
    changed["evidence"] = [changed["evidence"]] * (2 + number)
    return json.dumps(changed).encode()


def is_wrongly_verified(change: Change) -> bool:
    """Whether the checker accepts a claim that is false."""
    try:
        checker.check(change.file)
    except checker.RefusedError:
        return False
    return change.is_false


def random_run(draw: random.Random) -> tuple[Run, float]:
    """A run that a certificate may cover, and a delta."""

    def part() -> Run:
        kind = draw.choices(["sampled", "gaussian", "laplace", "response"], [10, 3, 3, 3])[0]
        noise = round(math.exp(draw.uniform(math.log(0.6), math.log(20.0))), 3)
        step: Mechanism
        if kind == "sampled":
            rounds = round(math.exp(draw.uniform(math.log(100.0), math.log(1e6))))
            rate = float(f"{math.exp(draw.uniform(math.log(1e-4), math.log(0.1))):.3g}")
            return PoissonSampled(Gaussian(noise), rate) * rounds
        rounds = round(math.exp(draw.uniform(0.0, math.log(1e4))))
        if kind == "gaussian":
            step = Gaussian(round(noise * math.sqrt(rounds), 3))
        elif kind == "laplace":
            step = Laplace(round(noise * math.sqrt(rounds), 3))
        else:
            step = RandomizedResponse(round(1.0 / noise / math.sqrt(rounds), 5))
        return step * rounds

    run = part()
    while draw.random() < 0.2:
        run += part()
    return run, float(f"{10 ** draw.uniform(-12, -3):.2g}")


def random_epochs(draw: random.Random) -> tuple[Run, float]:
    """Epochs of random allocation, alone or with a part of another kind, and a delta."""
    steps = round(math.exp(draw.uniform(0.0, math.log(3000.0))))
    noise = round(math.exp(draw.uniform(math.log(0.55), math.log(4.0))), 3)
    repeats = draw.choice([1, 1, 1, draw.randint(1, 9)])
    epochs = round(math.exp(draw.uniform(0.0, math.log(300.0))))
    run = RandomAllocation(Gaussian(round(noise * math.sqrt(repeats), 3)), steps, repeats=repeats) * epochs
    delta = float(f"{10 ** draw.uniform(-10, -3):.2g}")
    return (run + random_run(draw)[0] if draw.random() < 0.2 else run), delta


def try_changes(number: int, seed: int) -> int:
    """Prints what became of changed claims, and returns how many went wrong."""
    documents = bases()
    for document in documents:
        checker.check(json.dumps(document).encode())
    counts: Counter[tuple[str, bool]] = Counter()
    wrong, slowest = 0, 0.0
    for change, _ in zip(changes(seed, documents), range(number), strict=False):
        began = time.process_time()
        bad = is_wrongly_verified(change)
        took = time.process_time() - began
        slowest = max(slowest, took)
        counts[change.what.partition(":")[0], change.is_false] += 1
        if bad or took > MOST_SECONDS:
            wrong += 1
            print(f"WRONG: {change.what}, {took:.1f} s\n{change.file[:5000]!r}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{number} changed claims: {wrong} wrong; slowest {slowest:.2f} s, {memory / 1000:.0f} MB at most.")
    for (what, is_false), times in sorted(counts.items()):
        print(f"  {times:5} {'false' if is_false else 'may be true'}: {what}")
    return wrong + (memory > MOST_KILOBYTES)


def try_run(index: int, seed: int, digits: int = 9, drawn: Drawn = random_run) -> Document:
    """What becomes of one random run: whether its reported epsilon is certified within `CLOSE` of itself."""
    run, delta = drawn(random.Random(f"{seed}:{index}"))
    began = time.process_time()
    found = run.guarantee(delta=delta)
    row = {"index": index, "run": repr(run), "delta": delta, "lower": found.lower, "upper": found.upper}
    row |= {"method": found.method, "certified": None, "error": None}
    try:
        claim = certify(run, delta=delta, digits=digits)
    except UnsupportedError:
        outcome = "costs nothing"
    except PrivacyError as error:
        outcome, row["error"] = "not certified", str(error)
    else:
        row["certified"] = claim.epsilon
        is_sound = found.lower <= claim.epsilon
        is_close = claim.epsilon <= found.upper * (1 + CLOSE) or claim.epsilon - found.upper <= LAST_DECIMAL
        outcome = "within" if is_sound and is_close else "wider" if is_sound else "BELOW THE LOWER END"
    return row | {"outcome": outcome, "seconds": round(time.process_time() - began, 2)}


def try_runs(number: int, seed: int, journal: Path | None, drawn: Drawn = random_run) -> int:
    """Prints which reported epsilons cannot be certified within `CLOSE` of themselves, and returns how many.

    Rows are kept in the journal, one JSON object a line, and those that are there are not tried again.
    """
    lines = journal.read_text().splitlines() if journal and journal.exists() else []
    rows = {row["index"]: row for row in map(json.loads, lines)}
    for index in range(number):
        if index in rows:
            continue
        rows[index] = try_run(index, seed, drawn=drawn)
        if journal:
            with journal.open("a") as file:
                file.write(json.dumps(rows[index]) + "\n")
    asked = [rows[index] for index in range(number)]
    counts = Counter(row["outcome"] for row in asked)
    for row in asked:
        if row["outcome"] not in ("within", "costs nothing"):
            print(json.dumps(row))
    slowest = max(row["seconds"] for row in asked)
    print(f"{number} runs: {dict(counts)}; within is {CLOSE:g} of the reported epsilon. The slowest took {slowest} s.")
    return number - counts["within"] - counts["costs nothing"]


def try_references(number: int, seed: int) -> int:
    """Compares the bounds of random claims with 60 digits of mpmath, and returns how many contradict them."""
    import mpmath as mp
    from flint import arb, ctx

    from tests.references import contour

    draw = random.Random(seed)
    wrong = done = 0
    widest = mp.mpf(0)
    while done < number:
        run, delta = random_run(draw)
        if any(isinstance(part, (Laplace, RandomizedResponse)) for part in run.mechanisms):
            run += Gaussian(20.0)  # without one their sums have no end
        try:
            document = json.loads(certify(run, delta=delta, digits=9).text)
        except PrivacyError:
            continue
        claim = document["claim"]
        line = document["evidence"]["remove"]
        if line is None or "grids" in line or line["nodes"] > 200 or line["smoothing"] != "0":
            continue
        parts, _ = checker._run(claim)
        sums = [part["sum"] for part in parts if part["sum"]]
        read = checker._read("line", line, {**checker.LINE, "quadratures": sums})
        with ctx.workprec(read["precision"]):
            bound = checker._delta(parts, "remove", Fraction(claim["epsilon"]), read, from_below=False)
        order = ("noise_multiplier", "sampling_rate", "epsilon")
        described = [
            contour.Part(each["mechanism"], each["rounds"], tuple(each[key] for key in order if key in each))
            for each in claim["run"]
        ]
        truth = contour.delta(described, "remove", claim["epsilon"], line["tau"], line["step"], 2 * line["nodes"])
        with ctx.workprec(260):
            exact = arb(mp.nstr(truth, 60))
            above = bound - exact
            agrees = above.upper() >= 0 and above <= arb("1e-9") * arb(claim["delta"])
        widest = max(widest, mp.mpf(float(above.upper())) / mp.mpf(claim["delta"]))
        wrong += not agrees
        done += 1
        if not agrees:
            print(f"{run!r}, delta {delta:g}: {bound} and {mp.nstr(truth, 30)}")
    print(f"{done} claims against 60 digits: {wrong} contradict; bounds at most {mp.nstr(widest, 3)} of delta above.")
    return wrong


def main() -> int:
    """Try what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0, help="random runs with epochs of random allocation")
    parser.add_argument("--references", type=int, default=0)
    parser.add_argument("--journal", type=Path, help="of the runs, JSON lines; what is in it is not computed again")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    wrong = try_changes(asked.changes, asked.seed) if asked.changes else 0
    wrong += try_runs(asked.runs, asked.seed, asked.journal) if asked.runs else 0
    wrong += try_runs(asked.epochs, asked.seed, None, random_epochs) if asked.epochs else 0
    wrong += try_references(asked.references, asked.seed) if asked.references else 0
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
