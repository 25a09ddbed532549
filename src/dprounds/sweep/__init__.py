"""One question asked of every setting of a grid, by every method: a table, on one machine or on a cluster.

>>> grid = grid_from_toml('''
... question = "rounds"
... methods = ["moments", "exact"]
... [grid]
... noise_multiplier = [10, 20]
... epsilon = 6
... delta = 1e-5
... ''')
>>> len(grid), grid.columns
(4, ('noise_multiplier', 'epsilon', 'delta', 'method', 'rounds', 'reached_epsilon', 'error'))
"""

from dprounds.sweep.grid import Grid, grid_from_file, grid_from_toml
from dprounds.sweep.journal import SweepError
from dprounds.sweep.run import Summary, run_sweep

__all__ = ["Grid", "Summary", "SweepError", "grid_from_file", "grid_from_toml", "run_sweep"]
