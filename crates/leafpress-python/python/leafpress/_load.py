"""`load`: files, frames and rows become a table."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Union, overload

from . import _leafpress
from ._arguments import checked, path_text
from ._errors import DataError, ProgrammingError, misuse
from ._report import DryRun, Report
from ._rows import shape_of
from ._sources import Path, input_of
from ._typing import Unpack

Names = Union[str, Iterable[str], None]
OnConflict = Literal["abort", "ignore", "replace"]
IfExists = Literal["fail", "append", "replace", "ignore", "upsert"]
Layout = Literal["local", "remote"]
Preset = Literal["turso", "rqlite", "litefs", "httpvfs", "mobile"]
Format = Literal["csv", "tsv", "json", "ndjson", "jsonl", "pgtext", "mysqltext"]

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TYPES = {int: "integer", float: "real", str: "text", bytes: "blob", bool: "boolean"}


@dataclass(frozen=True)
class Progress:
    """Progress of a load, about ten times a second."""

    stage: str
    """Name of the stage: "detecting types", "pressing", "sorting", "inserting", "moving in", "sending",
    "syncing"."""
    rows: int
    """Number of rows done in this stage."""
    bytes_read: int
    """Bytes read of the input; of a compressed input, compressed bytes."""
    bytes_total: int | None
    """Size of the input in bytes, if known."""


Tell = Callable[[Progress], object]

class LoadOptions(TypedDict, total=False):
    """Keywords of `load` but `dry_run`, for functions that pass them on."""

    table: str | None
    if_exists: IfExists
    pk: Names
    index: Names
    unique: Names
    columns: Sequence[str] | None
    types: Mapping[str, str | type] | None
    select: Names
    rename: Mapping[str, str] | None
    drop: Names
    not_null: Names
    create: str | None
    strict: bool
    without_rowid: bool
    uuid7: str | Mapping[str, str] | None
    on_conflict: OnConflict | None
    analyze: bool
    all_text: bool
    exact: bool
    page_size: int | None
    layout: Layout | None
    preset: Preset | None
    format: Format | None
    delimiter: str | None
    quote: str | None
    escape: str | None
    header: bool
    ragged: Literal["reject", "pad", "truncate"]
    trim: bool
    null: Names
    empty_null: bool
    encoding: str | None
    skip_lines: int
    comment: str | None
    max_row_bytes: int | str | None
    on_error: Literal["stop", "skip"]
    rejects: Path | None
    max_rejects: int | None
    progress: bool | Tell | None
    busy_timeout: float | None
    threads: int | None
    memory: int | str | None
    tmpdir: Path | None


@overload
def load(
    db: Path, source: Any, *, dry_run: Literal[False] = False, **options: Unpack[LoadOptions]
) -> Report: ...


@overload
def load(
    db: Path, source: Any, *, dry_run: Literal[True], **options: Unpack[LoadOptions]
) -> DryRun: ...


@overload
def load(
    db: Path, source: Any, *, dry_run: bool, **options: Unpack[LoadOptions]
) -> Report | DryRun: ...


@checked
def load(
    db: Path,
    source: Any,
    *,
    table: str | None = None,
    if_exists: IfExists = "fail",
    pk: Names = (),
    index: Names = (),
    unique: Names = (),
    columns: Sequence[str] | None = None,
    types: Mapping[str, str | type] | None = None,
    select: Names = (),
    rename: Mapping[str, str] | None = None,
    drop: Names = (),
    not_null: Names = (),
    create: str | None = None,
    strict: bool = False,
    without_rowid: bool = False,
    uuid7: str | Mapping[str, str] | None = None,
    on_conflict: OnConflict | None = None,
    analyze: bool = False,
    all_text: bool = False,
    exact: bool = False,
    page_size: int | None = None,
    layout: Layout | None = None,
    preset: Preset | None = None,
    format: Format | None = None,
    delimiter: str | None = None,
    quote: str | None = '"',
    escape: str | None = None,
    header: bool = True,
    ragged: Literal["reject", "pad", "truncate"] = "reject",
    trim: bool = False,
    null: Names = (),
    empty_null: bool = False,
    encoding: str | None = None,
    skip_lines: int = 0,
    comment: str | None = None,
    max_row_bytes: int | str | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    rejects: Path | None = None,
    max_rejects: int | None = None,
    dry_run: bool = False,
    progress: bool | Tell | None = None,
    busy_timeout: float | None = 5.0,
    threads: int | None = None,
    memory: int | str | None = None,
    tmpdir: Path | None = None,
) -> Report | DryRun:
    """Loads rows into one table of a database, all or nothing.

    A new table is built from finished pages, and a new database is complete and synced when the
    call returns. After any exception the database is as it was; only after
    `OutcomeUnknown`, from a disk that failed at the commit, it may have all of the rows. An exception of
    Ctrl-C or of `progress` that comes after the commit says in a note that the load stays; Ctrl-C while the
    call returns may come without the note.

    db: the file of the database, or a cluster of rqlite, as "rqlite://host:4001,host:4001": rows become
        visible there in one last transaction, and a new node that is alone takes the whole file.
    source:
        Paths: a file, a pattern such as "logs/*.ndjson", or a list of both. CSV, JSON, Parquet,
        Arrow, plain or compressed by gzip or zstd, and tables of other databases ("b.db::t").
        A file object, or bytes: the content of such a file.
        A frame: whatever exports Arrow (polars, pandas, pyarrow, DuckDB, DataFusion, Ibis,
        GeoPandas), read a batch at a time without a copy. Of a pandas index the named levels
        become columns, and unnamed ones are left out: `reset_index` gives a name. An iterable of
        frames gives the parts of one table: their columns go by name.
        Rows: an iterable of dicts, tuples (with `columns`), named tuples, dataclasses, pydantic
        models, a cursor of another database, an array of two dimensions. They are read once, by this thread. Keys are columns
        in the order of their first appearance; a key that is missing is NULL.
    table: name of the table; for files by default the first one's name without its endings.
    if_exists: "fail", "append" (a key that is taken is an error), "replace" (all rows),
        "ignore" (rows whose key is taken), or "upsert". A missing table is made; for "upsert"
        its only key must be `pk`. The rules of an existing table are those that the call names,
        or the call names none.
    pk, without_rowid: columns of the primary key; a table without rowids.
    index, unique: indexes, each as "name NOCASE, born DESC".
    columns: names of the columns, for tuples and for CSV without a header.
    types: types of columns in place of detection: "integer", "real", "text", "blob", "boolean",
        "exact", or a form of dates: "unixepoch", "unixepoch-ms", "date", "datetime". Also int,
        float, str, bytes, bool.
    select: the columns to load, in this order. drop: columns to leave out. rename: {old: new}.
        not_null: columns that refuse NULL.
    create: the CREATE TABLE and what else belongs to the table, in SQL.
    strict: a STRICT table.
    uuid7: a column of made keys, as 16 bytes; as text with {"id": "text"}.
    on_conflict: rows that share a key: "abort" (default), "ignore" or "replace". With
        if_exists="append" and an existing table, "ignore" acts as if_exists="ignore" and "replace" as
        if_exists="upsert". The table must have a key.
    analyze: statistics for SQLite's planner.
    all_text: every column is TEXT. exact: a column of CSV is REAL only if its texts can be restored
        from the numbers.
    page_size: bytes in a page of a new database.
    layout: "remote" puts the pages of a new database in the order for readers of ranges over a network.
    preset: settings of a new database for its place: "turso", "rqlite", "litefs", "httpvfs", "mobile".
    format: "csv", "tsv", "json", "pgtext" or "mysqltext", where the beginning does not tell it.
    delimiter, quote, escape, header, ragged, trim, null, empty_null, encoding, skip_lines,
        comment, max_row_bytes: rules of CSV. quote=None: no quoting. ragged: "reject", "pad" or
        "truncate". null: texts that mean NULL. encoding: as "windows-1252", or "auto".
    on_error: "stop" at the first bad row, or "skip" bad rows. rejects: a file for the skipped rows, with
        a log beside it. max_rejects: fail, with nothing written, once more rows than this are skipped.
    dry_run: write nothing; return the table, the types and what would be rejected.
    progress: called with a `Progress` on this thread; True shows a bar of tqdm, or a line. What
        it raises ends the load.
    busy_timeout: seconds to wait for other programs that write the database, 5 if None. Ctrl-C does not end
        that wait.
    threads, memory, tmpdir: threads; memory for sorting in bytes, or as "512M"; folder for
        temporary files.

    Raises:
        DataError: a bad row (with `file`, `line`, `column`), or too many of them: a value of the
            wrong type, or NULL in a column that refuses it.
        IntegrityError: a row breaks another rule of the table, such as UNIQUE or CHECK.
        OperationalError: the table exists, the disk is full, the database is busy.
        ProgrammingError: options that contradict, a missing file or column.
        An exception of the iterable, the file or the callback, as it is, and KeyboardInterrupt:
        each with a note on what is on disk (from Python 3.11 on).
    """
    kind, name, given, names, opened, notes = input_of(source)
    if columns is not None and (names is not None or kind in ("frame", "batches")):
        raise misuse("the source has names for its columns", "use select or rename")
    options = {
        "table": table if table is not None or kind == "files" or create else _table_of(name),
        "columns": names if columns is None else _names(columns),
        "pk": _names(pk),
        "index": _names(index),
        "unique": _names(unique),
        "if_exists": if_exists,
        "create": create,
        "strict": strict,
        "page_size": page_size,
        "layout": layout,
        "preset": preset,
        "select": _names(select),
        "rename": list((rename or {}).items()),
        "drop": _names(drop),
        "types": [(column, _type_word(word)) for column, word in (types or {}).items()],
        "exact": exact,
        "all_text": all_text,
        "not_null": _names(not_null),
        "without_rowid": without_rowid,
        "uuid7": _uuid7(uuid7),
        "on_conflict": on_conflict,
        "analyze": analyze,
        "busy_timeout": busy_timeout,
        "format": format,
        "delimiter": _byte("delimiter", delimiter),
        "quote": _byte("quote", quote),
        "escape": _byte("escape", escape),
        "header": header,
        "ragged": ragged,
        "trim": trim,
        "null": _names(null),
        "empty_null": empty_null,
        "encoding": encoding,
        "skip_lines": skip_lines,
        "comment": _byte("comment", comment),
        "max_row_bytes": _size("max_row_bytes", max_row_bytes),
        "on_error": on_error,
        "rejects": None if rejects is None else os.fsdecode(rejects),
        "max_rejects": max_rejects,
        "threads": threads,
        "memory": _size("memory", memory),
        "tmpdir": None if tmpdir is None else os.fsdecode(tmpdir),
    }
    with opened or nullcontext(), _Telling(progress) as tell:
        _check_format(kind, name, given, options)
        _check(options)
        try:
            report = _leafpress.load(_database(db), kind, name, given, options, dry_run, tell)
        except ProgrammingError as error:
            if kind == "rows" and not isinstance(given, Iterator):
                _refuse_no_row(given, error)
            raise
    return (DryRun if dry_run else Report)._from_json(report, notes)


def _refuse_no_row(rows: Iterable[Any], error: ProgrammingError) -> None:
    """Raises what is wrong with rows that have no columns at all: the table's lack of such is a consequence."""
    for row in rows:
        try:
            shape_of(row)
        except TypeError as reason:
            advice = "give rows, or leave bad ones out with on_error=\"skip\""
            bad = DataError(f"<rows>:1:1: {reason}\non disk: {error.on_disk}\nto do: {advice}")
            bad.kind, bad.file, bad.line, bad.column = "bad_row", "<rows>", 1, 1
            bad.on_disk, bad.to_do = error.on_disk, advice
            raise bad from None
        return


