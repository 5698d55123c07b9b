#!/usr/bin/env python3
"""One run of one way to write to SQLite from Python: a frame into a table, rows of many
asyncio tasks, jobs of a queue.

Started by bench_python.py in a process of its own, prints one JSON object. Only the work is
timed: the frame is in memory before, and the packages are imported.

Each rival is used as its documentation says. Where its settings are changed, the comment
says why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

TABLE = "data"
COLUMNS = ["id", "quantity", "price", "latitude", "name", "city", "note", "day"]
CREATE = (
    f"CREATE TABLE {TABLE}(id INTEGER, quantity INTEGER, price REAL, latitude REAL, "
    "name TEXT, city TEXT, note TEXT, day TEXT)"
)
INSERT = f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(COLUMNS))})"

EVENTS = "CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY, what TEXT)"
EVENT = "INSERT INTO event(what) VALUES (?)"

# Seconds that a connection waits for another one's lock.
LOCK_TIMEOUT_S = 60


class Measured:
    """Wall time, processor time and memory of what runs inside `with`."""

    def __enter__(self) -> Measured:
        # Linux forgets the peak of memory here, so that making the frame does not count.
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            pass
        self.before_mb = memory_mb("VmRSS")
        self.cpu_s = time.process_time()
        self.thread_s = time.thread_time()
        self.wall_s = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self.wall_s
        self.thread_s = time.thread_time() - self.thread_s
        self.cpu_s = time.process_time() - self.cpu_s
        self.peak_mb = memory_mb("VmHWM")

    def result(self, rows: int) -> dict:
        """What bench_python.py reads."""
        return {
            "rows": rows,
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "main_thread_cpu_s": self.thread_s,
            "peak_mb": self.peak_mb,
            "extra_mb": self.peak_mb - self.before_mb,
        }


def memory_mb(name: str) -> float:
    """A line of /proc/self/status, in MB; NaN where the system has no such file."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


# --- a frame into a table -------------------------------------------------------------------


def make(options: argparse.Namespace) -> dict:
    """Makes the rows, the same ones each time: two columns each of integers and reals, three of
    text, one of dates."""
    from datetime import date

    import numpy
    import polars

    rows = options.rows
    random = numpy.random.default_rng(20)
    cities = polars.Series([f"{word} {number}" for word in ("New", "Old", "Bad") for number in range(300)])
    frame = polars.DataFrame(
        {
            "id": numpy.arange(1, rows + 1),
            "quantity": random.integers(0, 1_000, rows),
            "price": random.uniform(0, 1_000, rows).round(2),
            "latitude": random.uniform(-90, 90, rows),
            "name": random.integers(0, 10**9, rows),
            "city": cities.gather(random.integers(0, len(cities), rows)),
            "note": random.integers(0, 2**62, rows),
            "day": random.integers(0, 20_000, rows),
        }
    )
    day = polars.lit(date(1970, 1, 1)) + polars.duration(days="day")
    note = polars.when(polars.col("note") % 10 > 0).then(polars.format("a note, {}", "note"))
    name = polars.format("person {}", "name")
    frame.with_columns(name=name, note=note, day=day).write_ipc(options.source)
    return {"rows": rows}


def polars_frame(options: argparse.Namespace):
    """The rows as a polars frame, all of them in memory."""
    import polars

    # Through a file object it is read, not mapped.
    with open(options.source, "rb") as source:
        return polars.read_ipc(source, n_rows=options.rows).rechunk()


def pandas_frame(options: argparse.Namespace):
    """The rows as a pandas frame, with pandas' own types."""
    return polars_frame(options).to_pandas()


def load_polars(options: argparse.Namespace) -> dict:
    """Leafpress, a polars frame."""
    import leafpress

    frame = polars_frame(options)
    with Measured() as measured:
        leafpress.load(options.database, frame, table=TABLE)
    return measured.result(len(frame))


def load_pandas(options: argparse.Namespace) -> dict:
    """Leafpress, a pandas frame."""
    import leafpress

    frame = pandas_frame(options)
    with Measured() as measured:
        leafpress.load(options.database, frame, table=TABLE)
    return measured.result(len(frame))


def to_sql(options: argparse.Namespace, **how: object) -> dict:
    """`DataFrame.to_sql` of pandas through the standard library's `sqlite3`."""
    frame = pandas_frame(options)
    with Measured() as measured:
        connection = sqlite3.connect(options.database)
        frame.to_sql(TABLE, connection, index=False, **how)
        connection.commit()
        connection.close()
    return measured.result(len(frame))


