#!/usr/bin/env python3
"""Leafpress from Python beside what people use there: data frames into a table, durable rows
of many asyncio tasks and of a web server, jobs of a queue.

Writes the JSON of every Leafpress experiment: machine, settings, rungs, ratios ("how many
times faster than the rival, by row", median of interleaved pairs). What cannot be measured
here is named under "unavailable", with the reason.

Every run is a process of its own (python_peers.py), which times the work alone: packages are
imported and the frame is in memory before. After each load the rows are counted and summed up
with SQLite. Slow rivals get fewer rows; rates are compared.

Needs the standard library only. Leafpress and the rivals (see requirements.txt) are taken from
the interpreter that runs this script.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench_rivals import BenchError, Unavailable, carried_out, finish, machine, need, say

HERE = Path(__file__).resolve().parent
TABLE = "data"

# Dates by their day: some tools store the midnight too.
SUMS = f"""SELECT count(*), total(id), total(quantity), total(price), total(latitude),
    total(length(name)), total(length(city)), total(length(note)), count(note),
    min(substr(day, 1, 10)), max(substr(day, 1, 10)), count(DISTINCT substr(day, 1, 10))
    FROM {TABLE}"""

# Sums of reals depend on the order of the rows.
RELATIVE_TOLERANCE = 1e-9

# Seconds without work before each run, after everything is synced.
REST_S = 0.1
SERVER_START_S = 60
WORKERS = 4
CLIENTS = 64


@dataclass
class Rung:
    """One way to do one piece of work."""

    name: str
    way: str
    safety: str
    rows: int | None = None
    needs: tuple[tuple[str, str], ...] = ()
    note: str | None = None
    arguments: tuple[str, ...] = ()
    run: Callable[[Rung, argparse.Namespace, Path], dict] = lambda *given: run_peer(*given)
    results: list[dict] = field(default_factory=list)

    def per_second(self) -> list[float]:
        """Rows, requests or jobs a second of each run."""
        return [result["rows"] / result["wall_s"] for result in self.results]

    def report(self) -> dict:
        """The rung as the report has it."""

        def median(name: str) -> float:
            return statistics.median(result[name] for result in self.results)

        last = self.results[-1]
        report = {
            "name": self.name,
            "safety": self.safety,
            "median_s": median("wall_s"),
            "runs_s": [result["wall_s"] for result in self.results],
            "per_second": statistics.median(self.per_second()),
            "rows": round(median("rows")),
        }
        for name in ("cpu_s", "peak_mb", "extra_mb", "cpu_us_per_call"):
            if name in last:
                report[name] = median(name)
        for name in ("latency_us", "error_count"):
            if name in last:
                report[name] = last[name]
        return {**report, **({"note": self.note} if self.note else {})}


# --- one run --------------------------------------------------------------------------------


def run_script(script: str, arguments: list[str]) -> dict:
    """The JSON that a script of this folder prints."""
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{script} {arguments[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def run_peer(rung: Rung, options: argparse.Namespace, folder: Path) -> dict:
    """A run of python_peers.py."""
    database = folder / "new.db"
    rows = rung.rows or options.rows
    arguments = [rung.way, str(database), "--rows", str(rows), "--seconds", str(options.seconds)]
    source = ["--source", str(folder / "rows.arrow")]
    result = run_script("python_peers.py", [*arguments, *source, *rung.arguments])
    if rung.way.startswith(("tasks-", "caller-", "relaxed-caller-", "steps-")):
        check_events(rung, database, result["rows"])
    return result


def check_events(rung: Rung, database: Path, rows: int) -> None:
    """Fails unless each row that was answered is there."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT count(*) FROM event").fetchone()[0]
    if found < rows:
        raise BenchError(f"{rung.name} answered {rows} rows and left {found}")


def run_load(rung: Rung, options: argparse.Namespace, folder: Path) -> dict:
    """A load, after which the rows must be there."""
    result = run_peer(rung, options, folder)
    with closing(sqlite3.connect(folder / "new.db")) as connection:
        found = connection.execute(SUMS).fetchone()
    expected = options.expected.setdefault(result["rows"], found)
    for one, other in zip(found, expected, strict=True):
        same = one == other if isinstance(one, str) else math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE)
        if not same or found[0] != result["rows"]:
            raise BenchError(f"{rung.name} left {found}, expected {expected}")
    return result


