#!/usr/bin/env python3
"""The same table loaded by Leafpress and by other tools, side by side: from CSV,
with an index, from NDJSON, from Parquet.

Writes the JSON of every Leafpress experiment: machine, settings, rungs, ratios
("how many times faster than the rival", median of interleaved pairs). What
cannot be measured here is named under "unavailable", with the reason.

Every run is a process of its own; its wall time, processor time and peak memory
come from wait4. After every run the database is read back with SQLite, so that
no tool wins by doing less. All files are in one temporary folder that goes at
the end, also after an error.

Needs the standard library only. The rivals written in Python (see
requirements.txt) are taken from the interpreter that runs this script.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import os
import platform
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

TABLE = "data"

# Numbers as numbers, whatever type the rival gave the column; dates and text by
# length. Every rival must agree on these.
SUMS = f"""SELECT count(*), total(id), total(quantity), total(account), total(price),
    total(latitude), sum(length(description)), sum(length(day)), min(day), max(day),
    sum(length(city)) FROM {TABLE}"""

# The column that gets an index: text of which nearly every value is another.
INDEXED_COLUMN = "description"

INDEX_NAME = f"""SELECT list.name FROM pragma_index_list('{TABLE}') list
    JOIN pragma_index_info(list.name) info WHERE NOT list.partial
    GROUP BY list.name HAVING count(*) = 1 AND max(info.name) = '{INDEXED_COLUMN}'"""

# Sums of reals may be made from texts or in another order.
RELATIVE_TOLERANCE = 1e-9

DUCKDB_EXTENSION = "duckdb_extension_sqlite_scanner"

# Run by this same interpreter: DuckDB has no command of its own on PyPI.
DUCKDB_SQLITE = """
import sys, duckdb
extension, csv, database = sys.argv[1:]
quoted = lambda text: "'" + text.replace("'", "''") + "'"
connection = duckdb.connect()
connection.execute(f"LOAD {quoted(extension)}")
connection.execute(f"ATTACH {quoted(database)} AS target (TYPE sqlite)")
connection.execute(f"CREATE TABLE target.data AS FROM read_csv({quoted(csv)})")
connection.close()
"""

DUCKDB_NATIVE = """
import sys, duckdb
csv, database = sys.argv[1:]
quoted = lambda text: "'" + text.replace("'", "''") + "'"
connection = duckdb.connect(database)
connection.execute(f"CREATE TABLE data AS FROM read_csv({quoted(csv)})")
connection.close()
"""

DUCKDB_SUMS = """
import json, sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
row = connection.execute(
    "SELECT count(*), sum(id), sum(quantity), sum(account), sum(price), sum(latitude), "
    "sum(length(description)), sum(length(CAST(day AS VARCHAR))), CAST(min(day) AS VARCHAR), "
    "CAST(max(day) AS VARCHAR), sum(length(city)) FROM data").fetchone()
print(json.dumps([value if isinstance(value, str) else float(value) for value in row]))
"""

# A block of the CSV file becomes a row group, so blocks are large.
MAKE_PARQUET = """
import sys
from pyarrow import csv, parquet
source, target = sys.argv[1:]
with csv.open_csv(source, read_options=csv.ReadOptions(block_size=1 << 26)) as reader:
    with parquet.ParquetWriter(target, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
"""

# One transaction, and no journal and no sync, as for the best SQL.
ADBC_SQLITE = """
import sys
import adbc_driver_sqlite.dbapi, pyarrow
from pyarrow import parquet
source, database = sys.argv[1:]
file = parquet.ParquetFile(source)
rows = pyarrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(65536))
with adbc_driver_sqlite.dbapi.connect(database, autocommit=True) as connection:
    with connection.cursor() as cursor:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            cursor.execute(f"PRAGMA {pragma}")
            cursor.fetchall()
        connection.adbc_connection.set_autocommit(False)
        cursor.adbc_ingest("data", rows, mode="create")
    # The connection's own commit() does nothing: it was opened for autocommit,
    # as there is no other way to set the pragmas.
    connection.adbc_connection.commit()
