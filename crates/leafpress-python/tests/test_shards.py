"""Shards by Spark, Ray and Dask, each with two workers in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from datetime import time as clock
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import leafpress as lp
from leafpress import _engines
from leafpress._command import run_json

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
from engines import ENGINES
from stock import query

ROWS = 3_000


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    engine = ENGINES[request.param]()
    yield engine
    engine.stop()


def people(rows: int = ROWS) -> Any:
    ids = range(rows)
    return pandas.DataFrame(
        {
            "id": ids,
            "name": [f"person {id}" for id in ids],
            "height": [id / 7 for id in ids],
            # Tasks with the first rows meet NULL only.
            "note": [None if id < rows // 2 else f"n{id}" for id in ids],
        }
    )


def expected(rows: int = ROWS) -> list[tuple[Any, ...]]:
    return [(id, f"person {id}", id / 7, None if id < rows // 2 else f"n{id}") for id in range(rows)]


def parts_of(report: lp.ShardReport, sql: str = "SELECT * FROM people") -> list[list[tuple[Any, ...]]]:
    return [query(Path(report.folder, part.path), sql) for part in report.parts]


def is_sound(folder: Path) -> bool:
    """Whether the command finds checksums, rows and B-trees of all parts in order."""
    return bool(run_json(["shards", "verify", folder, "--json"])["sound"])


def files_of_run(report: lp.ShardReport) -> list[str]:
    return sorted(os.listdir(Path(report.folder, "runs", report.run, "parts")))


def test_each_row_is_in_the_part_of_its_hash(engine: Any, tmp_path: Path) -> None:
    out = tmp_path / "people"
    options = {"by": "hash(id)", "parts": 5, "pk": "id", "index": "name", "not_null": "name"}
    report = engine.write(engine.frame(people()), out, **options)
    assert (report.rows, len(report.parts), report.table) == (ROWS, 5, "people")
    assert is_sound(out)
    parts = parts_of(report)
    assert [len(rows) for rows in parts] == [part.rows for part in report.parts]
    assert min(len(rows) for rows in parts) > ROWS // 10
    assert sorted(row for rows in parts for row in rows) == expected()
    # The command, which splits without an engine, puts the same keys into the same parts.
    (tmp_path / "people.csv").write_text(people().to_csv(index=False))
    words = ["--by", "hash(id)", "--parts", "5", "--pk", "id", "--json"]
    run_json(["shard", tmp_path / "people.csv", "--out", tmp_path / "by_command", *words])
    same = sorted((tmp_path / "by_command" / "runs").glob("*/parts/*.db"))
    ids = [[row[0] for row in query(path, "SELECT id FROM people ORDER BY id")] for path in same]
    assert ids == [sorted(row[0] for row in rows) for rows in parts]
    schema = query(Path(report.folder, report.parts[3].path), "SELECT sql FROM sqlite_schema")
    assert "PRIMARY KEY" in schema[0][0] and "NOT NULL" in schema[0][0] and len(schema) == 2
    # Nothing but the parts is left.
    assert files_of_run(report) == sorted(Path(part.path).name for part in report.parts)
    assert run_json(["shards", "gc", out, "--older-than", "0s", "--json"])["files"] == []


def test_ranges_have_about_as_many_rows_each(engine: Any, tmp_path: Path) -> None:
    report = engine.write(engine.frame(people()), tmp_path / "people", by="range(height)", parts=4)
    assert is_sound(tmp_path / "people")
    heights = parts_of(report, "SELECT min(height), max(height), count(*) FROM people")
    flat = [height for [(low, high, _)] in heights for height in (low, high)]
    assert flat == sorted(flat) and len(flat) == 8
    assert all(abs(count - ROWS / 4) <= 2 for [(_, _, count)] in heights)


def test_rows_are_split_evenly(engine: Any, tmp_path: Path) -> None:
    report = engine.write(engine.frame(people()), tmp_path / "people", by="rows", parts=7)
    assert is_sound(tmp_path / "people")
    parts = parts_of(report)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    rows = [row for part in parts for row in part]
    assert (rows if engine.keeps_order else sorted(rows)) == expected()


def test_a_write_that_fails_leaves_nothing_of_its_run(engine: Any, tmp_path: Path) -> None:
    def fail(rows: Any) -> Any:
        if len(rows) and rows["id"].max() > ROWS // 2:
            raise ValueError("a later partition")
        return rows

    out = tmp_path / "people"
    frame = engine.frame(people())
    with pytest.raises(Exception, match="a later partition"):
        engine.write(engine.mapped(frame, fail), out, by="hash(id)", parts=3)
    assert not out.exists()
    before = engine.write(frame, out, by="hash(id)", parts=3)
    # A part fails: its key is there twice.
    twice = engine.frame(pandas.concat([people(), people(1)]))
    with pytest.raises(Exception, match="has its primary key already"):
        engine.write(twice, out, by="hash(id)", parts=3, pk="id")
    assert [path.name for path in (out / "runs").iterdir()] == [before.run]
    assert json.loads((out / "_CURRENT").read_text())["run"] == before.run
    assert is_sound(out)
    assert engine.write(twice, out, by="hash(id)", parts=3, pk="id", on_conflict="ignore").rows == ROWS


def test_tasks_that_die_are_tried_again(engine: Any, tmp_path: Path) -> None:
    """A process of the engine is killed while rows are given, and nothing is there twice."""
    died = tmp_path / "died"

    def die(rows: Any) -> Any:
        if not died.exists():
            died.touch()
            os._exit(1)
        return rows

    out = tmp_path / "people"
    frame = engine.mapped(engine.frame(people()), die)
    if not engine.tries_again:
        with pytest.raises(BrokenProcessPool):
            engine.write(frame, out, by="hash(id)", parts=4)
        assert died.exists() and not (out / "_CURRENT").exists()
    report = engine.write(frame, out, by="hash(id)", parts=4)
    assert died.exists() and is_sound(out)
    assert sorted(row for rows in parts_of(report) for row in rows) == expected()
    run_json(["shards", "gc", out, "--older-than", "0s", "--json"])
    assert files_of_run(report) == sorted(Path(part.path).name for part in report.parts)


def test_no_rows_are_parts_without_rows(engine: Any, tmp_path: Path) -> None:
    report = engine.write(engine.frame(people(0)), tmp_path / "people", by="hash(id)", parts=2)
    assert report.rows == 0 and len(report.parts) == 2
    assert parts_of(report) == [[], []]


def test_times_are_keys_as_they_are_stored(engine: Any, tmp_path: Path) -> None:
    day = pandas.Timestamp("2026-01-01").as_unit("us")
    rows = people(100).assign(at=[day + pandas.Timedelta(hours=id) for id in range(100)])
    report = engine.write(engine.frame(rows), tmp_path / "people", by="range(at)", parts=3)
    assert is_sound(tmp_path / "people")
    manifest = json.loads((tmp_path / "people" / "runs" / report.run / "manifest.json").read_text())
    assert manifest["routing"]["bounds"] == [part["smallest"] for part in manifest["parts"][1:]]
    assert manifest["parts"][0]["smallest"].startswith("2026-01-01")


def test_any_name_of_a_column_is_taken(engine: Any, tmp_path: Path) -> None:
    rows = people(100).rename(columns={"name": "geo.lat", "height": "a`b", "note": "c d"})
    frame = engine.frame(people(100))
    if hasattr(frame, "toDF"):
        # Spark's schema as a text has no such names.
        frame = frame.toDF(*rows.columns)
    else:
        frame = engine.frame(rows)
    for by in ("hash(geo.lat)", "range(a`b)", "rows"):
        report = engine.write(frame, tmp_path / by, by=by, parts=3)
        found = parts_of(report, f'SELECT id, "geo.lat", "a`b", "c d" FROM "{by}"')
        assert sorted(row for rows in found for row in rows) == expected(100)


def test_progress_is_told(engine: Any, tmp_path: Path) -> None:
    told: list[lp.ShardProgress] = []
    engine.write(engine.frame(people()), tmp_path / "people", by="rows", parts=3, progress=told.append)
    assert told[-1] == lp.ShardProgress("pressing", 3, 3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "bytes", "parts": 2}, "rows"),
        ({"by": "sideways(id)", "parts": 2}, "hash"),
        ({"by": "hash(id)", "parts": 0}, "parts"),
        ({"by": "hash(id)", "parts": 2, "primary": "id"}, "pk"),
        ({"by": "hash(other)", "parts": 2}, "other"),
        ({"by": "range(other)", "parts": 2}, "other"),
    ],
)
def test_what_is_wrong_is_told(engine: Any, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=said):
        engine.write(engine.frame(people(10)), tmp_path / "people", **options)
    assert not (tmp_path / "people").exists()


def test_an_address_of_no_store_is_refused(engine: Any) -> None:
    with pytest.raises(lp.ProgrammingError, match="no place of shards"):
        engine.write(engine.frame(people(10)), "ftp://host/people", by="rows", parts=1)


class InOneProcess:
    """An engine that does all in this process."""

    tasks = 1

    def __init__(self) -> None:
        self.scatters = 0

    def known_schema(self) -> Any:
        return self.schema()

    def schema(self) -> Any:
        import pyarrow

        return pyarrow.schema({"id": pyarrow.int64()})

    def sample(self, by: str, column: str) -> list[str]:
        return []

    def scatter(self, plan: _engines.Plan) -> list[_engines.Scattered]:
        import pyarrow

        self.scatters += 1
        return [plan.scatter(pyarrow.table({"id": [1, 2, 3]}))]

    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        return [plan.build(part, scattered) for part in range(plan.parts)]


class Wide(InOneProcess):
    """Two tasks with whole numbers, some of which need more than 64 bits; a third with NULLs, a fourth without rows."""

    tasks = 4

    def schema(self) -> Any:
        import pyarrow

        large = pyarrow.decimal128(30, 0)
        columns = {"id": pyarrow.int64(), "fits": pyarrow.uint64(), "u": pyarrow.uint64(), "d": large}
        return pyarrow.schema(columns)

    def scatter(self, plan: _engines.Plan) -> list[_engines.Scattered]:
        import pyarrow

        tasks = [
            [(0, 1, 2, 3), (1, 2**63 - 1, 5, 6), (2, None, None, None)],
            [(3, 7, 2**64 - 1, 8), (4, 9, 10, -(10**25))],
            [(5, None, None, None)],
            [],
        ]
        named = [[dict(zip(self.schema().names, row)) for row in rows] for rows in tasks]
        return [plan.scatter(pyarrow.Table.from_pylist(rows, self.schema())) for rows in named]


@pytest.mark.parametrize("by", ["hash(id)", "rows"])
def test_all_parts_have_the_types_that_the_rows_of_all_tasks_ask_for(by: str, tmp_path: Path) -> None:
    report = _engines.write(Wide(), tmp_path / "out", by, 7, {"table": "t"})
    types = parts_of(report, "SELECT group_concat(type) FROM pragma_table_info('t')")
    assert types == [[("INTEGER,INTEGER,TEXT,TEXT",)]] * 7
    assert sorted(row for rows in parts_of(report, "SELECT * FROM t") for row in rows) == [
        (0, 1, "2", "3"),
        (1, 2**63 - 1, "5", "6"),
        (2, None, None, None),
        (3, 7, "18446744073709551615", "8"),
        (4, 9, "10", "-10000000000000000000000000"),
        (5, None, None, None),
    ]


class Times(InOneProcess):
    """Times of the day, in the units that Arrow has for them."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def schema(self) -> Any:
        import pyarrow

        of_unit = pyarrow.time32 if self.unit in ("s", "ms") else pyarrow.time64
        return pyarrow.schema({"at": of_unit(self.unit)})

    def scatter(self, plan: _engines.Plan) -> list[_engines.Scattered]:
        import pyarrow

        rows = [{"at": clock(hour % 24, hour)} for hour in range(48)] + [{"at": None}]
        return [plan.scatter(pyarrow.Table.from_pylist(rows, self.schema()))]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_is_a_key(unit: str, tmp_path: Path) -> None:
    report = _engines.write(Times(unit), tmp_path / "out", "hash(at)", 5, {"table": "t"})
    assert len([part for part in report.parts if part.rows]) > 1
    with lp.Shards(tmp_path / "out") as shards:
        for hour in range(48):
            for key in [clock(hour % 24, hour), clock(hour % 24, hour).isoformat()]:
                assert shards.get(key).fetchall() == [(f"{hour % 24:02}:{hour:02}:00",)]
        assert shards.get(None).fetchall() == [(None,)]


