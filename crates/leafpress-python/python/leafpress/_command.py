"""Commands of `leafpress` as functions: each runs the command in a process of its own, and gives
the object that it prints with `--json`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

from ._arguments import checked, path_text
from ._errors import make, misuse
from ._sources import Path as PathLike

# Exit statuses of a command that has printed its result.
_DONE, _DONE_WITH_PROBLEMS = 0, 1

# A flag in a message of the command, with the name of its value; flags whose names are words of Python.
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?: <[^>]*>)?")
_RENAMED = frozenset({"from"})

# The command, as `python -m leafpress` is it, but with advice for callers of a function.
_PROGRAM = "import sys; from leafpress.__main__ import main; sys.exit(main(as_keywords=True))"


def run_json(words: Sequence[PathLike]) -> dict[str, Any]:
    """Runs a command whose words ask for JSON on stdout; the object.

    Ctrl-C stops the command, which cleans up, before KeyboardInterrupt is raised.

    Raises the exception for the error that the command tells, or OSError if it cannot be started.
    """
    given = [path_text(word) for word in words]
    for word in given:
        if "\0" in word:
            raise misuse(f"{word!r} has a NUL character, which no path has")
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *given],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        # A terminal's ctrl-C is for this process alone, so the command gets it once.
        start_new_session=True,
    )
    try:
        printed, said = process.communicate()
    except BaseException:
        _stop(process)
        raise
    return _object(process.returncode, printed, said.decode(errors="replace"))


def _environment() -> dict[str, str]:
    """The environment in which the new process finds this very package."""
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(folder for folder in folders if folder)
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Asks the command and its children to stop, and waits until they have cleaned up."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.terminate()
        process.communicate()


def _object(status: int, printed: bytes, said: str) -> dict[str, Any]:
    """The object that the command printed, or the exception for its failure."""
    try:
        found = json.loads(printed)
    except ValueError:
        text = f"the command ended with {status} and without a result: {said.strip()}"
        raise make(text, "bug", to_do="report it, with the words above") from None
    if "error" in found:
        raise _error(found["error"])
    if status not in (_DONE, _DONE_WITH_PROBLEMS):
        raise make(f"the command ended with {status}: {said.strip()}", "bug")
    return cast("dict[str, Any]", found)


def _error(told: dict[str, Any]) -> Exception:
    """The exception for an error that a command tells in JSON."""
    kind = str(told["kind"])
    if kind == "misuse":
        told = {name: _as_parameters(value) for name, value in told.items()}
    text = str(told["message"])
    for heading, name in (("on disk", "on_disk"), ("now", "held_by"), ("to do", "to_do")):
        if told.get(name):
            text += f"\n{heading}: {told[name]}"
    names = ("on_disk", "to_do", "is_retryable", "file", "line", "column")
    attributes: dict[str, Any] = {name: told[name] for name in names if name in told}
    return make(text, kind, **attributes)


def _as_parameters(said: Any) -> Any:
    """A text with parameters of the function in place of the flags of the command."""
    if not isinstance(said, str):
        return said
    said = said.replace("the command's --help", "the function's documentation")
    return _FLAG.sub(lambda flag: flag[1].replace("-", "_") + ("_" if flag[1] in _RENAMED else ""), said)


def flags(**options: object) -> list[str]:
    """Options as flags: True is the flag alone, None and False are none, a list is repeated."""
    words = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [f"{flag}={one}" for one in value]
        elif value is not None and value is not False:
            text = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else value
            words.append(f"{flag}={text}")
    return words


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _positional(*words: PathLike) -> list[str]:
    """Words that are no flags, whatever they begin with."""
    return ["--", *(os.fsdecode(word) for word in words)]


@checked
def verify(db: PathLike, *, quick: bool = False) -> dict[str, Any]:
    """Checks that a database is sound, without changing it, by the `integrity_check` and
    `foreign_key_check` of the SQLite that is built in.

    `quick` leaves out whether indexes agree with their tables. The result has `sound` (bool) and
    the problems. A database that needs recovery is refused (`DatabaseError`).
    """
    return run_json(["verify", *flags(quick=quick, json=True), *_positional(db)])


@checked
def doctor(db: PathLike, *, busy_timeout: float | None = None) -> dict[str, Any]:
    """Tells which processes have a database open, and whether that is safe. Nothing is changed.

    `busy_timeout`: seconds to watch a lock that is held, 5 if None. The result has
    `healthy` (bool) and `checks`, each with its verdict and advice.
    """
    return run_json(["doctor", *flags(busy_timeout=_milliseconds(busy_timeout), json=True), *_positional(db)])


@checked
def storage(
    path: PathLike = ".", *, seconds: float | None = None, quick: bool = False
) -> dict[str, Any]:
    """Measures what the disk under a folder or a database can do, and which profile fits.

    Takes about `seconds`, 2 if None, and less than one if `quick`. Up to 256 MB are written into a
    hidden file and removed again; no database is touched.
    """
    words = flags(seconds=seconds, quick=quick, json=True)
    return run_json(["storage", *words, *_positional(path)])


@checked
def advise(
    path: PathLike = ".",
    *,
    rows: int | None = None,
    size: int | None = None,
    power_cut: Literal["survives", "may-lose-last", "rebuildable"] | None = None,
    writers: int | None = None,
    attached: bool = False,
) -> dict[str, Any]:
    """Says which profile and which way in fit a program, with the figures of the last `bench`.

    `rows`: rows that come at once; `size`: their bytes; `power_cut`: the effect that it may have,
    "survives" (if None), "may-lose-last" or "rebuildable"; `writers`: threads or processes that
    write; `attached`: transactions span attached databases.
    """
    words = flags(rows=rows, size=size, power_cut=power_cut, writers=writers, attached=attached)
    return run_json(["advise", *words, "--json", *_positional(path)])


@checked
def index(
    db: PathLike,
    table: str,
    columns: str | Sequence[str],
    *,
    unique: bool = False,
    name: str | None = None,
    if_not_exists: bool = False,
    analyze: bool = False,
    memory: str | int | None = None,
    tmpdir: PathLike | None = None,
    busy_timeout: float | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Makes an index on a table, with the database in use.

    `columns` are names, each with a collation and ASC or DESC after it if wanted: "name NOCASE".
    `memory`: bytes for the sort, also as "512M"; `busy_timeout`: seconds to wait for other programs
    that write, 5 if None. After an error the database is as it was; only
    after `OutcomeUnknown`, from a disk that failed at the commit, it may have the index.
    """
    words = flags(
        unique=unique,
        name=name,
        if_not_exists=if_not_exists,
        analyze=analyze,
        memory=memory,
        tmpdir=tmpdir,
        busy_timeout=_milliseconds(busy_timeout),
        threads=threads,
        json=True,
    )
    text = columns if isinstance(columns, str) else ",".join(columns)
    return run_json(["index", *words, *_positional(db, table, text)])
