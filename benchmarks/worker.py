"""One library in a process of its own: a question a line in, an answer a line out, both JSON.

``python -m benchmarks.worker dp-accounting-pld``. Its first line says what the import cost. Times are of the processor,
on one core, so that other work on the machine does not count; a question that takes more than its limit of them ends
the process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS, Accounting, NotCovered, Part

# What foreign code raises. Anything else ends the process, and the parent says so.
PYTHON_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
# Calls are repeated until so many seconds: the processor's clock may tick in steps of some milliseconds, so that the
# mean over many calls is right where a single short one may read as nothing.
ENOUGH_SECONDS = 0.3
# An answer that takes as long is asked for once: next to it, what a first call loads is little.
SLOW_SECONDS = 2.0
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_megabytes() -> float:
    """The most memory held since `forget_peak`, or since the start where the system cannot forget it."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def forget_peak() -> None:
    """Let the peak start again at what is held now, where the system can (Linux)."""
    if CLEAR.exists():
        CLEAR.write_text("5")


def answer(peer: Accounting, question: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question, what it took, or how it failed."""
    history = [Part(*part) for part in question["history"]]
    ask = peer.epsilon if question["ask"] == "epsilon" else peer.delta
    forget_peak()
    times: list[float] = []
    caught: tuple[type[BaseException], ...] = (*PYTHON_ERRORS, *peer.errors)
    signal.setitimer(signal.ITIMER_PROF, question["limit"])  # when it expires, the process ends
    try:
        while True:
            start = time.process_time()
            value = ask(history, question["value"])
            times.append(time.process_time() - start)
            is_warm = len(times) > 1 or times[0] >= SLOW_SECONDS
            if (is_warm and sum(times) >= ENOUGH_SECONDS) or not question["repeat"]:
                break
    except NotCovered:
        return {"not_covered": True}
    except caught as error:
        own = isinstance(error, peer.errors)
        refused = own or isinstance(error, (AssertionError, TypeError, ValueError))
        return {"error": type(error).__name__, "message": " ".join(str(error).split())[:300], "refused": refused}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    warm = times[1:] or times  # the first one may load modules
    return {
        "value": value,
        "seconds": sum(warm) / len(warm),
        "first_seconds": times[0],
        "peak_megabytes": peak_megabytes(),
    }


def main() -> None:
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print as they search; that must not reach the answers
    warnings.simplefilter("ignore")  # what they deprecate is not ours to mend
    start = time.process_time()
    peer = PEERS[sys.argv[1]]()
    took = time.process_time() - start
    print(json.dumps({"import_seconds": took, "import_megabytes": peak_megabytes()}), file=lines, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(peer, json.loads(line))), file=lines, flush=True)


if __name__ == "__main__":
    main()