def _database(db: Path) -> str:
    path = path_text(db)
    if path == ":memory:" or path.lower().startswith("file:"):
        raise misuse(f"a database is named by its path, and {path!r} is none")
    return path


def _table_of(name: str) -> str | None:
    """The name of a file object gives the table; other sources have no name."""
    if name.startswith("<") and name != "<stdin>":
        raise misuse("the rows have no name that the table could have", 'name it: table="…"')
    return None


def _names(names: Names) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _type_word(word: str | type) -> str:
    if isinstance(word, type):
        if word not in _TYPES:
            raise misuse(f"{word.__qualname__} is no type of a column")
        return _TYPES[word]
    if not isinstance(word, str):
        raise misuse(f"{word!r} is no type of a column", 'name one, such as "integer", or leave out the column')
    return word.lower().replace("_", "-")


def _uuid7(column: str | Mapping[str, str] | None) -> tuple[str, str] | None:
    if column is None or isinstance(column, str):
        return None if column is None else (column, "blob")
    if len(column) != 1:
        raise misuse("uuid7 names one column")
    return next(iter(column.items()))


def _byte(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if len(text) != 1 or not text.isascii():
        raise misuse(f"{option}={text!r} is not one ASCII character")
    return ord(text)


def _size(option: str, size: int | str | None) -> int | None:
    if not isinstance(size, str):
        if size is not None and size < 0:
            raise misuse(f"{option}={size} is no size", 'write bytes from 0, or as "512M"')
        return size
    digits = size.strip().upper().removesuffix("IB").removesuffix("B")
    unit = digits[-1:] if digits[-1:] in _SIZES and not digits[-1:].isdigit() else ""
    number = digits.removesuffix(unit)
    if not number.isdecimal():
        raise misuse(f"{option}={size!r} is no size", 'write bytes, or as "512M" or "2G"')
    return int(number) * _SIZES[unit]


# Options of CSV, and their defaults.
_OF_CSV: dict[str, Any] = {
    "delimiter": None, "quote": ord('"'), "escape": None, "header": True, "ragged": "reject",
    "trim": False, "null": [], "empty_null": False, "encoding": None, "skip_lines": 0,
    "comment": None, "max_row_bytes": None, "format": None, "exact": False,
}
# Those that files of JSON have too, or that make them CSV.
_OF_TEXT = ("encoding", "max_row_bytes", "format")
# Options that the SQL of `create` has in their place.
_OF_TABLE = ("strict", "pk", "without_rowid", "not_null", "all_text", "exact")


def _check_format(kind: str, name: str, source: Any, options: dict[str, Any]) -> None:
    """Refuses options of CSV for rows that are none."""
    given = [option for option, default in _OF_CSV.items() if options[option] != default]
    if given and kind in ("frame", "batches", "rows"):
        raise misuse(f"{given[0]} is for files, and the rows come from Python")
    given = [option for option in given if option not in _OF_TEXT]
    if options["columns"] and kind != "rows":
        given.append("columns")
    if given and options["format"] == "json":
        raise misuse(f'{given[0]} is for CSV, and format says "json"')
    if given and options["format"] is None:
        names = source if kind == "files" else [name]
        other = next(filter(_leafpress.is_other_than_csv, names), None)
        if other is not None:
            raise misuse(f"{given[0]} is for CSV, and {other} seems to be none", 'if it is, add format="csv"')


def _check(options: dict[str, Any]) -> None:
    """Refuses options that contradict one another, or would do nothing."""
    if options["create"] is not None:
        given = [name for name in _OF_TABLE if options[name]]
        if given:
            raise misuse(f"create declares the table: say {given[0]} in the SQL")
    if options["on_conflict"] is not None and options["if_exists"] in ("ignore", "upsert"):
        way = f'if_exists="{options["if_exists"]}"'
        raise misuse(f"{way} says what becomes of rows that share a key", "leave out on_conflict")
    if options["on_error"] == "stop":
        for name in ("rejects", "max_rejects"):
            if options[name] is not None:
                raise misuse(f"{name} is for bad rows that are skipped", 'add on_error="skip"')


class _Telling:
    """The callback of a load, and the bar that it may show."""

    def __init__(self, progress: bool | Tell | None) -> None:
        self._progress = progress
        self._bar: Any = None

    def __enter__(self) -> Callable[..., object] | None:
        if self._progress is None or self._progress is False:
            return None
        if callable(self._progress):
            tell = self._progress
            return lambda *parts: tell(Progress(*parts))
        try:
            tqdm = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            self._bar = _Line()
        else:
            self._bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024)
        return self._show

    def _show(self, stage: str, rows: int, bytes_read: int, bytes_total: int | None) -> None:
        bar = self._bar
        bar.total = bytes_total
        bar.n = bytes_read
        bar.set_description_str(stage, refresh=False)
        bar.set_postfix_str(f"{rows} rows", refresh=False)
        bar.refresh()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


class _Line:
    """A line on stderr, as far as `_Telling` needs a bar."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.n = 0
        self._texts = ["", ""]

    def set_description_str(self, text: str, refresh: bool) -> None:
        self._texts[0] = text

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self._texts[1] = text

    def refresh(self) -> None:
        part = f" ({100 * self.n // self.total} %)" if self.total else ""
        sys.stderr.write(f"\r{self._texts[0]}: {self._texts[1]}{part}\x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