"""


class BenchError(Exception):
    """The benchmark came to no result; the message says why."""


class Unavailable(Exception):
    """A rival cannot be had on this machine; the message says why."""


@dataclass
class Run:
    """What one process used."""

    wall_s: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Input:
    """A generated file."""

    path: Path
    bytes: int
    rows: int


@dataclass
class Rung:
    """One tool at one piece of work."""

    name: str
    safety: str
    command: Callable[[Path, Path], list[str]]
    sums: Callable[[Path], list] = field(default=lambda path: sqlite_sums(path))
    is_sqlite: bool = True
    has_index: bool = False
    data: Input | None = None
    runs: list[Run] = field(default_factory=list)

    def result(self) -> dict:
        """The rung as the report has it."""
        median_s = statistics.median(run.wall_s for run in self.runs)
        return {
            "name": self.name,
            "safety": self.safety,
            "median_s": median_s,
            "runs_s": [run.wall_s for run in self.runs],
            "per_second": self.data.rows / median_s,
            "rows": self.data.rows,
            "cpu_s": statistics.median(run.cpu_s for run in self.runs),
            "peak_mb": max(run.peak_mb for run in self.runs),
        }


# --- running and checking -----------------------------------------------------------------


def run_process(command: list[str]) -> Run:
    """Runs a command to its end and measures it alone.

    Its output goes to a file, so that no pipe has to be read while it runs.
    """
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            said = output.read().decode(errors="replace").strip()[-2000:]
            raise BenchError(f"{command[0]} ended with {process.returncode}:\n{said}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, peak_mb(usage))


def peak_mb(usage: resource.struct_rusage) -> float:
    """Peak resident memory; systems differ in its unit."""
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * unit / 1e6


def sqlite_sums(database: Path) -> list:
    """What a rung left in a SQLite file."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return list(connection.execute(SUMS).fetchone())


