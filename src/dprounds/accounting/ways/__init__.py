"""Where to look: ways to sums that bracket delta, and where their lines and lattices are put.

Nothing here needs to be right. A sum proves its own bracket wherever it is made; a poor choice makes the bracket wide,
or raises. The one exception is that upper ends come from a lattice from above, lower ends from one from below
(`by_lattice`).

| file | what it chooses |
|---|---|
| `choice.py` | which way is tried first |
| `by_sum.py`, `by_events.py`, `by_line.py`, `by_levels.py`, `by_lattice.py` | sums near an epsilon, each in its way |
| `place.py`, `place_levels.py` | where a line stands, its nodes and where it ends; which levels there are |
| `sketch.py`, `rough_profile.py` | which lattice suits; about where epsilon is |
"""