def to_sql_multi(options: argparse.Namespace) -> dict:
    """The same with `method="multi"`, as many rows a statement as SQLite takes variables."""
    return to_sql(options, method="multi", chunksize=32_766 // len(COLUMNS))


def write_database(options: argparse.Namespace) -> dict:
    """`DataFrame.write_database` of polars, whose default is pandas and SQLAlchemy."""
    frame = polars_frame(options)
    import pandas  # Outside of the time.
    import sqlalchemy

    with Measured() as measured:
        frame.write_database(TABLE, f"sqlite:///{options.database}")
    return measured.result(len(frame))


def adbc(options: argparse.Namespace) -> dict:
    """`adbc_ingest`, with the driver's own settings, in one transaction."""
    import adbc_driver_sqlite.dbapi

    table = polars_frame(options).to_arrow()
    with Measured() as measured:
        with adbc_driver_sqlite.dbapi.connect(options.database) as connection:
            with connection.cursor() as cursor:
                cursor.adbc_ingest(TABLE, table, mode="create")
            connection.commit()
    return measured.result(len(table))


def sqlite_utils(options: argparse.Namespace) -> dict:
    """`insert_all` of sqlite-utils, which takes dicts."""
    from sqlite_utils import Database

    frame = polars_frame(options)
    with Measured() as measured:
        database = Database(options.database)
        database[TABLE].insert_all(frame.iter_rows(named=True))
        database.close()
    return measured.result(len(frame))


def executemany(options: argparse.Namespace) -> dict:
    """`executemany` in one transaction, without a journal and without a sync."""
    import polars

    frame = polars_frame(options)
    with Measured() as measured:
        rows = frame.with_columns(polars.col("day").cast(polars.String)).iter_rows()
        connection = sqlite3.connect(options.database)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(CREATE)
        connection.executemany(INSERT, rows)
        connection.commit()
        connection.close()
    return measured.result(len(frame))


def duckdb_sqlite(options: argparse.Namespace) -> dict:
    """`CREATE TABLE … AS` through DuckDB's extension for SQLite."""
    import duckdb

    rows = polars_frame(options).to_arrow()
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.execute(f"LOAD '{options.extension}'")
    with Measured() as measured:
        connection.execute(f"ATTACH '{options.database}' AS target (TYPE sqlite)")
        connection.execute(f"CREATE TABLE target.{TABLE} AS FROM rows")
        connection.close()
    return measured.result(len(rows))


# --- rows of many tasks ---------------------------------------------------------------------


async def rows_of_tasks(options: argparse.Namespace, write: Callable, measured: Measured) -> dict:
    """So many tasks write one row after the other until the time is up."""
    count = 0
    end = time.perf_counter() + options.seconds

    async def task(number: int) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await write(f"task {number}")
            count += 1

    with measured:
        await asyncio.gather(*(task(number) for number in range(options.tasks)))
    return measured.result(count)


def tasks_leafpress(options: argparse.Namespace) -> dict:
    """`AsyncWriter`: each row is a durable transaction of its own."""
    import leafpress

    async def run() -> dict:
        async with leafpress.AsyncWriter(options.database) as writer:
            await writer.execute(EVENTS)
            return await rows_of_tasks(
                options, lambda what: writer.execute(EVENT, (what,)), Measured()
            )

    return asyncio.run(run())


def tasks_aiosqlite(options: argparse.Namespace) -> dict:
    """aiosqlite, one connection, a commit for each row. A lock keeps the rows of the tasks in
    transactions of their own; without it a task commits or undoes the others' rows too."""
    lock = asyncio.Lock()

    async def write(connection, what: str) -> None:
        async with lock:
            await connection.execute(EVENT, (what,))
            await connection.commit()

    return asyncio.run(aiosqlite_run(options, write))


def tasks_aiosqlite_mixed(options: argparse.Namespace) -> dict:
    """The same without the lock: a commit is of whatever the other tasks have written."""

    async def write(connection, what: str) -> None:
        await connection.execute(EVENT, (what,))
        await connection.commit()

    return asyncio.run(aiosqlite_run(options, write))


async def aiosqlite_run(options: argparse.Namespace, write: Callable) -> dict:
    """Runs the tasks on one connection that is as durable as ours."""
    import aiosqlite

    async with aiosqlite.connect(options.database) as connection:
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA synchronous = FULL")
        await connection.execute(EVENTS)
        await connection.commit()
        return await rows_of_tasks(options, lambda what: write(connection, what), Measured())


# --- one caller, the main thread ------------------------------------------------------------

STEPS = 1_000


def rows_of_caller(options: argparse.Namespace, write: Callable[[int], int]) -> dict:
    """Writes until the time is up; `write` returns the number of rows."""
    end, rows = time.monotonic() + options.seconds, 0
    with Measured() as measured:
        while time.monotonic() < end:
            rows += write(rows)
    return measured.result(rows)


def caller_leafpress(options: argparse.Namespace, profile: str = "durable") -> dict:
    """`Writer`: each row is a transaction of its own."""
    import leafpress

    with leafpress.Writer(options.database, profile=profile) as writer:
        writer.execute(EVENTS)

        def write(row: int) -> int:
            return writer.execute(EVENT, (str(row),)).rowcount

        return rows_of_caller(options, write)


def caller_sqlite3(options: argparse.Namespace, synchronous: str = "FULL") -> dict:
    """sqlite3: each row is a transaction of its own."""
    with closing(connected(options, synchronous)) as connection:

        def write(row: int) -> int:
            return connection.execute(EVENT, (str(row),)).rowcount

        return rows_of_caller(options, write)


def steps_leafpress(options: argparse.Namespace) -> dict:
    """`Writer.transaction`: a statement a row, 1,000 rows a transaction."""
    import leafpress

    with leafpress.Writer(options.database) as writer:
        writer.execute(EVENTS)

        def write(row: int) -> int:
            with writer.transaction() as transaction:
                for step in range(STEPS):
                    transaction.execute(EVENT, (str(row + step),))
            return STEPS

        return rows_of_caller(options, write)


def steps_sqlite3(options: argparse.Namespace) -> dict:
    """sqlite3: a statement a row, 1,000 rows a transaction."""
    with closing(connected(options, "FULL")) as connection:

        def write(row: int) -> int:
            connection.execute("BEGIN IMMEDIATE")
            for step in range(STEPS):
                connection.execute(EVENT, (str(row + step),))
            connection.execute("COMMIT")
            return STEPS

        return rows_of_caller(options, write)


def connected(options: argparse.Namespace, synchronous: str) -> sqlite3.Connection:
    """A connection in WAL mode, with the table of events."""
    connection = sqlite3.connect(options.database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(EVENTS)
    return connection


# --- jobs of a queue ------------------------------------------------------------------------


def jobs_leafpress(options: argparse.Namespace) -> dict:
    """Jobs pushed one by one by so many tasks, while eight workers do them."""
    import leafpress

    async def run() -> dict:
        seen = set()

        async def handle(job) -> None:
            seen.add(job.payload)

        async with leafpress.AsyncWriter(options.database) as writer:
            queue = leafpress.Queue(writer, "jobs")
            numbers = iter(range(options.rows))

            async def push() -> None:
                for number in numbers:
                    await queue.push(number)

            with Measured() as measured:
                pushes = [asyncio.create_task(push()) for _ in range(options.tasks)]
                done = queue.work(handle, concurrency=options.workers, jobs_max=options.rows)
                report = await done
                await asyncio.gather(*pushes)
        if len(seen) != options.rows or report.done != options.rows:
            raise RuntimeError(f"{options.rows} pushed, {len(seen)} seen: {report}")
        return measured.result(options.rows)

    return asyncio.run(run())


WAYS: dict[str, Callable[[argparse.Namespace], dict]] = {
    "make": make,
    "load-polars": load_polars,
    "load-pandas": load_pandas,
    "to-sql": to_sql,
    "to-sql-multi": to_sql_multi,
    "write-database": write_database,
    "adbc": adbc,
    "sqlite-utils": sqlite_utils,
    "executemany": executemany,
    "duckdb": duckdb_sqlite,
    "tasks-leafpress": tasks_leafpress,
    "tasks-aiosqlite": tasks_aiosqlite,
    "tasks-aiosqlite-mixed": tasks_aiosqlite_mixed,
    "caller-leafpress": caller_leafpress,
    "caller-sqlite3": caller_sqlite3,
    "relaxed-caller-leafpress": lambda options: caller_leafpress(options, "relaxed"),
    "relaxed-caller-sqlite3": lambda options: caller_sqlite3(options, "NORMAL"),
    "steps-leafpress": steps_leafpress,
    "steps-sqlite3": steps_sqlite3,
    "jobs-leafpress": jobs_leafpress,
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("database")
    parser.add_argument("--source", help="the rows, as an Arrow file")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--extension", help="of DuckDB, for SQLite")
    options = parser.parse_args()
    options.database = os.path.abspath(options.database)
    print(json.dumps(WAYS[options.way](options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