def duckdb_sums(database: Path) -> list:
    """What a rung left in DuckDB's own format."""
    command = [sys.executable, "-c", DUCKDB_SUMS, str(database)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def check_integrity(rung: Rung, database: Path) -> None:
    """Fails unless integrity_check says ok."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        raise BenchError(f"{rung.name} left a damaged file: {verdict}")


def agree(found: list, expected: list) -> bool:
    """Whether two rungs left the same rows, as far as sums tell."""
    same = (
        math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE) if not isinstance(a, str) else a == b
        for a, b in zip(found, expected, strict=True)
    )
    return all(same)


def check_index(rung: Rung, database: Path) -> None:
    """Fails unless the index is there, whatever its name, with an entry for each row."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute(INDEX_NAME).fetchone()
        if found is None:
            raise BenchError(f"{rung.name} left no index on {INDEXED_COLUMN}")
        index = '"' + found[0].replace('"', '""') + '"'
        query = f"SELECT count(*) FROM {TABLE} INDEXED BY {index}"
        entries = connection.execute(query).fetchone()[0]
    if entries != rung.data.rows:
        raise BenchError(f"{rung.name} left an index of {entries} entries, not {rung.data.rows}")


def remove_database(folder: Path) -> None:
    """Removes the database and what may be beside it."""
    for leftover in folder.glob("new.db*"):
        leftover.unlink()


def check(rung: Rung, database: Path, expected: dict[Input, list]) -> None:
    """Fails unless the rung left what the first rung with its input left, and all its rows.

    Ids go from 1 up, so their sum is known.
    """
    found = rung.sums(database)
    rows = rung.data.rows
    wanted = expected.setdefault(rung.data, found)
    if found[0] != rows or found[1] != rows * (rows + 1) / 2 or not agree(found, wanted):
        raise BenchError(f"{rung.name} left {found}, expected {wanted}, {rows} rows")
    if rung.has_index:
        check_index(rung, database)


def run_interleaved(rungs: list[Rung], repeats: int, folder: Path) -> None:
    """Runs the rungs A B C A B C …, and checks after each what it left."""
    expected: dict[Input, list] = {}
    for data in {rung.data for rung in rungs}:
        with data.path.open("rb") as file:
            while file.read(1 << 20):
                pass
    database = folder / "new.db"
    check_part(rungs, database, expected)
    for round_index in range(repeats):
        for rung in rungs:
            os.sync()
            run = run_process(rung.command(rung.data.path, database))
            rung.runs.append(run)
            say(f"{rung.name}: {run.wall_s:.2f} s (round {round_index + 1} of {repeats})")
            check(rung, database, expected)
            if round_index == 0 and rung.is_sqlite:
                check_integrity(rung, database)
            remove_database(folder)


def check_part(rungs: list[Rung], database: Path, expected: dict[Input, list]) -> None:
    """Where a rival gets only a part, has ours load that part too, not timed: else nothing
    would tell whether both make the same rows of it."""
    ours, *rivals = rungs
    for part in {rival.data for rival in rivals} - {ours.data}:
        on_part = replace(ours, data=part, runs=[])
        run_process(on_part.command(part.path, database))
        check(on_part, database, expected)
        remove_database(database.parent)


def ratio(ours: Rung, rival: Rung) -> dict:
    """How many times faster we are, row by row: the median of the pairs of one round."""
    share = ours.data.rows / rival.data.rows
    pairs = [b.wall_s * share / a.wall_s for a, b in zip(ours.runs, rival.runs, strict=True)]
    return {"value": statistics.median(pairs), "min": min(pairs), "max": max(pairs)}


# --- the tools ------------------------------------------------------------------------------


def leafpress_rung(leafpress: str, work: str, has_index: bool = False) -> Rung:
    """Leafpress as people run it: types detected, everything synced."""
    index = ["--index", INDEXED_COLUMN] if has_index else []

    def command(source: Path, database: Path) -> list[str]:
        return [leafpress, "load", str(database), str(source), "--table", TABLE, *index]

    return Rung(f"leafpress load{work}", "durable", command, has_index=has_index)


def import_rung(has_index: bool = False) -> Rung:
    """The sqlite3 shell's .import with its default settings, then perhaps an index."""
    shell = shutil.which("sqlite3")
    if shell is None:
        raise Unavailable("there is no sqlite3 command on this machine")
    create = f"CREATE INDEX {TABLE}_{INDEXED_COLUMN} ON {TABLE}({INDEXED_COLUMN})"
    index = [create] if has_index else []

    def command(csv: Path, database: Path) -> list[str]:
        return [shell, str(database), "-cmd", ".mode csv", f'.import "{csv}" {TABLE}', *index]

    name = "sqlite3 .import, CREATE INDEX" if has_index else "sqlite3 .import"
    return Rung(name, "rollback", command, has_index=has_index)


def need(module: str, package: str) -> None:
    """Fails unless a package is installed."""
    if importlib.util.find_spec(module) is None:
        raise Unavailable(f"{package} is not installed; see rivals/requirements.txt")


def sqlite_utils_rung(format_flag: str = "--csv") -> Rung:
    """sqlite-utils insert; it detects types by default since version 4."""
    need("sqlite_utils", "sqlite-utils")

    def command(source: Path, database: Path) -> list[str]:
        tool = [sys.executable, "-m", "sqlite_utils"]
        return [*tool, "insert", str(database), TABLE, str(source), format_flag]

    return Rung(f"sqlite-utils insert {format_flag}", "rollback", command)


def adbc_rung() -> Rung:
    """pyarrow reads Parquet, and the ADBC driver for SQLite inserts, at its best."""
    need("pyarrow", "pyarrow")
    need("adbc_driver_sqlite", "adbc-driver-sqlite")

    def command(source: Path, database: Path) -> list[str]:
        return [sys.executable, "-c", ADBC_SQLITE, str(source), str(database)]

    return Rung("pyarrow and ADBC", "rebuildable", command)


def duckdb_version() -> str:
    """DuckDB's version."""
    need("duckdb", "DuckDB")
    from importlib.metadata import version

    return version("duckdb")


def duckdb_sqlite_rung() -> Rung:
    """DuckDB reads the CSV file and writes a SQLite file by its extension."""
    version = duckdb_version()
    spec = importlib.util.find_spec(DUCKDB_EXTENSION)
    if spec is None or spec.origin is None:
        raise Unavailable(f"the package {DUCKDB_EXTENSION} is not installed")
    folder = Path(spec.origin).parent / "extensions" / f"v{version}"
    extension = folder / "sqlite_scanner.duckdb_extension"
    if not extension.exists():
        raise Unavailable(f"the package {DUCKDB_EXTENSION} has no extension for DuckDB {version}")

    def command(csv: Path, database: Path) -> list[str]:
        script = [sys.executable, "-c", DUCKDB_SQLITE]
        return [*script, str(extension), str(csv), str(database)]

    return Rung("duckdb, sqlite extension", "rollback", command)


def duckdb_native_rung() -> Rung:
    """DuckDB into its own format: another kind of file, for comparison only."""
    duckdb_version()

    def command(csv: Path, database: Path) -> list[str]:
        return [sys.executable, "-c", DUCKDB_NATIVE, str(csv), str(database)]

    name = "duckdb, its own format (no SQLite file)"
    return Rung(name, "durable", command, duckdb_sums, is_sqlite=False)


# --- the work -------------------------------------------------------------------------------


@dataclass
class Group:
    """Rungs that do the same work: ours, and the rivals by the names of their ratios."""

    ours: Callable[[str], Rung]
    rivals: dict[str, Callable[[], Rung]]
    # Makes what ours and what the rivals get: the same, or a part of it.
    make_inputs: Callable[[argparse.Namespace, Path], tuple[Input, Input]]


def generate(leafpress: str, path: Path, size: list[str]) -> Input:
    """Has a file of `leafpress bench` made, and counts its rows."""
    say(f"making {path.name}, {' '.join(size)}")
    is_csv = path.suffix == ".csv"
    file_format = "csv" if is_csv else "ndjson"
    run_process([leafpress, "bench", "generate", *size, "--format", file_format, str(path)])
    with path.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return Input(path, path.stat().st_size, lines - is_csv)


def make_csv(options: argparse.Namespace, folder: Path) -> tuple[Input, Input]:
    """The CSV file, for all."""
    size = ["--bytes", str(options.bytes)]
    data = generate(options.leafpress, folder / "data.csv", size)
    return data, data


def make_small_csv(options: argparse.Namespace, folder: Path) -> tuple[Input, Input]:
    """A CSV file for a rival that is too slow for the big one."""
    size = ["--bytes", str(options.small_bytes)]
    data = generate(options.leafpress, folder / "data.csv", size)
    return data, data


def make_ndjson(options: argparse.Namespace, folder: Path) -> tuple[Input, Input]:
    """The rows of the CSV file as NDJSON, and a part of them for a slow rival."""
    csv, _ = make_csv(options, folder)
    csv.path.unlink()
    part_rows = max(1, csv.rows * min(options.small_bytes, options.bytes) // options.bytes)
    make = functools.partial(generate, options.leafpress)
    data = make(folder / "data.ndjson", ["--rows", str(csv.rows)])
    return data, make(folder / "part.ndjson", ["--rows", str(part_rows)])


def make_parquet(options: argparse.Namespace, folder: Path) -> tuple[Input, Input]:
    """The rows of the CSV file as Parquet, with the types that pyarrow finds."""
    csv, _ = make_csv(options, folder)
    path = folder / "data.parquet"
    say(f"making {path.name}, --rows {csv.rows}")
    run_process([sys.executable, "-c", MAKE_PARQUET, str(csv.path), str(path)])
    csv.path.unlink()
    data = Input(path, path.stat().st_size, csv.rows)
    return data, data


def size_name(data: Input) -> str:
    """What of: "1000 MB"."""
    return f"{data.bytes / 1e6:.0f} MB" if data.bytes >= 1e7 else f"{data.bytes / 1e6:.1f} MB"


GROUPS = [
    Group(
        lambda leafpress: leafpress_rung(leafpress, ""),
        {
            "csv_vs_import": import_rung,
            "csv_vs_duckdb": duckdb_sqlite_rung,
            "csv_vs_duckdb_native": duckdb_native_rung,
        },
        make_csv,
    ),
    Group(
        lambda leafpress: leafpress_rung(leafpress, ""),
        {"csv_vs_sqlite_utils": sqlite_utils_rung},
        make_small_csv,
    ),
    Group(
        lambda leafpress: leafpress_rung(leafpress, " --index", has_index=True),
        {"csv_index_vs_import": lambda: import_rung(has_index=True)},
        make_csv,
    ),
    Group(
        lambda leafpress: leafpress_rung(leafpress, ", NDJSON"),
        {"ndjson_vs_sqlite_utils": lambda: sqlite_utils_rung("--nl")},
        make_ndjson,
    ),
    Group(
        lambda leafpress: leafpress_rung(leafpress, ", Parquet"),
        {"parquet_vs_adbc": adbc_rung},
        make_parquet,
    ),
]

RATIOS = [name for group in GROUPS for name in group.rivals]


# --- the report ---------------------------------------------------------------------------------


def first_line_value(path: str, name: str) -> str | None:
    """The value of the first "name: value" line of a file of /proc."""
    try:
        for line in Path(path).read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return None


def filesystem_of(folder: Path) -> str | None:
    """Type and device of the mount that holds a folder."""
    best: tuple[int, str] | None = None
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        head, _, tail = line.partition(" - ")
        point = head.split(" ")[4]
        kind, device = tail.split(" ")[:2]
        if folder.resolve().is_relative_to(point) and (best is None or len(point) >= best[0]):
            best = (len(point), f"{kind} on {device}")
    return best[1] if best else None


def machine(folder: Path) -> dict:
    """The machine, without what the system does not tell."""
    memory = first_line_value("/proc/meminfo", "MemTotal")
    facts = {
        "cpu": first_line_value("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "memory_mb": int(memory.split()[0]) // 1024 if memory else None,
        "filesystem": filesystem_of(folder),
    }
    return {name: value for name, value in facts.items() if value is not None}


def versions() -> Iterator[tuple[str, str]]:
    """The versions of the rivals that are here."""
    shell = shutil.which("sqlite3")
    if shell:
        done = subprocess.run([shell, "--version"], capture_output=True, text=True, check=False)
        yield "sqlite3", done.stdout.split(" ")[0]
    from importlib.metadata import PackageNotFoundError, version

    for name in ("sqlite-utils", "duckdb", "pyarrow", "adbc-driver-sqlite"):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def say(message: str) -> None:
    """Tells the reader what is going on."""
    print(message, file=sys.stderr, flush=True)


# --- the run ------------------------------------------------------------------------------------


def run_group(group: Group, wanted: list[str], options, folder: Path, report: dict) -> None:
    """Runs ourselves and the wanted rivals of a group, and adds what came out."""
    rivals: dict[str, Rung] = {}
    for name in (name for name in group.rivals if name in wanted):
        try:
            rivals[name] = group.rivals[name]()
        except Unavailable as reason:
            report["unavailable"][name] = str(reason)
            say(f"{name}: unavailable, {reason}")
    if not rivals:
        return
    ours = group.ours(options.leafpress)
    ours.data, rivals_data = group.make_inputs(options, folder)
    for rival in rivals.values():
        rival.data = rivals_data
    rungs = [ours, *rivals.values()]
    run_interleaved(rungs, options.repeats, folder)
    for rung in rungs:
        rung.data.path.unlink(missing_ok=True)
        rung.name = f"{rung.name}, {size_name(rung.data)}"
        report["rungs"].append(rung.result())
    for name, rival in rivals.items():
        report["ratios"][name] = ratio(ours, rival)


def run_all(options) -> dict:
    """The whole experiment."""
    wanted = options.only or RATIOS
    report = {
        "experiment": "rivals",
        "version": 1,
        "machine": machine(options.dir),
        "settings": {
            "repeats": options.repeats,
            "bytes": options.bytes,
            "small_bytes": options.small_bytes,
            "small_for": ["csv_vs_sqlite_utils", "ndjson_vs_sqlite_utils (the rival only)"],
            "indexed_column": INDEXED_COLUMN,
            "quick": options.quick,
            "order": "interleaved: each round runs every tool once",
            "page_cache": "warm: each input was read once before",
            "between_runs": "everything is synced",
            "time": "of the whole process, from its start to its end",
            # A process starts as a copy of this one, and its peak counts from there.
            "peak_mb_floor": peak_mb(resource.getrusage(resource.RUSAGE_SELF)),
            "tools": "each with its default settings, as people run it, but ADBC at its best",
            "versions": dict(versions()),
        },
        "rungs": [],
        "ratios": {},
        "unavailable": {},
    }
    with tempfile.TemporaryDirectory(prefix="leafpress-rivals-", dir=options.dir) as name:
        folder = Path(name).resolve()
        for group in GROUPS:
            run_group(group, wanted, options, folder, report)
    if not report["unavailable"]:
        del report["unavailable"]
    return report


def finish(report: dict, path: Path | None) -> None:
    """Prints the ratios, and writes the report to a file, or to standard output."""
    for name, value in report["ratios"].items():
        say(f"{name}: {value['value']:.1f} times ({value['min']:.1f} to {value['max']:.1f})")
    text = json.dumps(report, indent=2) + "\n"
    if path:
        path.write_text(text)
    else:
        sys.stdout.write(text)


def carried_out(run_all: Callable[[argparse.Namespace], dict], options: argparse.Namespace) -> dict | None:
    """The report of an experiment; without one it says why."""
    # Killed politely, the temporary folder goes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run_all(options)
    except (
        BenchError,
        OSError,
        sqlite3.Error,
        subprocess.CalledProcessError,
        json.JSONDecodeError,
    ) as error:
        name = Path(sys.argv[0]).stem
        say(f"{name}: {error}\nno report was written, and no temporary file is left")
        return None


def argument_parser(description: str, ratios) -> argparse.ArgumentParser:
    """What every such benchmark can be asked for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--leafpress", required=True, help="the leafpress executable")
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--dir", type=Path, default=Path("."), help="the disk to be measured")
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    parser.add_argument("--only", action="append", choices=ratios, help="only this ratio")
    parser.add_argument("--quick", action="store_true", help="see that it works, in seconds")
    return parser


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argument_parser(__doc__.splitlines()[0], RATIOS)
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="size of the CSV file")
    parser.add_argument("--small-bytes", type=int, default=50_000_000, help="for slow rivals")
    options = parser.parse_args()
    if options.quick:
        options.bytes = min(options.bytes, 2_000_000)
        options.small_bytes = min(options.small_bytes, 500_000)
        options.repeats = min(options.repeats, 2)
    options.repeats = max(options.repeats, 1)
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
