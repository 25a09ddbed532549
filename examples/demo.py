"""The title question, for the paper's Gaussian and for an MNIST-size DP-SGD run; the paper's figures as pictures."""

from __future__ import annotations

from pathlib import Path

from dprounds import Gaussian, PoissonSampled, max_rounds, paper, plots
from dprounds.mechanisms import Release

METHODS = ("moments", "balle", "closed-form", "optimal", "exact")
FIGURES = Path("figures")


def ask(title: str, step: Release, *, epsilon: float, delta: float) -> None:
    """Print how many rounds each method allows, and the answer in one sentence."""
    print(f"\n{title}\n  step {step!r}, budget ε = {epsilon:g}, δ = {delta:g}")
    print(f"  {'method':<12} {'rounds':>10} {'more than the moments accountant':>34}")
    rounds = {method: max_rounds(step, epsilon=epsilon, delta=delta, method=method) for method in METHODS}
    for method, allowed in rounds.items():
        more = allowed - rounds["moments"]
        gain = f"{more:+,} ({more / rounds['moments']:+.0%})" if more else ""
        print(f"  {method:<12} {allowed:>10,} {gain:>34}")
    print(f"  You may train {rounds['exact']:,} rounds, not one more; today's libraries stop at {rounds['balle']:,}.")


def main() -> None:
    print("How many rounds may I train?")
    ask("The paper's Gaussian", Gaussian(20.0), epsilon=6.0, delta=1e-5)
    ask("DP-SGD on 60,000 images, batches of 256", PoissonSampled(Gaussian(1.1), 256 / 60_000), epsilon=3.0, delta=1e-5)

    print("\nThe paper's claims, recomputed")
    for claim in paper.claims():
        print(
            f"  {claim.what}\n    paper: {claim.paper}; ours: {claim.ours}; agrees: {'yes' if claim.agrees else 'NO'}"
        )

    FIGURES.mkdir(exist_ok=True)
    figures = {
        "figure-1": plots.figure_1(paper.figure_1()),
        "figure-2": plots.rounds_figure(paper.figure_2()),
        "figure-3": plots.rounds_figure(paper.figure_3()),
    }
    print()
    for name, figure in figures.items():
        path = FIGURES / f"{name}.png"
        figure.savefig(path)
        print(f"  wrote {path}")


if __name__ == "__main__":
    main()
