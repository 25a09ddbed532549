"""The comparison as a page: Markdown from the measured data, the same bytes for the same data."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from benchmarks.runs import BAD_INPUTS, shown

Data = dict[str, Any]  # JSON

OURS = "dprounds"
# One column each in the tables of cases; the finer settings have a table of their own.
COLUMNS = {
    "dp-accounting-pld": "dp-acc. PLD",
    "dp-accounting-rdp": "dp-acc. RDP",
    "opacus-prv": "Opacus PRV",
    "opacus-rdp": "Opacus RDP",
    "prv-accountant": "prv-acc.",
    "autodp": "autodp",
    "autodp-fourier": "autodp Fourier",
}
FINER = {"dp-accounting-pld": "dp-accounting-pld-fine", "prv-accountant": "prv-accountant-fine"}
# Relative difference below which two answers are called equal: all print the same nine digits.
EQUAL = 1e-9
# Times that differ by less than this factor are a tie on a machine that others use.
SAME_SPEED = 1.25


def rendered(data: Data) -> str:
    """The whole page."""
    sections = [
        _head(data),
        _summary(data),
        _losses(data),
        _abilities(data),
        _below(data),
        _tightness(data),
        _finer(data),
        _speed(data),
        _memory(data),
        _bad_input(data),
        _broken(data),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def reference(data: Data, k: int) -> tuple[float, float, str]:
    """Lower and upper end of a case's truth, and its source; the least proven bound where the truth is not known."""
    known = data["cases"][k]["truth"]
    if known is not None:
        return known["lower"], known["upper"], known["source"]
    proven = [
        value
        for peer in data["peers"].values()
        if peer["claim"] == "bound" and (value := _value(peer, k)) is not None and value > 0
    ]
    return 0.0, min(proven, default=math.nan), "least proven bound"


def excess(data: Data, name: str, k: int) -> float | None:
    """An answer's relative distance above the truth, negative below it; None without an answer."""
    value = _value(data["peers"][name], k)
    if value is None:
        return None
    lower, upper, _ = reference(data, k)
    if value > upper:
        return value / upper - 1.0
    return value / lower - 1.0 if value < lower else 0.0


