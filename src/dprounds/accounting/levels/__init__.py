"""Few rounds of a sampled Gaussian, sorted by the size of the largest: each size, a level, has a line of its own.

| file | what it holds |
|---|---|
| `levelled_line.py` | all levels together, and the runs outside of them: brackets of delta |
| `level.py` | one level on its line |
| `one_round.py` | one round in a level: M and what is left of it, with their errors |
| `steps.py` | soft steps, and averages over one round with their errors |
| `by_levels.py` | a way to such lines, for `accounting/ways.py` |
| `plan.py`, `place.py`, `rough_profile.py` | where levels and lines are put; these prove nothing |

docs/theory/levels.md has the proofs.
"""