class LosesScratch(InOneProcess):
    """Takes the folder of the scattered rows away."""

    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        built = super().build(plan, scattered)
        folder = Path(plan.scratch, "runs", plan.run)
        shutil.rmtree(folder)
        folder.write_text("no folder")
        return built


def test_a_run_is_published_even_if_scattered_rows_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    report = _engines.write(LosesScratch(), out, "hash(id)", 2, {"scratch": scratch, "table": "t"})
    assert sum(len(rows) for rows in parts_of(report, "SELECT * FROM t")) == 3
    assert is_sound(out)
    assert f"run {report.run} is published" in caplog.text


class Slow(InOneProcess):
    """Presses parts for more than a day, while `gc` looks."""

    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        homes = [Path(home, "runs", plan.run) for home in (plan.folder, plan.scratch)]
        built = super().build(plan, scattered)
        signs = [home / "_ALIVE" for home in homes]
        while not all(sign.exists() for sign in signs):
            time.sleep(0.01)
        for file in [file for home in homes for file in home.glob("parts/*")]:
            os.utime(file, (time.time() - 2 * 86_400,) * 2)
        self.collected = [run_json(["shards", "gc", home, "--json"]) for home in (plan.folder, plan.scratch)]
        return built


@pytest.mark.timeout(60)
def test_gc_leaves_a_run_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engines, "_SECONDS_BETWEEN_SIGNS", 0.01)
    engine, scratch = Slow(), tmp_path / "scratch"
    report = _engines.write(engine, tmp_path / "out", "hash(id)", 2, {"scratch": scratch, "table": "t"})
    assert [collected["files"] for collected in engine.collected] == [[], []]
    assert is_sound(tmp_path / "out") and not scratch.exists()
    assert sorted(os.listdir(tmp_path / "out" / "runs" / report.run)) == ["manifest.db", "manifest.json", "parts"]


