"""Many processes that spend one budget at once; every tenth is killed at a random moment.

``python -m tests.ledger.writers URL WRITERS JOBS FOLDER``: what each writer was told to have is appended to a file.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from dprounds import Gaussian
from dprounds.ledger import BudgetExceededError, Ledger


def write(ledger: Ledger, writer: int, jobs: int, folder: Path) -> None:
    with (folder / f"{writer}.txt").open("a") as told:
        for job in range(jobs):
            key = f"{writer}-{job}"
            try:
                grant = ledger.reserve("data", Gaussian(64.0) * 1, key=key, by=str(writer))
            except BudgetExceededError:
                return
            print("reserved", key, file=told, flush=True)
            if job % 3 == 0:
                grant.commit()
                print("committed", key, file=told, flush=True)


def main(url: str, writers: int, jobs: int, folder: Path) -> None:
    ledger = Ledger(url, timeout=120.0)
    ledger.reserve("data", Gaussian(64.0) * 1, key="first").commit()  # what is loaded now, no child has to load
    children = []
    for writer in range(writers):
        child = os.fork()
        if not child:
            try:
                write(ledger, writer, jobs, folder)
            except BaseException as error:  # noqa: BLE001  (a child must not go on as its parent)
                (folder / f"{writer}.error").write_text(f"{type(error).__name__}: {error}")
                os._exit(1)
            os._exit(0)
        children.append(child)
    dice = random.Random(7)
    for child in children[::10]:
        time.sleep(dice.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
