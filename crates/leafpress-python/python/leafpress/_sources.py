"""Sources of `load`: paths, files, frames and rows."""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any, NamedTuple, TypeAlias

from ._errors import misuse, unfit
from ._leafpress import arrow_columns
from ._pandas import counted_durations, notes_on_index, plain_columns, with_named_index

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Input(NamedTuple):
    """A source, as the native module reads it."""

    kind: str
    """"files", "bytes", "stream", "frame" (exports the same rows each time), "batches", "rows"."""
    name: str
    """Its name in messages."""
    given: Any
    """The object that is read."""
    columns: list[str] | None = None
    """Names of the columns, where rows do not have them."""
    opened: IO[bytes] | None = None
    """A file that was opened for it, to be closed after it."""
    notes: tuple[str, ...] = ()
    """Notes for the report."""


def input_of(source: Any) -> Input:
    """Kind, name in messages, and object of an input."""
    if isinstance(source, (str, os.PathLike)):
        return _pipe(source) or Input("files", "", _files([source]))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Input("bytes", "<bytes>", bytes(source))
    frame = frame_of(source)
    if frame is not None:
        return frame
    if _is(source, "numpy", "ndarray") and source.ndim == 2:
        return Input("rows", "<rows>", map(tuple, source))
    # A reader of pandas gives frames, which are parts.
    is_of_pandas = type(source).__module__.startswith("pandas.")
    if callable(getattr(source, "read", None)) and not is_of_pandas:
        name = getattr(source, "name", None)
        return Input("stream", name if isinstance(name, str) and name else "<file>", source.read)
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike)):
        return Input("files", "", _files(source))
    if isinstance(source, Mapping):
        raise misuse("a dict is one row", "give a list of such rows, or a data frame")
    refuse_no_rows(source, "give a path, a file, bytes, a data frame or an iterable of rows")
    names = names_of_cursor(source)
    return Input("rows", "<rows>", _rows_of_cursor(source) if names else source, names)


def refuse_no_rows(rows: Any, to_do: str) -> None:
    """Refuses an object that is no iterable, or one for `async for` alone; a QuerySet of Django is of both
    kinds."""
    if isinstance(rows, Iterable):
        return
    if hasattr(rows, "__aiter__"):
        raise misuse(
            "rows come from an iterable, and this one is asynchronous",
            "make a list: [row async for row in rows]",
        )
    kind = type(rows)
    raise misuse(f"an object of type {kind.__module__}.{kind.__qualname__} gives no rows", to_do)


def _pipe(path: Path) -> Input | None:
    """A named pipe, which this thread opens and reads, as Ctrl-C ends no other thread's wait for its
    writer; None for another path."""
    name = os.fsdecode(path)
    try:
        if not stat.S_ISFIFO(os.stat(name).st_mode):
            return None
    except (OSError, ValueError):
        return None
    file = open(name, "rb", buffering=0)
    return Input("stream", name, file.read, opened=file)


def names_of_cursor(rows: Any) -> list[str] | None:
    """Names of the columns of a cursor, as all databases for Python have them."""
    description = getattr(rows, "description", None)
    if isinstance(description, (list, tuple)) and description:
        return [column[0] for column in description]
    return None


def _rows_of_cursor(cursor: Iterable[Any]) -> Iterator[Any]:
    """The rows, as tuples where they have places too: several columns may have one name."""
    rows = iter(cursor)
    for first in rows:
        if isinstance(first, (tuple, Mapping)) or not has_places(first):
            yield first
            yield from rows
            return
        kind = type(first)
        yield tuple(first)
        yield from (tuple(row) if type(row) is kind else row for row in rows)


def has_places(row: Any) -> bool:
    """True if iteration gives the values of a row, and not the keys that it has too."""
    if isinstance(row, Sequence):
        return True
    # A Record of asyncpg is none. A Series of pandas takes 0 for a key.
    if hasattr(row, "dtype"):
        return False
    try:
        return row[0] is next(iter(row))
    except Exception:
        return False


def _files(paths: Iterable[Path]) -> list[str]:
    """The texts of paths and of patterns."""
    files = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise misuse(f"{path!r} is no path", "a list holds paths, or it holds rows")
        files.append(os.fsdecode(path))
    return files


def frame_of(source: Any) -> Input | None:
    """A source that is a data frame; None if it is none. "frame" is one that exports the same rows
    of Arrow each time; a frame of pandas may also be "rows"."""
    for library, name, make in _FRAMES:
        if _is(source, library, name):
            return make(source)
    # A Series of structures exports their fields as columns.
    is_series = _is(source, "pandas", "Series") or _is(source, "polars", "Series")
    if is_series and not str(source.dtype).lower().startswith("struct"):
        raise misuse(
            "a Series is one column, and gives no rows of a table",
            "make a frame of it: series.to_frame(), or series.reset_index() to keep the index of pandas",
        )
    return _batches(source) if _exports_arrow(source) else None


# They export Arrow too.
_COLUMNS = (
    ("pandas", "Series"), ("polars", "Series"), ("pyarrow", "Array"), ("pyarrow", "ChunkedArray"),
)


def is_frame(row: Any) -> bool:
    """True if an object in place of a row is a data frame, for which `frame_of` gives an input."""
    if any(_is(row, *column) for column in _COLUMNS):
        return False
    return any(_is(row, library, name) for library, name, _ in _FRAMES) or _exports_arrow(row)


