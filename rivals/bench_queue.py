#!/usr/bin/env python3
"""The whole cycle of a job (push, claim, acknowledge) by 64 clients with single-job
calls: Leafpress's Queue beside queues on SQLite from PyPI.

Writes the JSON of every Leafpress experiment: machine, settings, rungs, ratios
("how many times more cycles a second than the rival", median of interleaved pairs).
What cannot be measured here is named under "unavailable", with the reason.

Every run is a process of its own, which times its clients from the first push to the
last answer and checks that each job pushed was claimed once; ours is the very rung of
`leafpress bench queue`. Whether threads or several processes are a peer's better way is
measured too, and the better one counts.

Needs the standard library only. The peers (see requirements.txt) are taken from the
interpreter that runs this script.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench_rivals import BenchError, Unavailable, argument_parser, carried_out, finish, machine, need, say

CLIENTS = 64

# For a peer that works in several processes: twice the cores, and no more than this, as
# each is an interpreter of its own.
PROCESSES_MAX = 8

# Seconds without work before each run, after everything is synced.
REST_S = 0.1

# What SQLite's settings promise, in our words.
SAFETY = {("wal", 2): "durable", ("wal", 3): "durable", ("wal", 1): "relaxed"}

LESS_DURABLE = "less durable than ours: a power cut may take the last acknowledged jobs"
NO_ACKNOWLEDGEMENT = "has no acknowledgement: a job is deleted when it is claimed"


@dataclass(frozen=True)
class Peer:
    """A queue of queue_peers.py, and how it may be used."""

    ratio: str
    package: str
    module: str
    name: str
    takes_processes: bool
    note: str | None = None
    # Whether it runs as its documentation says.
    is_default: bool = True


PEERS = [
    Peer("litequeue", "litequeue", "litequeue", "litequeue", True),
    Peer("litequeue_full", "litequeue", "litequeue", "litequeue-full", True, is_default=False),
    Peer("huey", "huey", "huey", "huey-tasks", True, NO_ACKNOWLEDGEMENT),
    Peer("huey_storage", "huey", "huey", "huey-storage", True, NO_ACKNOWLEDGEMENT),
    Peer("persist_queue", "persist-queue", "persistqueue", "persist-queue", False),
]

# Of all peers as their documentation says; ours durable whatever they are. Then the same
# with no rival less durable, and with ours relaxed.
BEST = "cycle64_vs_peers"
BEST_DURABLE = "cycle64_vs_durable_peers"
BEST_RELAXED = "relaxed_cycle64_vs_peers"


def ratio_name(peer: Peer) -> str:
    """The ratio of ours, durable, to this peer."""
    return f"cycle64_vs_{peer.ratio}"


RATIOS = [BEST, BEST_DURABLE, BEST_RELAXED, *(ratio_name(peer) for peer in PEERS)]


@dataclass
class Rung:
    """One queue used in one way."""

    name: str
    command: list[str]
    note: str | None = None
    results: list[dict] = field(default_factory=list)

    def per_second(self) -> list[float]:
        """Cycles a second of each run."""
        return [result["cycles"] / result["wall_s"] for result in self.results]

    def safety(self) -> str:
        """What its own settings promise."""
        last = self.results[-1]
        return last.get("safety") or SAFETY.get(
            (last["journal_mode"], last["synchronous"]), "rebuildable"
        )

    def report(self) -> dict:
        """The rung as the report has it."""
        last = self.results[-1]

        def median(name: str) -> float:
            return statistics.median(result[name] for result in self.results)

        notes = [self.note, LESS_DURABLE if self.safety() != "durable" else None]
        note = "; ".join(note for note in notes if note)
        return {
            "name": self.name,
            "safety": self.safety(),
            "median_s": median("wall_s"),
            "runs_s": [result["wall_s"] for result in self.results],
            "per_second": statistics.median(self.per_second()),
            "rows": round(median("cycles")),
            **{name: last[name] for name in ("journal_mode", "synchronous") if name in last},
            **({"note": note} if note else {}),
        }


# --- ours and the peers ---------------------------------------------------------------------


def ours(leafpress: str, safety: str, options: argparse.Namespace, folder: Path) -> Rung:
    """The rung of `leafpress bench queue`, run alone."""
    cycle = {
        "by": "leafpress",
        "part": "cycle",
        "safety": safety,
        "clients": CLIENTS,
        "batch": 1,
        "jobs": 10_000_000,
        "milliseconds_max": round(options.seconds * 1000),
    }
    request = {"kind": {"queue": {"cycle": cycle}}, "database": str(folder / "queue.db")}
    command = [leafpress, "bench", "--rung", json.dumps(request)]
    return Rung(f"leafpress, {safety}, {CLIENTS} threads", command)


def ways_of(peer: Peer, options: argparse.Namespace, folder: Path) -> list[Rung]:
    """The peer with all clients in one process, and in several where it works so."""
    need(peer.module, peer.package)
    processes = [1]
    if peer.takes_processes:
        processes.append(min(2 * (os.cpu_count() or 1), PROCESSES_MAX))
    script = Path(__file__).with_name("queue_peers.py")
    rungs = []
    for count in processes:
        arguments = ["--clients", str(CLIENTS), "--processes", str(count)]
        command = [sys.executable, str(script), peer.name, str(folder), *arguments]
        command += ["--seconds", str(options.seconds)]
        way = f"{CLIENTS} threads" if count == 1 else f"{CLIENTS} threads in {count} processes"
        rungs.append(Rung(f"{peer.name} {version(peer.package)}, {way}", command, peer.note))
    return rungs


# --- running --------------------------------------------------------------------------------


def run_once(rung: Rung, folder: Path) -> dict:
    """Runs a rung to its end and removes what it left; its answer."""
    os.sync()
    time.sleep(REST_S)
    done = subprocess.run(rung.command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{rung.name} ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    result = json.loads(done.stdout)
    if "rows" in result:
        # Ours: its rows are cycles, and its settings are those of its profile.
        result["cycles"] = result.pop("rows")
        result["safety"] = rung.name.split(", ")[1]
    for leftover in sorted(folder.rglob("*"), reverse=True):
        leftover.rmdir() if leftover.is_dir() else leftover.unlink()
    return result


def better_of(rungs: list[Rung]) -> list[float]:
    """Cycles a second of each round, by whichever way was better in it."""
    return [max(ways) for ways in zip(*(rung.per_second() for rung in rungs), strict=True)]


def ratio(mine: Rung, rivals: list[Rung]) -> dict:
    """How many times more cycles a second than the best of the rivals."""
    pairs = [a / b for a, b in zip(mine.per_second(), better_of(rivals), strict=True)]
    return {"value": statistics.median(pairs), "min": min(pairs), "max": max(pairs)}


def ratios(durable: Rung, relaxed: Rung, ways: dict[Peer, list[Rung]]) -> dict:
    """All ratios of the peers that are here."""
    of_default = [rung for peer, rungs in ways.items() if peer.is_default for rung in rungs]
    all_rungs = [rung for rungs in ways.values() for rung in rungs]
    of_durable = [rung for rung in all_rungs if rung.safety() == "durable"]
    found = {}
    if of_default:
        found[BEST] = ratio(durable, of_default)
        found[BEST_RELAXED] = ratio(relaxed, of_default)
    if of_durable:
        found[BEST_DURABLE] = ratio(durable, of_durable)
    found.update({ratio_name(peer): ratio(durable, rungs) for peer, rungs in ways.items()})
    return found


def run_all(options: argparse.Namespace) -> dict:
    """The whole experiment."""
    report = {
        "experiment": "queue-rivals",
        "version": 1,
        "machine": machine(options.dir),
        "settings": {
            "repeats": options.repeats,
            "seconds": options.seconds,
            "clients": CLIENTS,
            "quick": options.quick,
            "order": "interleaved: each round runs every queue once",
            "between_runs": "everything is synced, then a tenth of a second of rest",
            "time": "from the first push to the last answer, in a process of its own",
            "checked": "each job that was pushed was claimed once, and nothing is left",
            "peers": "with their default settings, but a longer wait for locks",
            "python_sqlite": sqlite3.sqlite_version,
        },
        "rungs": [],
        "ratios": {},
        "unavailable": {},
    }
    with tempfile.TemporaryDirectory(prefix="leafpress-queues-", dir=options.dir) as name:
        folder = Path(name).resolve()
        ways: dict[Peer, list[Rung]] = {}
        for peer in PEERS:
            try:
                ways[peer] = ways_of(peer, options, folder)
            except Unavailable as reason:
                report["unavailable"][ratio_name(peer)] = str(reason)
        durable = ours(options.leafpress, "durable", options, folder)
        relaxed = ours(options.leafpress, "relaxed", options, folder)
        rungs = [durable, relaxed, *(rung for rungs in ways.values() for rung in rungs)]
        for round_index in range(options.repeats):
            for rung in rungs:
                rung.results.append(run_once(rung, folder))
                rate = rung.per_second()[-1]
                say(f"{rung.name}: {rate:.0f} cycles/s (round {round_index + 1} of {options.repeats})")
    report["rungs"] = [rung.report() for rung in rungs]
    wanted = options.only or RATIOS
    found = ratios(durable, relaxed, ways)
    report["ratios"] = {name: value for name, value in found.items() if name in wanted}
    if not report["unavailable"]:
        del report["unavailable"]
    return report


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argument_parser(__doc__.split("\n\n")[0], RATIOS)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    options = parser.parse_args()
    if options.quick:
        options.seconds = min(options.seconds, 0.3)
        options.repeats = min(options.repeats, 2)
    options.repeats = max(options.repeats, 1)
    return options


def main() -> int:
    """Runs the experiment, prints the ratios, writes the report."""
    options = parse_arguments()
    report = carried_out(run_all, options)
    if report is None:
        return 3
    for rung in report["rungs"]:
        say(f"{rung['name']}, {rung['safety']}: {rung['per_second']:.0f} cycles/s")
    finish(report, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
