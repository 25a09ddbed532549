"""Speed, as ratios against peers in one run, because machines are noisy."""

import os

__all__ = ["ONE_CORE"]

# NumPy and PyTorch on one core, so that the processor's time is what an idle machine would take; set before they load.
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.update(ONE_CORE)