def _exports_arrow(source: Any) -> bool:
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def _is(source: Any, library: str, name: str) -> bool:
    """True if an object is of a class of a library, which is loaded if there are such objects."""
    kind = getattr(sys.modules.get(library), name, None)
    return isinstance(kind, type) and isinstance(source, kind)


def _frame(frame: Any) -> Input:
    return Input("frame", "<frame>", frame)


def _batches(frame: Any) -> Input:
    return Input("batches", "<frame>", frame)


def _polars(frame: Any) -> Input:
    """A frame of polars, with columns that all have a type of Arrow."""
    polars: Any = sys.modules["polars"]
    if isinstance(frame, polars.LazyFrame):
        frame = frame.collect()
    types = {name: _arrow_type(name, kind, polars) for name, kind in frame.schema.items()}
    other = {name: kind for name, kind in types.items() if kind != frame.schema[name]}
    frame = _cast(frame, other, polars) if other else frame
    if _exports_arrow(frame):
        return _frame(frame)
    try:
        return _frame(frame.to_arrow())
    except ImportError:
        raise misuse(
            f"polars {polars.__version__} cannot export its frames without pyarrow",
            "install polars 1.3 or later, or pyarrow",
        ) from None


def _cast(frame: Any, types: Mapping[str, Any], polars: Any) -> Any:
    try:
        return frame.cast(types)
    except polars.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        columns = ", ".join(repr(name) for name in types)
        advice = "make texts of the column: it needs more than the 38 digits that Arrow has for an integer"
        bad = unfit(f"an integer of column {columns} cannot be exported: {reason}\nto do: {advice}")
        bad.to_do = advice
        raise bad from None


def _arrow_type(name: str, kind: Any, polars: Any) -> Any:
    """The type of polars that can be exported, for one that cannot, or not without harm."""
    if kind == polars.Object:
        # It would be exported as addresses in memory.
        raise misuse(
            f"column {name!r} holds objects of Python, which polars does not export",
            "cast it to a type of values, or load its rows: frame.iter_rows(named=True)",
        )
    if kind == polars.Null:
        return polars.String
    if kind in (getattr(polars, "Int128", None), getattr(polars, "UInt128", None)):
        return polars.Decimal(38, 0)
    if isinstance(kind, polars.List):
        return polars.List(_arrow_type(name, kind.inner, polars))
    if isinstance(kind, polars.Array):
        return polars.Array(_arrow_type(name, kind.inner, polars), kind.size)
    if isinstance(kind, polars.Struct):
        fields = {field.name: _arrow_type(name, field.dtype, polars) for field in kind.fields}
        return polars.Struct(fields)
    return kind


def _pandas(frame: Any) -> Input:
    """A frame of pandas: as Arrow where pyarrow is there and Arrow keeps its values, else as rows."""
    notes = notes_on_index(frame)
    frame, mixed = plain_columns(with_named_index(frame))
    if _is(frame, "geopandas", "GeoDataFrame"):
        table = None if mixed else _as_arrow(lambda _: frame.to_arrow(index=False))
        if table is not None:
            return _frame(table)._replace(notes=notes)
        # As in Arrow.
        frame = frame.to_wkb(flavor="iso")
    names = [str(name) for name in frame.columns]
    # Several columns may have one name.
    frame = frame.set_axis([str(place) for place in range(len(names))], axis=1)
    kept = [place for place in range(len(names)) if place not in mixed]
    table = _pandas_as_arrow(frame, kept) if kept or not names else None
    if table is None:
        kept = [place for place in kept if _pandas_as_arrow(frame, [place]) is not None]
        table = _pandas_as_arrow(frame, kept) if kept else None
    if table is None:
        rows = counted_durations(frame).itertuples(index=False, name=None)
    elif len(kept) == len(names):
        return _frame(table.rename_columns(names))._replace(notes=notes)
    else:
        rows = _beside_arrow(frame, kept, table)
    return Input("rows", "<frame>", rows, names, notes=notes)


def _beside_arrow(frame: Any, kept: list[int], table: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a frame, of which these columns are in a table of Arrow."""
    places = range(frame.shape[1])
    others = {place: iter(frame.iloc[:, place]) for place in places if place not in kept}
    for batch in table.to_batches(max_chunksize=4096):
        columns: dict[int, Iterable[Any]] = dict(zip(kept, arrow_columns(batch)))
        columns |= {place: islice(values, batch.num_rows) for place, values in others.items()}
        yield from zip(*(columns[place] for place in places))


def _pandas_as_arrow(frame: Any, kept: list[int]) -> Any:
    """A table of pyarrow of these columns; None without pyarrow, or for objects that no type of Arrow
    fits."""
    some = frame if len(kept) == frame.shape[1] else frame.iloc[:, kept]
    return _as_arrow(lambda pyarrow: pyarrow.Table.from_pandas(some, preserve_index=False))


def _as_arrow(make: Callable[[Any], Any]) -> Any:
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ImportError:
        return None
    try:
        return make(pyarrow)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
        return None


_FRAMES: tuple[tuple[str, str, Callable[[Any], Input]], ...] = (
    ("pandas", "DataFrame", _pandas),
    ("polars", "DataFrame", _polars),
    ("polars", "LazyFrame", _polars),
    ("pyarrow", "Table", _frame),
    ("pyarrow", "RecordBatch", _frame),
    ("pyarrow.dataset", "Dataset", lambda dataset: _batches(dataset.scanner().to_reader())),
    ("pyarrow.dataset", "Scanner", lambda scanner: _batches(scanner.to_reader())),
)
