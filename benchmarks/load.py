"""The page's server under load, on loopback: ``python -m benchmarks.load``.

Three numbers, each of another kind of traffic, because an average of them would say nothing:

- *remembered*: questions that were asked before, as by many readers of one link. What HTTP itself costs.
- *computed*: no question twice, each the exact epsilon of a DP-SGD run. What a core can compute.
- *memory*: 100,000 requests, one in twenty of them new, after a start that fills what fills. What stays behind.

The client is asyncio over plain sockets and runs on the same cores as the server, so that it takes its share of them;
the percentiles include the time in the queue that 32 connections make.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

__all__ = ["main"]

CONNECTIONS = 32
# How many questions are remembered, far fewer than the server can.
KNOWN = 200
# One request in so many is new.
NEW_EVERY = 20
# What may stay behind: allocators keep some, and the cache of answers has room for 16 MB.
MOST_GROWTH_MB = 24.0


@dataclass
class Load:
    """What a load did: seconds of each request, and whatever was not answered."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wall: float = 0.0

    def line(self, name: str) -> str:
        """The load in one line."""
        times = sorted(1e3 * each for each in self.seconds)
        rank = times[min(int(0.99 * len(times)), len(times) - 1)]
        return (
            f"{name:<12}{len(times):>8} requests  {len(times) / self.wall:>8.0f} a second  "
            f"median {statistics.median(times):>7.1f} ms  99th percentile {rank:>7.1f} ms  {len(self.errors)} errors"
        )


def remembered(number: int) -> str:
    """An address from a small set."""
    return "/api/convert?" + urlencode({"order": 2 + number % KNOWN, "rdp": 0.5, "delta": 1e-5})


def new(number: int) -> str:
    """An address that was never asked before."""
    return "/api/convert?" + urlencode({"order": 8, "rdp": 0.5 + number * 1e-7, "delta": 1e-5})


def computed(number: int) -> str:
    """A question that takes the exact accountant some milliseconds, never the same."""
    run = {"noise_multiplier": 1.1 + number * 1e-6, "batch_size": 256, "dataset_size": 60_000, "rounds": 14_062}
    return "/api/epsilon?" + urlencode(run | {"delta": 1e-5, "method": "exact"})


def mixed(number: int) -> str:
    """Mostly remembered, one in twenty new."""
    return remembered(number) if number % NEW_EVERY else new(number)


async def send(host: str, port: int, addresses: Iterator[str], load: Load) -> None:
    """Ask what `addresses` say over one connection, one after the other."""
    reader, writer = await asyncio.open_connection(host, port)
    for address in addresses:
        begun = time.perf_counter()
        writer.write(f"GET {address} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?im)^content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        load.seconds.append(time.perf_counter() - begun)
        if " 200 " not in head.split("\r\n")[0]:
            load.errors.append(f"{head.splitlines()[0]} {body[:200].decode()}")
        else:
            json.loads(body)
    writer.close()
    await writer.wait_closed()


def run(address: str, make: Callable[[int], str], *, requests: int, connections: int, start: int = 1) -> Load:
    """What `requests` of one kind do, numbered from `start`."""
    place = urlsplit(address)
    load = Load()
    addresses = (make(number) for number in range(start, start + requests))

    async def all_at_once() -> None:
        # one iterator for all connections: whoever is free takes the next
        await asyncio.gather(
            *(send(str(place.hostname), int(place.port or 80), addresses, load) for _ in range(connections))
        )

    begun = time.perf_counter()
    asyncio.run(all_at_once())
    load.wall = time.perf_counter() - begun
    return load


def memory(pid: int) -> dict[str, float]:
    """Resident megabytes of the server and of all its workers."""

    def resident(each: int) -> float:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{each}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return {"server": resident(pid), "workers": sum(resident(child) for child in children)}


def main(arguments: list[str] | None = None) -> int:
    """Print the numbers; the exit code is 1 if there were errors, or if memory grew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--requests", type=int, default=100_000, help="of the load that memory is measured by")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    program = f"from dprounds.web.server import serve; serve(port=0, workers={given.workers})"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            assert found is not None
            address = found[0]
            failed = False

            def measure(name: str, make: Callable[[int], str], requests: int) -> None:
                nonlocal failed
                load = run(address, make, requests=requests, connections=given.connections)
                print(load.line(name), *load.errors[:3], sep="\n  ", flush=True)
                failed |= bool(load.errors)

            run(address, remembered, requests=10 * KNOWN, connections=given.connections)
            measure("remembered", remembered, given.requests // 5)
            measure("computed", computed, max(given.requests // 100, 10))
            run(address, mixed, requests=given.requests // 10, connections=given.connections, start=10**7)
            before = memory(server.pid)
            measure("memory", mixed, given.requests)
            after = memory(server.pid)
            for name in before:
                grown = after[name] - before[name]
                print(f"{name}: {before[name]:.1f} MB before, {after[name]:.1f} MB after, {grown:+.1f} MB")
                failed |= grown > MOST_GROWTH_MB
        finally:
            server.terminate()
        failed |= server.wait() != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