def _value(peer: Data, k: int) -> float | None:
    value = peer["answers"][k].get("value")
    return None if value is None else float(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _columns(data: Data) -> dict[str, str]:
    return {name: title for name, title in COLUMNS.items() if name in data["peers"]}


def _case(data: Data, k: int) -> str:
    """A run within the table of its family."""
    case = data["cases"][k]
    return f"{case['name']}, δ {_power(case['delta'])}"


def _full(data: Data, k: int) -> str:
    """A run anywhere else."""
    return f"{data['cases'][k]['family']}: {_case(data, k)}"


def _power(delta: float) -> str:
    return f"{delta:.0e}".replace("e-0", "e-")


def _percent(share: float) -> str:
    """An excess in words: equal, a percentage, or a factor."""
    if abs(share) <= EQUAL:
        return "="
    if share == math.inf:
        return "inf"
    if share >= 1.0:
        return f"× {share + 1.0:.3g}"
    if share <= -0.5:
        return f"**1/{_times(1.0 / (1.0 + share))}**" if share > -1.0 else "**0 or less**"
    text = f"{100 * share:+.2g} %".replace("e-0", "e-")
    return f"**{text}**" if share < 0 else text


def _times(ratio: float) -> str:
    """A ratio to two digits, without exponents."""
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10.0 else f"{ratio:.2g}"


def _failed(answer: Data) -> str:
    """What stands where no number came."""
    if answer.get("not_covered") or not answer:
        return "–"
    if "over" in answer:
        return f"over {answer['over']:g} s"
    return "died" if "died" in answer else "raises"


def _head(data: Data) -> str:
    machine, peers = data["machine"], data["peers"]
    versions = {peer["library"]: peer["version"] for peer in peers.values()}
    listed = ", ".join(f"{library} {version}" for library, version in versions.items())
    return f"""# Comparison with the libraries people use

`make bench` wrote this page on {data["date"]}, from one set of runs on one machine: {machine["cores"]} cores,
{machine["system"]} on {machine["processor"]}, load {machine["load"]:g} at the end; Python {machine["python"]},
NumPy {machine["numpy"]}, SciPy {machine["scipy"]};
{listed}.
The numbers are in `docs/comparison.json`. Machines are noisy, so read speed and memory as ratios.

Each library runs in a process of its own, on one core, and has {data["limit"]:g} s of it for an answer.
Times are the processor's, so that other work on the machine does not count; short calls are a mean over many.
The peers run at their best or recommended settings:

| column | what is asked |
| --- | --- |
| dprounds | its default: exact where that can be proven, otherwise the best Rényi order by the paper's conversion |
| dp-acc. PLD | `PLDAccountant` at its default grid of 1e-4; 1e-5 among the finer settings |
| dp-acc. RDP | `RdpAccountant` with 400 orders from 1.01 to 2,001 |
| Opacus PRV | `PRVAccountant` at its defaults, which are an error of 0.01 in ε and δ/1000 in δ |
| Opacus RDP | `RDPAccountant` at its default orders |
| prv-acc. | the upper end of `PRVAccountant`, `eps_error` 0.01, `delta_error` δ/1000; 0.001 among the finer settings |
| autodp | exact composition of Gaussians, otherwise Rényi functions (`Composition`) |
| autodp Fourier | `ComposeAFA`, its `get_approx_delta` inverted by bisection; an estimate, not a bound |"""


def _summary(data: Data) -> str:
    count = len(data["cases"])
    rows = []
    for name, peer in data["peers"].items():
        found = [share for k in range(count) if (share := excess(data, name, k)) is not None]
        ratios = _speed_ratios(data, name)
        failed = [answer for answer in peer["answers"] if answer and "value" not in answer]
        late = sum("over" in answer for answer in failed)
        raised = sum("error" in answer or "died" in answer for answer in failed)
        rows.append(
            [
                peer["title"],
                str(len(found)),
                f"{late + raised}" if late + raised else "0",
                _percent(median(found)) if found else "–",
                _percent(max(found)) if found else "–",
                str(sum(share < -EQUAL for share in found)),
                _times(median(ratios)) if ratios else "–",
            ]
        )
    head = ["library", "answered", "failed", "ε above truth, median", "worst", "below truth", "time / ours, median"]
    return f"""## Summary

Of {count} runs; `=` is equal within {EQUAL:g} of ε. *Failed* counts errors and answers over the limit, not mechanisms
that a library does not have. The finer settings are asked for a few runs only. What is below the truth, and why, is
[listed](#below-the-truth).

{_table(head, rows)}"""


def _speed_ratios(data: Data, name: str) -> list[float]:
    """Times over ours, case by case."""
    ours, theirs = data["peers"][OURS]["answers"], data["peers"][name]["answers"]
    return [b["seconds"] / a["seconds"] for a, b in zip(ours, theirs, strict=True) if "seconds" in a and "seconds" in b]


def _tightness(data: Data) -> str:
    columns = _columns(data)
    parts = [
        """## Tightness

ε over the truth. The truth is an independent closed form (Gaussian; one round of Laplace or of a sampled Gaussian) or
binomial sum (randomized response) in 40 digits where there is one; else our proven bracket, narrower than 1e-6 of ε;
where there is neither, the least bound that any of the libraries proves. **Bold is below the truth.**
In the column of ε: c closed form, s binomial sum, b our bracket, p the least proven bound."""
    ]
    for family in dict.fromkeys(case["family"] for case in data["cases"]):
        rows = []
        for k, case in enumerate(data["cases"]):
            if case["family"] != family:
                continue
            _, upper, source = reference(data, k)
            cells = []
            for name in (OURS, *columns):
                share = excess(data, name, k)
                cells.append(_failed(data["peers"][name]["answers"][k]) if share is None else _percent(share))
            rows.append([_case(data, k), f"{upper:.5g} {SOURCES[source]}", *cells])
        parts.append(f"### {family}\n\n" + _table(["run", "ε", "dprounds", *columns.values()], rows))
    return "\n\n".join(parts)


def _finer(data: Data) -> str:
    rows = []
    for coarse, fine in FINER.items():
        if fine not in data["peers"]:
            continue
        for k, answer in enumerate(data["peers"][fine]["answers"]):
            if not answer or answer.get("not_covered"):
                continue
            before, after = excess(data, coarse, k), excess(data, fine, k)
            ours = data["peers"][OURS]["answers"][k].get("seconds")
            rows.append(
                [
                    data["peers"][fine]["title"],
                    _full(data, k),
                    "–" if before is None else _percent(before),
                    _failed(answer) if after is None else _percent(after),
                    _times(answer["seconds"] / ours) if ours and "seconds" in answer else "–",
                ]
            )
    head = ["setting", "run", "ε above truth, before", "finer", "time / ours"]
    return f"## Finer settings\n\nWhat the peers gain by a finer grid, and what it costs.\n\n{_table(head, rows)}"


def _speed(data: Data) -> str:
    columns = _columns(data)
    rows = []
    for k in range(len(data["cases"])):
        mine = data["peers"][OURS]["answers"][k].get("seconds")
        cells = []
        for name in columns:
            answer = data["peers"][name]["answers"][k]
            cells.append(_times(answer["seconds"] / mine) if mine and "seconds" in answer else _failed(answer))
        rows.append([_full(data, k), f"{1e3 * mine:.3g} ms" if mine else "–", *cells])
    start = []
    mine = _to_first_answer(data, OURS)
    for name in (OURS, *columns):
        took = _to_first_answer(data, name)
        own = data["peers"][name]["import_seconds"]
        share = _times(took / mine) if took is not None and mine else "–"
        start.append([data["peers"][name]["title"], f"{own:.2g} s", "–" if took is None else f"{took:.2g} s", share])
    return f"""## Speed

Time of a warm answer as a multiple of ours; below 1 the peer is faster.

{_table(["run", "dprounds", *columns.values()], rows)}

From a fresh process to the first answer, the first run of the table:

{_table(["library", "import", "import and first answer", "/ ours"], start)}"""


def _to_first_answer(data: Data, name: str) -> float | None:
    peer = data["peers"][name]
    first = peer["answers"][0].get("first_seconds")
    return None if first is None else float(peer["import_seconds"] + first)


def _memory(data: Data) -> str:
    peers = data["peers"]
    mine = _peak(peers[OURS])[0]
    rows = []
    for peer in peers.values():
        peak, k = _peak(peer)
        where = "–" if k is None else _full(data, k)
        rows.append([peer["title"], f"{peer['import_megabytes']:.0f} MB", f"{peak:.0f} MB", _times(peak / mine), where])
    return f"""## Memory

Peak resident memory of each process, after its import and over all runs that it answered in time.
Opacus imports PyTorch.

{_table(["library", "import", "peak", "/ ours", "at"], rows)}"""


def _peak(peer: Data) -> tuple[float, int | None]:
    peaks = [(answer["peak_megabytes"], k) for k, answer in enumerate(peer["answers"]) if "peak_megabytes" in answer]
    return max(peaks, default=(peer["import_megabytes"], None))


SOURCES = {"closed form": "c", "binomial sum": "s", "our bracket": "b", "least proven bound": "p"}
WITH_LIMIT = {shown(bad) for bad in BAD_INPUTS if bad.limit is not None}
VERDICTS = {
    "refused": "refused",
    "right limit": "limit",
    "infinite": "infinite",
    "accepted": "**accepted**",
    "crashed": "crashed",
    "died": "**died**",
    "too long": "**too long**",
    "not covered": "–",
}


def _bad_input(data: Data) -> str:
    asked = {name: peer for name, peer in data["peers"].items() if peer["bad"]}
    rows, details = [], []
    for k, bad in enumerate(data["bad_inputs"]):
        found = {name: peer["bad"][k] for name, peer in asked.items()}
        refused = "no answer" if bad in WITH_LIMIT else "refused"
        verdicts = {**VERDICTS, "refused": refused}
        rows.append([f"`{bad}`", *(verdicts[one["verdict"]] for one in found.values())])
        for name, one in found.items():
            if one["verdict"] in ("accepted", "crashed", "died", "too long"):
                said = one["shown"].replace("|", "/").replace("`", "'")[:110]
                text = f"ε = {said}" if one["verdict"] == "accepted" else (f"`{said}`" if said else one["verdict"])
                details.append([asked[name]["title"], f"`{bad}`", text])
    details.sort(key=lambda detail: detail[0])
    heads = [COLUMNS.get(name, peer["title"]) for name, peer in asked.items()]
    return f"""## Bad input

One argument of a sound run (σ 1, q 0.01, T 100, δ 1e-5) replaced; each had {data["bad_limit"]:g} s.

- *refused*: a `ValueError`, `TypeError`, `AssertionError` or an error of the library's own.
- *limit*: the answer that is right in the limit, as an infinite ε without noise.
- *no answer*: refused, though there is such a limit. It misleads nobody; *limit* is better.
- *infinite*: an infinite ε, which promises nothing, for an input that has no answer.
- **accepted**: a number, or NaN, for an input that has no answer.
- **too long**: no answer in that time; with NaN their series never ends.
- *crashed*: another error from inside. It is no answer, so nobody is misled by it.

{_table(["input", *heads], rows)}

What came out where it was not refused:

{_table(["library", "input", "answer"], details)}"""


def _below(data: Data) -> str:
    rows = []
    for name, peer in data["peers"].items():
        for k in range(len(data["cases"])):
            share = excess(data, name, k)
            if share is not None and share < -EQUAL:
                lower, _, source = reference(data, k)
                rows.append(
                    [peer["title"], peer["claim"], _full(data, k), f"{_value(peer, k):.6g}", f"{lower:.6g}", source]
                )
    if not rows:
        return "## Below the truth\n\nNo library answered below the truth on these runs."
    table = _table(["library", "claims a", "run", "its ε", "truth at least", "by"], rows)
    return f"""## Below the truth

An ε that is too small is the worst an accountant can do. Listed is every answer below the lower end of the truth by
more than {EQUAL:g} of it, with the means by which that end is known. An *estimate* claims to be near, not above.

{table}{_one_defect(data)}"""


def _one_defect(data: Data) -> str:
    """Where dp-accounting's PLD is low only on randomized response, the one reason for it."""
    low = [
        case["family"] for k, case in enumerate(data["cases"]) if (excess(data, "dp-accounting-pld", k) or 0.0) < -EQUAL
    ]
    if set(low) != {"Randomized response"}:
        return ""
    return f"""

The rows of dp-accounting PLD are one defect: version {data["peers"]["dp-accounting-pld"]["version"]} composes a
`RandomizedResponseDpEvent` once, whatever its count. Composed one by one, five of them cost 4.99995, as they should.
Its other events heed their count, and nothing is wrong with the method."""


def _abilities(data: Data) -> str:
    rows = [
        [one["what"], f"{one['library']}: {one['by']}", one["asked"], f"{one['epsilon']:.5g}"]
        for one in data["abilities"]
    ]
    return f"""## What peers can do and we cannot

Each was asked of the peer, and answered. dprounds refuses the same question. ε is at δ = 1e-5, by the peer: we cannot
check it.

{_table(["what", "by", "asked", "its ε"], rows)}

What prv-accountant and Opacus's accountants account for, dprounds does too. (Opacus has one more, for Gaussian DP: an
approximation by the central limit theorem, on either side of the truth.) The main branch of dp-accounting, read and not
run, has further events: (ε, δ)-DP, discrete Gaussian noise, the exponential mechanism and random allocation,
which dprounds has, and permute-and-flip, which it has not. Shuffled batches are in none of them."""


def _losses(data: Data) -> str:
    """Where a peer is tighter or faster, or we fall back, from the data alone."""
    columns = _columns(data)
    looser: list[list[str]] = []
    slower: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for k, case in enumerate(data["cases"]):
        ours = excess(data, OURS, k)
        mine = data["peers"][OURS]["answers"][k].get("seconds")
        sound = {name: share for name in columns if (share := excess(data, name, k)) is not None and share >= -EQUAL}
        if ours is not None and sound:
            name = min(sound, key=lambda one: sound[one])
            if sound[name] < ours - EQUAL:
                peer, above = data["peers"][name], (1.0 + ours) / (1.0 + sound[name]) - 1.0
                values = [f"{_value(one, k):.5g}" for one in (data["peers"][OURS], peer)]
                looser.append([_full(data, k), *values, peer["title"], _percent(above)])
        for name, share in sound.items():
            answer = data["peers"][name]["answers"][k]
            if mine is not None and answer["seconds"] * SAME_SPEED <= mine:
                slower.setdefault((case["family"], name), []).append((mine / answer["seconds"], share))
    parts = ["## Where we lose"]
    if looser:
        parts.append(
            "**Looser.** A peer proves a smaller ε, and is not below the truth. Few rounds of a sampled mechanism are "
            "put on a lattice, and its step is\nwhat we are above; where no lattice will do, the best Rényi order "
            "answers.\n\n" + _table(["run", "our ε", "theirs", "library", "we are above"], looser)
        )
    if slower:
        rows = [
            [
                family,
                data["peers"][name]["title"],
                str(len(found)),
                f"{_times(median(speed for speed, _ in found))} times as fast",
                _percent(median(share for _, share in found)),
            ]
            for (family, name), found in slower.items()
        ]
        parts.append(
            "**Slower.** A peer answers sooner, and is not below the truth; the last column is what its answer is "
            "above it, a median as well.\n\n"
            + _table(["runs of", "library", "how many", "median", "its ε above truth"], rows)
        )
    memory = [
        peer["title"]
        for name, peer in data["peers"].items()
        if name in columns and _peak(peer)[0] < _peak(data["peers"][OURS])[0]
    ]
    if memory:
        parts.append("**More memory** than " + ", ".join(memory) + ", at its peak.")
    first = _to_first_answer(data, OURS)
    sooner = [
        data["peers"][name]["title"]
        for name in columns
        if first is not None and (theirs := _to_first_answer(data, name)) is not None and theirs < first
    ]
    if sooner:
        parts.append("**Later** to a first answer from a fresh process than " + ", ".join(sooner) + ".")
    ties = _ties(data, columns)
    if ties:
        parts.append("**Ties.** Equal answers, within 1e-9 of ε:\n\n" + _table(["library", "runs"], ties))
    if len(parts) == 1:
        parts.append("Nowhere on these runs.")
    return "\n\n".join(parts)


def _ties(data: Data, columns: dict[str, str]) -> list[list[str]]:
    rows = []
    for name in columns:
        same = [
            _full(data, k)
            for k in range(len(data["cases"]))
            if (mine := _value(data["peers"][OURS], k))
            and (theirs := _value(data["peers"][name], k)) is not None
            and abs(theirs / mine - 1.0) <= EQUAL
        ]
        if same:
            rows.append([data["peers"][name]["title"], "; ".join(same)])
    return rows


def _broken(data: Data) -> str:
    rows = []
    for peer in data["peers"].values():
        errors: dict[str, int] = {}
        for answer in peer["answers"]:
            if "error" in answer:
                text = f"{answer['error']}: {answer['message']}".replace("|", "/").replace("`", "'")[:140]
                errors[text] = errors.get(text, 0) + 1
            elif "died" in answer:
                errors["the process ended"] = errors.get("the process ended", 0) + 1
        rows += [[peer["title"], str(times), f"`{text}`"] for text, times in errors.items()]
    if not rows:
        return "## Errors on sound input\n\nNone."
    return f"""## Errors on sound input

{_table(["library", "runs", "error"], rows)}

autodp predates SciPy 1.14, which removed `scipy.integrate.quadrature`: its Fourier accountant has no sampled Gaussian
any more. On SciPy 1.13 that works, but one direction of the first run took over two minutes. Its own ε from a
characteristic function (`get_approxDP` after `ComposeAFA`) came out negative for every Gaussian, Laplace and randomized
response that was tried. So its δ is asked here, and inverted."""
