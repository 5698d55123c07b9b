#!/usr/bin/env python3
"""HTTP clients that send one request after the other on a connection of their own, for
bench_python.py; prints one JSON object.

Plain sockets: the cost of an HTTP library would count as the server's on a machine with
few cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time


class Outcome:
    """What the clients saw together."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.errors: list[str] = []
        self.took_s: list[float] = []


async def answer(reader: asyncio.StreamReader) -> int:
    """Reads one answer whole; its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = next(
        int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length")
    )
    await reader.readexactly(length)
    return int(head.split(" ", 2)[1])


async def client(number: int, options: argparse.Namespace, end: float, outcome: Outcome) -> None:
    """Sends requests until the time is up. Each has a name of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", options.port)
    sent = 0
    try:
        while (begun := time.perf_counter()) < end:
            name = f"{options.prefix}-{number}-{sent}"
            sent += 1
            writer.write(
                f"POST /{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
            )
            status = await answer(reader)
            outcome.took_s.append(time.perf_counter() - begun)
            if status == 200:
                outcome.answered.append(name)
            else:
                outcome.errors.append(f"{name}: status {status}")
    except (OSError, asyncio.IncompleteReadError) as error:
        outcome.errors.append(f"client {number}: {error!r}")
    finally:
        writer.close()


async def run(options: argparse.Namespace) -> Outcome:
    """All clients at the same time."""
    outcome = Outcome()
    end = time.perf_counter() + options.seconds
    await asyncio.gather(
        *(client(number, options, end, outcome) for number in range(options.clients))
    )
    return outcome


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--prefix", default="event", help="of the names that are sent")
    options = parser.parse_args()
    begun = time.perf_counter()
    outcome = asyncio.run(run(options))
    wall_s = time.perf_counter() - begun
    took_us = sorted(took * 1e6 for took in outcome.took_s) or [0.0]
    latency_us = {
        name: took_us[min(int(len(took_us) * share), len(took_us) - 1)]
        for name, share in {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}.items()
    }
    result = {"rows": len(outcome.answered), "wall_s": wall_s, "latency_us": latency_us}
    print(json.dumps({**result, "errors": outcome.errors[:20], "error_count": len(outcome.errors)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