def run_queue_peer(rung: Rung, options: argparse.Namespace, folder: Path) -> dict:
    """A queue of queue_peers.py: whole cycles until the time is up."""
    arguments = [rung.way, str(folder), "--clients", str(options.workers), "--seconds", str(options.seconds)]
    result = run_script("queue_peers.py", arguments)
    if result["synchronous"] < 2:
        raise BenchError(f"{rung.name} is less durable than ours: synchronous={result['synchronous']}")
    return {"rows": result["cycles"], "wall_s": result["wall_s"]}


def run_server(rung: Rung, options: argparse.Namespace, folder: Path) -> dict:
    """A web server with four worker processes, and its clients."""
    database = folder / "new.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE event(id INTEGER PRIMARY KEY, what TEXT)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "BENCH_DATABASE": str(database), "BENCH_WAY": rung.way}
    command = [sys.executable, "-m", "gunicorn", "python_server:app", "--workers", str(WORKERS)]
    command += ["--worker-class", "uvicorn_worker.UvicornWorker", "--bind", f"127.0.0.1:{port}"]
    command += ["--chdir", str(HERE), "--log-level", "warning"]
    with tempfile.TemporaryFile() as said:
        server = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        try:
            await_port(server, port, said)
            clients = ["--clients", str(CLIENTS), "--seconds", str(options.seconds)]
            # The first requests of each worker open its connections.
            run_script("python_clients.py", [str(port), "--seconds", "0.5", "--prefix", "warm-up"])
            result = run_script("python_clients.py", [str(port), *clients])
        finally:
            server.terminate()
            server.wait(SERVER_START_S)
    if result["error_count"] and rung.way == "leafpress":
        raise BenchError(f"{rung.name}: {result['error_count']} errors, such as {result['errors'][0]}")
    check_events(rung, database, result["rows"])
    return result


