"""Few rounds of a sampled Gaussian, sorted by the size of the largest: each size, a level, has a line of its own.

| file | what it holds |
|---|---|
| `levelled_line.py` | all levels together, and the runs outside of them: brackets of delta |
| `level.py` | one level on its line |
| `one_round.py` | one round in a level: M and what is left of it, with their errors |
| `steps.py` | soft steps, and averages over one round with their errors |
| `plan.py` | which levels there are and where their lines stand, as `accounting/ways/place_levels.py` chooses it |

docs/theory/levels.md has the proofs.
"""