class LosesAPart(InOneProcess):
    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        built = super().build(plan, scattered)
        Path(plan.folder, json.loads(built[1].record)["path"]).unlink()
        return built


def test_a_run_without_all_parts_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(lp.DataError, match="part 1 of run"):
        _engines.write(LosesAPart(), tmp_path / "out", "hash(id)", 2, {"table": "t"})
    assert not (tmp_path / "out").exists()


class LosesAll(InOneProcess):
    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        run_json(["shards", "gc", plan.scratch, "--older-than=0s", "--json"])
        return super().build(plan, scattered)


@pytest.mark.parametrize("scratch", [None, "scratch"])
def test_a_run_whose_files_gc_removes_says_so(tmp_path: Path, scratch: str | None) -> None:
    options: dict[str, Any] = {"table": "t"}
    if scratch:
        options["scratch"] = tmp_path / scratch
    with pytest.raises(lp.OperationalError, match="were removed while it was made(.|\n)*a short older_than$"):
        _engines.write(LosesAll(), tmp_path / "out", "hash(id)", 2, options)
    assert not os.listdir(tmp_path)


class Overtaken(InOneProcess):
    """Another run is published while the parts are built."""

    run = ""

    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        self.run = plan.run
        _engines.write(InOneProcess(), plan.folder, "hash(id)", 1, {"table": "t"})
        return super().build(plan, scattered)