def await_port(server: subprocess.Popen, port: int, said) -> None:
    """Waits until the server takes connections."""
    end = time.monotonic() + SERVER_START_S
    while time.monotonic() < end:
        if server.poll() is not None:
            said.seek(0)
            raise BenchError(f"gunicorn ended: {said.read().decode(errors='replace')[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise BenchError(f"gunicorn did not answer within {SERVER_START_S} s")


# --- the work -------------------------------------------------------------------------------


@dataclass
class Group:
    """Rungs that do the same work: ours, and the rivals by the names of their ratios. Others of
    ours run beside them."""

    ours: Rung
    rivals: dict[str, Rung]
    others: list[Rung] = field(default_factory=list)


POLARS, PANDAS = ("polars", "polars"), ("pandas", "pandas")
LEAFPRESS = ("leafpress", "leafpress")


def duckdb_extension() -> str:
    """The path of DuckDB's extension for SQLite, or why it is not there."""
    package = "duckdb_extension_sqlite_scanner"
    need("duckdb", "DuckDB")
    need(package, "duckdb-extension-sqlite-scanner")
    folder = Path(importlib.util.find_spec(package).origin).parent / "extensions"
    path = folder / f"v{version('duckdb')}" / "sqlite_scanner.duckdb_extension"
    if not path.exists():
        raise Unavailable(f"the package {package} has no extension for DuckDB {version('duckdb')}")
    return str(path)


def load(name: str, way: str, safety: str, *needs: tuple[str, str], rows: int | None = None) -> Rung:
    """A rung that loads a frame."""
    return Rung(name, way, safety, rows, (POLARS, *needs), run=run_load)


def groups(options: argparse.Namespace) -> list[Group]:
    """What is compared with what."""
    few = min(options.small_rows, options.rows)
    duckdb = load("DuckDB's SQLite extension", "duckdb", "rollback", ("pyarrow", "pyarrow"))
    try:
        duckdb.arguments = ("--extension", duckdb_extension())
    except Unavailable as reason:
        duckdb.needs = (("", str(reason)),)
    alchemy = ("sqlalchemy", "SQLAlchemy")
    return [
        Group(
            load("leafpress.load, a pandas frame", "load-pandas", "durable", LEAFPRESS, PANDAS),
            {
                "pandas": load("pandas to_sql", "to-sql", "rollback", PANDAS, rows=few),
                "pandas_multi": load("pandas to_sql, method=multi", "to-sql-multi", "rollback", PANDAS, rows=few),
            },
        ),
        Group(
            load("leafpress.load, a polars frame", "load-polars", "durable", LEAFPRESS),
            {
                "polars": load("polars write_database", "write-database", "rollback", PANDAS, alchemy, rows=few),
                "adbc": load("adbc_ingest", "adbc", "rollback", ("adbc_driver_sqlite", "adbc-driver-sqlite")),
                "sqlite_utils": load(
                    "sqlite-utils insert_all", "sqlite-utils", "rollback", ("sqlite_utils", "sqlite-utils"), rows=few
                ),
                "executemany": load("sqlite3 executemany, one transaction, no journal, no sync", "executemany", "rebuildable"),
                "duckdb": duckdb,
            },
        ),
        tasks_group(),
        *caller_groups(),
        server_group(),
        jobs_group(options),
    ]


def tasks_group() -> Group:
    """Durable rows of 500 tasks; and what a call costs at 512 in flight."""
    mixed = "not the same promise: a commit or rollback is of the other tasks' rows too"
    needs = (("aiosqlite", "aiosqlite"),)
    return Group(
        Rung("AsyncWriter, 500 tasks", "tasks-leafpress", "durable", needs=(LEAFPRESS,)),
        {
            "aiosqlite": Rung("aiosqlite, 500 tasks, a commit each", "tasks-aiosqlite", "durable", needs=needs),
            "aiosqlite_mixed": Rung(
                "aiosqlite, 500 tasks in one transaction", "tasks-aiosqlite-mixed", "durable", needs=needs, note=mixed
            ),
        },
        [Rung("AsyncWriter, 512 tasks", "tasks-leafpress", "durable", arguments=("--tasks", "512"))],
    )


def caller_groups() -> list[Group]:
    """Rows of one caller, which is the main thread."""

    def group(ratio: str, way: str, what: str, safety: str) -> Group:
        ours = Rung(f"Writer, {what}", f"{way}-leafpress", safety, needs=(LEAFPRESS,))
        return Group(ours, {ratio: Rung(f"sqlite3, {what}", f"{way}-sqlite3", safety)})

    return [
        group("caller", "caller", "one caller, a transaction a row", "durable"),
        group("relaxed_caller", "relaxed-caller", "one caller, a transaction a row, relaxed", "relaxed"),
        group("steps", "steps", "1,000 statements a transaction", "durable"),
    ]


def server_group() -> Group:
    """Requests to a web server."""
    needs = (("fastapi", "FastAPI"), ("gunicorn", "gunicorn"), ("uvicorn_worker", "uvicorn-worker"))

    def rung(name: str, way: str, *more: tuple[str, str]) -> Rung:
        return Rung(f"FastAPI, {WORKERS} workers, {name}", way, "durable", needs=(*needs, *more), run=run_server)

    return Group(
        rung("shared AsyncWriter", "leafpress", LEAFPRESS),
        {
            "fastapi": rung("sqlite3 in FastAPI's threads", "sqlite3-threads"),
            "fastapi_blocking": rung("sqlite3 in the event loop", "sqlite3-loop"),
        },
    )


def jobs_group(options: argparse.Namespace) -> Group:
    """Jobs of a queue, pushed, claimed and acknowledged."""

    def peer(name: str, way: str, module: str) -> Rung:
        return Rung(name, way, "durable", needs=((module, name),), run=run_queue_peer)

    arguments = ("--workers", str(options.workers))
    ours = Rung("Queue, 8 workers", "jobs-leafpress", "durable", options.jobs, (LEAFPRESS,), arguments=arguments)
    return Group(
        ours,
        {
            "huey": peer("huey", "huey-tasks", "huey"),
            "litequeue": peer("litequeue, synchronous=FULL", "litequeue-full", "litequeue"),
            "persist_queue": peer("persist-queue", "persist-queue", "persistqueue"),
        },
    )


RATIOS = [
    *("pandas", "pandas_multi", "polars", "adbc", "sqlite_utils", "executemany", "duckdb"),
    *("aiosqlite", "aiosqlite_mixed", "caller", "relaxed_caller", "steps", "fastapi", "fastapi_blocking"),
    *("huey", "litequeue", "persist_queue"),
]


# --- the run --------------------------------------------------------------------------------


def look_for(rung: Rung) -> None:
    """Fails unless what the rung needs is installed."""
    for module, package in rung.needs:
        if not module:
            raise Unavailable(package)
        need(module, package)


def run_once(rung: Rung, options: argparse.Namespace, folder: Path) -> None:
    """Runs a rung to its end, and removes what it left but the rows."""
    os.sync()
    time.sleep(REST_S)
    result = rung.run(rung, options, folder)
    if rung.way == "tasks-leafpress":
        result["cpu_us_per_call"] = result["main_thread_cpu_s"] * 1e6 / result["rows"]
    rung.results.append(result)
    for leftover in folder.iterdir():
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover.name != "rows.arrow":
            leftover.unlink()


def run_group(group: Group, options: argparse.Namespace, folder: Path, report: dict) -> None:
    """Runs ours and the wanted rivals, and adds what came out."""
    rivals = {}
    for name in (name for name in group.rivals if not options.only or name in options.only):
        try:
            look_for(group.ours)
            look_for(group.rivals[name])
            rivals[name] = group.rivals[name]
        except Unavailable as reason:
            report["unavailable"][name] = str(reason)
            say(f"{name}: unavailable, {reason}")
    rungs = [group.ours, *rivals.values(), *group.others] if rivals else []
    for round_index in range(options.repeats):
        for rung in rungs:
            run_once(rung, options, folder)
            rate = rung.per_second()[-1]
            say(f"{rung.name}: {rate:,.0f} a second (round {round_index + 1} of {options.repeats})")
    report["rungs"] += [rung.report() for rung in rungs]
    for name, rival in rivals.items():
        pairs = [a / b for a, b in zip(group.ours.per_second(), rival.per_second(), strict=True)]
        report["ratios"][name] = {"value": statistics.median(pairs), "min": min(pairs), "max": max(pairs)}


def run_all(options: argparse.Namespace) -> dict:
    """The whole experiment."""
    report = {
        "experiment": "python",
        "version": 1,
        "machine": machine(options.dir),
        "settings": {
            **{name: getattr(options, name) for name in ("repeats", "rows", "small_rows", "seconds", "jobs")},
            "small_for": ["pandas", "pandas_multi", "polars", "sqlite_utils"],
            "quick": options.quick,
            "order": "interleaved: each round runs every way once",
            "time": "of the work alone; packages are imported and the frame is in memory before",
            "peak_mb": "with the frame, the interpreter and the packages",
            "extra_mb": "peak memory of the process during the load, beyond what it had before it",
            "cpu_us_per_call": "processor time of the event loop's thread, with the loop of the task",
            "python": sys.version.split()[0],
            "python_sqlite": sqlite3.sqlite_version,
        },
        "rungs": [],
        "ratios": {},
        "unavailable": {},
    }
    with tempfile.TemporaryDirectory(prefix="leafpress-python-", dir=options.dir) as name:
        folder = Path(name).resolve()
        source = ["make", str(folder / "new.db"), "--rows", str(options.rows)]
        loads = {"pandas", "pandas_multi", "polars", "adbc", "sqlite_utils", "executemany", "duckdb"}
        if not options.only or loads & set(options.only):
            try:
                need("polars", "polars")
                run_script("python_peers.py", [*source, "--source", str(folder / "rows.arrow")])
            except Unavailable:
                pass
        for group in groups(options):
            run_group(group, options, folder, report)
    if not report["unavailable"]:
        del report["unavailable"]
    return report


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--dir", type=Path, default=Path("."), help="the disk to be measured")
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--only", action="append", choices=RATIOS, help="only this ratio")
    parser.add_argument("--quick", action="store_true", help="see that it works, in a minute")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the frame")
    parser.add_argument("--small-rows", type=int, default=500_000, help="for slow rivals")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run of tasks, clients or cycles")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="for our queue")
    parser.add_argument("--workers", type=int, default=8, help="of a queue")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.small_rows = min(options.rows, 10_000), min(options.small_rows, 1_000)
        options.seconds, options.jobs = min(options.seconds, 0.3), min(options.jobs, 2_000)
        options.repeats = min(options.repeats, 2)
    options.repeats = max(options.repeats, 1)
    options.expected = {}
    return options


def main() -> int:
    """Runs the experiment, prints the ratios, writes the report."""
    options = parse_arguments()
    report = carried_out(run_all, options)
    if report is None:
        return 3
    finish(report, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
