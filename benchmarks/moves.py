"""From a move on the page to its answer, in a real browser: ``python -m benchmarks.moves``.

A tenth of a second is the target, and three tenths until the table and both charts are there too. Three ways to move a
slider: now and then; soon again, before all that follows an answer is there; and as in a drag, thirty times a second.
The page itself measures, from the event to what it shows.
While a slow answer is computed a quicker bound may stand in for it, and says so.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

__all__ = ["main"]

TARGET = 100.0
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BUDGET: dict[str, Any] = {"epsilon": 3, "delta": 1e-5}
SAMPLED: dict[str, Any] = {"batch_size": 256, "dataset_size": 60000}
# What is asked, and the slider that is moved.
SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "rounds, noise": ("noise_multiplier", {"question": "rounds", "noise_multiplier": 1.1, **BUDGET, **SAMPLED}),
    "rounds, budget": ("epsilon", {"question": "rounds", "noise_multiplier": 1.1, **BUDGET, **SAMPLED}),
    "rounds, batch": ("batch_size", {"question": "rounds", "noise_multiplier": 1.1, **BUDGET, **SAMPLED}),
    "rounds, no sampling": ("noise_multiplier", {"question": "rounds", "noise_multiplier": 20, **BUDGET}),
    "cost, noise": (
        "noise_multiplier",
        {"question": "epsilon", "delta": 1e-5, "noise_multiplier": 1.1, "epochs": 60, **SAMPLED},
    ),
    "cost, epochs": (
        "epochs",
        {"question": "epsilon", "delta": 1e-5, "noise_multiplier": 1.1, "epochs": 60, **SAMPLED},
    ),
    "noise, budget": ("epsilon", {"question": "noise", "epochs": 60, **BUDGET, **SAMPLED}),
    "rate, budget": (
        "epsilon",
        {"question": "rate", "noise_multiplier": 1.1, "dataset_size": 60000, "rounds": 5000, **BUDGET},
    ),
    "rate, epochs": (
        "noise_multiplier",
        {"question": "rate", "noise_multiplier": 1.1, "dataset_size": 60000, "epochs": 60, **BUDGET},
    ),
    **{
        f"rounds, {sampling}": (
            "noise_multiplier",
            {"question": "rounds", "noise_multiplier": 1.1, "sampling": sampling, **BUDGET, **SAMPLED},
        )
        for sampling in ("allocation", "fixed-size", "shuffled")
    },
    "Laplace rounds": (
        "noise_multiplier",
        {"question": "rounds", "mechanism": "laplace", "noise_multiplier": 10, **BUDGET, **SAMPLED},
    ),
    "Laplace noise": ("epsilon", {"question": "noise", "mechanism": "laplace", "epochs": 60, **BUDGET, **SAMPLED}),
    "discrete Gaussian": (
        "noise_multiplier",
        {
            "question": "epsilon",
            "mechanism": "discrete-gaussian",
            "noise_multiplier": 2,
            "delta": 1e-5,
            "epochs": 60,
            **SAMPLED,
        },
    ),
}
# How many moves, the milliseconds between them, and by how many steps of the slider.
WAYS = {"now and then": (8, 1500, 7), "soon again": (10, 300, 7), "drag": (60, 33, 2)}
MOVE = """([field, value]) => {
  const slider = document.getElementById(`${field}-slider`);
  slider.value = value;
  slider.dispatchEvent(new Event("input"));
}"""
TAKEN = """() => {
  const found = ["answer", "settled"].map((name) =>
    performance.getEntriesByName(name).map((each) => [each.duration, each.detail.method]));
  performance.clearMeasures();
  return found;
}"""


def measure(page: Page, field: str) -> str:
    """What one slider does, in one line for all ways."""
    page.wait_for_timeout(2500)
    page.evaluate(TAKEN)
    place = int(float(page.evaluate("(field) => document.getElementById(`${field}-slider`).value", field))) - 60
    columns = []
    for way, (moves, pause, step) in WAYS.items():
        for number in range(moves):
            page.evaluate(MOVE, [field, place + step * number + 3 * len(way)])
            page.wait_for_timeout(pause)
        page.wait_for_timeout(1500)
        answers, settled = page.evaluate(TAKEN)
        taken = [duration for duration, _ in answers]
        late = sum(each > TARGET for each in taken)
        standing_in = sum(method not in ("exact", "optimal") for _, method in answers)
        whole = [duration for duration, _ in settled]
        columns.append(
            f"{statistics.median(taken):4.0f} ms, at most {max(taken):4.0f}"
            f" ({late} of {len(taken)} late, {standing_in} by a bound); all {statistics.median(whole):4.0f} ms"
        )
    return "   ".join(columns)


def main() -> None:
    """Measure all scenes, or those that the arguments name."""
    serve = "from dprounds.web.server import serve; serve(port=0)"
    with subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+/", server.stdout.readline())
        assert address is not None
        print(f"{'from a move to its answer':<22}" + "   ".join(f"{way:<63}" for way in WAYS))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            for name, (field, words) in SCENES.items():
                if len(sys.argv) > 1 and name not in sys.argv[1:]:
                    continue
                page = browser.new_page()
                page.goto(f"{address[0]}?{urlencode(words)}")
                print(f"{name:<22}{measure(page, field)}", flush=True)
                page.close()
            browser.close()
        server.terminate()


if __name__ == "__main__":
    main()