def test_a_run_that_is_complete_and_not_current_keeps_no_scattered_rows(tmp_path: Path) -> None:
    engine, out = Overtaken(), tmp_path / "out"
    with pytest.raises(lp.OperationalError, match="another run was published meanwhile"):
        _engines.write(engine, out, "hash(id)", 2, {"table": "t"})
    run_json(["shards", "rollback", out, "--to", engine.run, "--json"])
    assert is_sound(out) and not list(out.glob("runs/*/parts/*.rows"))


class Fails(InOneProcess):
    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        raise RuntimeError("the true cause")


def test_gc_takes_times_as_other_calls_do(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _engines.write(InOneProcess(), out, "rows", 1, {})
    [part] = out.glob("runs/*/parts/*.db")
    part.with_name(f"00000-{'0' * 32}.db").write_text("an attempt that was not published")
    with lp.Shards(out) as shards:
        told = [shards.gc(older_than=time, dry_run=True) for time in (0, 0.0, timedelta(), "0s")]
        assert all(each == told[0] for each in told)
        kept = [shards.gc(older_than=time, dry_run=True) for time in (3600, timedelta(hours=1), "1h", None)]
        assert all(each == kept[0] for each in kept) and kept[0] != told[0]
        for wrong in (-1, float("nan"), timedelta(days=-1)):
            with pytest.raises(lp.ProgrammingError, match="older_than"):
                shards.gc(older_than=wrong)


def test_an_exception_of_progress_ends_the_telling_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[lp.ShardProgress] = []

    def tell(progress: lp.ShardProgress) -> None:
        told.append(progress)
        raise ValueError("of the callback")

    options: Any = {"table": "t", "progress": tell}
    report = _engines.write(InOneProcess(), tmp_path / "out", "hash(id)", 2, options)
    assert report.rows == 3 and is_sound(tmp_path / "out") and len(told) == 1
    assert "of the callback" in caplog.text
    with pytest.raises(RuntimeError, match="the true cause"):
        _engines.write(Fails(), tmp_path / "other", "hash(id)", 2, options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layout": "romote"}, "layout"),
        ({"page_size": 1000}, "page"),
        ({"page_size": -1}, "page_size"),
        ({"on_conflict": "other", "pk": "id"}, "on_conflict"),
        ({"on_conflict": "ignore"}, "no key"),
        ({"without_rowid": True}, "primary key"),
        ({"pk": "nope"}, "nope"),
        ({"index": "nope"}, "nope"),
        ({"not_null": "nope"}, "nope"),
        ({"memory": -5}, "memory"),
        ({"threads": -1}, "threads"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_wrong_options_of_parts_are_told_before_rows_move(
    options: Any, said: str, is_known: bool, tmp_path: Path
) -> None:
    engine = InOneProcess()
    if not is_known:
        engine.known_schema = lambda: None  # type: ignore[method-assign]
    is_of_columns = said == "nope"
    with pytest.raises(lp.Error, match=said):
        _engines.write(engine, tmp_path / "out", "hash(id)", 2, {"table": "t", **options})
    assert engine.scatters == (1 if is_of_columns and not is_known else 0)
    assert not (tmp_path / "out").exists()


def test_what_says_nothing_is_refused(tmp_path: Path) -> None:
    for by, options in (("rows", {"seed": 5}), ("hash(id)", {"seed": -5}), ("hash(other)", {})):
        engine = InOneProcess()
        with pytest.raises(lp.ProgrammingError, match="seed|other"):
            _engines.write(engine, tmp_path / "out", by, 2, options)  # type: ignore[arg-type]
        assert engine.scatters == 0


def test_one_row_of_a_key_is_kept_only_where_parts_are_split_by_it(tmp_path: Path) -> None:
    for by in ("rows", "hash(name)", "hash(id,name)", "range(name)"):
        engine = InOneProcess()
        for rule in ("ignore", "replace"):
            with pytest.raises(lp.ProgrammingError, match="share a key into several(.|\n)*split by the key: id"):
                _engines.write(engine, tmp_path / "out", by, 2, {"pk": "id", "on_conflict": rule})
        assert engine.scatters == 0
    for by, parts in (("hash(ID)", 2), ("rows", 1)):
        options: Any = {"pk": "id", "on_conflict": "ignore"}
        assert _engines.write(InOneProcess(), tmp_path / "out", by, parts, options).rows == 3


class Sorted(InOneProcess):
    """Tasks whose rows are each of one part; files that a part does not need are not there."""

    tasks = 4

    def sample(self, by: str, column: str) -> list[str]:
        import pyarrow

        return [_engines.sample_of(by, pyarrow.table({"id": list(range(400))}))]

    def scatter(self, plan: _engines.Plan) -> list[_engines.Scattered]:
        import pyarrow

        ids = [range(first, first + 100) for first in range(0, 400, 100)]
        return [plan.scatter(pyarrow.table({"id": list(some)})) for some in ids]

    def build(self, plan: _engines.Plan, scattered: list[_engines.Scattered]) -> list[_engines.Built]:
        built = []
        for part in range(plan.parts):
            others = [Path(plan.scratch, file.path) for file in scattered if not file.rows[part]]
            hidden = [other.rename(other.with_suffix(".hidden")) for other in others]
            built.append(plan.build(part, scattered))
            for other in hidden:
                other.rename(other.with_suffix(".rows"))
        return built


def test_a_part_reads_the_files_that_have_its_rows(tmp_path: Path) -> None:
    report = _engines.write(Sorted(), tmp_path / "out", "range(id)", 4, {"table": "t"})
    assert [part.rows for part in report.parts] == [100] * 4
    assert is_sound(tmp_path / "out")
