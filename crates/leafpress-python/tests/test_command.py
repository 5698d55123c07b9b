"""`python -m leafpress` is the command: words, statuses, signals; and its functions.

The command `leafpress` itself is the oracle. `LEAFPRESS` names it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import leafpress as lp

ROOT = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("LEAFPRESS", ROOT / "target" / "debug" / "leafpress"))
MODULE = [sys.executable, "-m", "leafpress"]

COMMANDS = [
    "",
    "--help",
    "-h",
    "--version",
    "load --help",
    "queue push --help",
    "completions bash",
    "man",
    "nothing",
    "load",
    "load a.db people.csv --no-such-flag",
    "load a.db people.csv --json --no-such-flag",
    "load a.db missing.csv",
    "load a.db missing.csv --json",
    "load a.db people.csv --pk id --index 'name NOCASE'",
    "load a.db people.csv --json",
    "load a.db people.csv --dry-run",
    "load old.db people.csv --table person",
    "load a.db bad.csv --on-error skip --rejects rejects.csv",
    "load a.db bad.csv",
    "verify old.db",
    "verify old.db --json",
    "verify people.csv --json",
    "index old.db person name --unique --quiet",
    "index old.db nobody name --json",
    "queue push a.db mail '{\"to\": \"ann\"}'",
    "queue list old.db mail",
    "queue stats old.db --json",
    "io old.db -c 'SELECT * FROM person' --json --no-such",
    "bench nothing",
    "bench --from missing.json --json -",
]

# What is measured differs from run to run.
MEASURED = re.compile(
    r"\d[\d.,]* ?(?:[kMG] )?(?:(?:rows|B)/s|(?:ns|µs|ms|s|kB|MB|GB|KiB|MiB)(?:/s)?)(?!\w)"
    r'|"(?:seconds|\w+_(?:s|us|ms|mb|bytes_per_s))":[\d.e-]+|"\w*per_second\w*":[\d.e-]+'
)


def prepare(folder: Path) -> None:
    """The files that the command lines name."""
    folder.mkdir()
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    (folder / "bad.csv").write_text("id,name\n1,Ann\n2,Bob,too many\n3,Cy\n")
    database = sqlite3.connect(folder / "old.db")
    database.execute("CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT)")
    database.commit()
    database.close()


def run(program: list[str], words: str, folder: Path) -> tuple[int, str, str]:
    """Status, stdout and stderr, without what is measured."""
    cache = {"LEAFPRESS_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [*program, *shlex.split(words)],
        cwd=folder,
        env={**os.environ, **cache},
        capture_output=True,
        text=True,
        timeout=120,
    )

    def normal(text: str) -> str:
        # Which stages took a share worth a line is measured too.
        text = re.sub(r"\n +stage(.|\n)*?\n\n", "\n", text)
        return " ".join(MEASURED.sub("#", text.replace(str(folder), "FOLDER")).split())

    return done.returncode, normal(done.stdout), normal(done.stderr)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_module_is_the_command(words: str, tmp_path: Path) -> None:
    results = []
    for name, program in (("command", [str(BINARY)]), ("module", MODULE)):
        folder = tmp_path / name
        prepare(folder)
        results.append((run(program, words, folder), sorted(os.listdir(folder))))
    assert results[0] == results[1]


def test_help_names_the_command() -> None:
    said = subprocess.run([*MODULE, "load"], capture_output=True, text=True).stderr
    assert "Usage: leafpress load" in said


def test_a_reader_that_has_gone_is_no_failure() -> None:
    line = f"{shlex.join(MODULE)} man | head -c 10; echo status ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.stdout.endswith("status 0\n") and done.stderr == ""


def endless_load(folder: Path) -> subprocess.Popen[bytes]:
    """A load from a pipe that has written its temporary file and waits for more."""
    program = [*MODULE, "load", "a.db", "-", "--format", "csv"]
    process = subprocess.Popen(
        program,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"id,name\n" + b"1,Ann\n" * 1_000_000)
    process.stdin.flush()
    end = time.monotonic() + 60
    while not os.listdir(folder) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    return process


def test_ctrl_c_stops_a_load_and_leaves_nothing(tmp_path: Path) -> None:
    process = endless_load(tmp_path)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3, said
    assert b"stopped" in said
    assert os.listdir(tmp_path) == []


def test_ctrl_c_ends_a_command_without_a_handler() -> None:
    # `help` sets none. After it, as within it, the signal has the effect that a command expects.
    script = (
        "import sys; from leafpress.__main__ import main; sys.argv = ['leafpress', 'help'];"
        "main(); import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30)
    assert done.returncode == -signal.SIGINT


def test_verify_and_index(tmp_path: Path) -> None:
    prepare(tmp_path / "x")
    database = tmp_path / "x" / "old.db"
    assert lp.verify(database)["sound"] is True
    lp.index(database, "person", ["name NOCASE", "id DESC"], unique=True, name="of name")
    connection = sqlite3.connect(database)
    found = connection.execute("SELECT name, coll, desc FROM pragma_index_xinfo('of name')").fetchall()
    assert found[:2] == [("name", "NOCASE", 0), ("id", "BINARY", 1)]
    connection.execute("INSERT INTO person VALUES (1, 'Ann'), (2, 'ann')")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("CREATE UNIQUE INDEX x ON person(name COLLATE NOCASE)")
    connection.commit()
    connection.close()
    with pytest.raises(lp.IntegrityError) as caught:
        lp.index(database, "person", "name NOCASE", unique=True)
    assert isinstance(caught.value, sqlite3.IntegrityError)
    assert caught.value.kind == "constraint"
    assert caught.value.on_disk and caught.value.on_disk in str(caught.value)
    with pytest.raises(lp.OperationalError, match="choose another name with name$"):
        lp.index(database, "person", "id", name="of name")


def test_a_database_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("this is no database, and long enough to be read as a header" * 9)
    with pytest.raises(lp.DatabaseError) as caught:
        lp.verify(tmp_path / "a.db")
    assert caught.value.kind == "not_a_database"
    with pytest.raises(lp.ProgrammingError, match="for 'writers': name a number(.|\n)*the function's documentation$"):
        lp.advise(tmp_path, writers=0)


def test_a_name_that_looks_like_a_flag_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sqlite3.connect("--help").execute("CREATE TABLE t(x)").connection.close()
    assert lp.verify("--help")["sound"] is True


def test_doctor_storage_and_advise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFPRESS_CACHE", str(tmp_path / "cache"))
    prepare(tmp_path / "x")
    found = lp.doctor(tmp_path / "x" / "old.db", busy_timeout=0.1)
    assert isinstance(found["healthy"], bool) and len(found["checks"]) > 10
    assert lp.storage(tmp_path, quick=True)["measured"]
    assert lp.advise(tmp_path, writers=16, power_cut="may-lose-last")


def test_bench_gives_the_data_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFPRESS_CACHE", str(tmp_path / "cache"))
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    report = lp.bench("writer", quick=True, only=["alone"], repeats=1, dir=tmp_path, html=page, json=data)
    assert json.loads(data.read_text()) == report.data
    assert report.data["experiment"] == "writer"
    assert set(report.ratios) and all(ratio["value"] > 0 for ratio in report.ratios.values())
    assert page.read_text() == report.page and report.page.startswith("<!DOCTYPE html>")
    shown = report._repr_html_()
    assert shown.startswith("<iframe") and "<script" not in shown and shown.count("<") == 2
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.json"]
    with pytest.raises(lp.ProgrammingError, match="there is no such in the experiment writer"):
        lp.bench("writer", only="such", dir=tmp_path)
    with pytest.raises(lp.ProgrammingError) as wrong:
        lp.bench(from_=tmp_path / "none.json")
    assert wrong.value.kind == "not_found" and wrong.value.on_disk and wrong.value.to_do
    again = lp.bench(from_=data)
    assert again.ratios == report.ratios
    with pytest.raises(lp.ProgrammingError, match="there is no such folder"):
        lp.bench("atomic", quick=True, dir=tmp_path, json=tmp_path / "no" / "a.json")


def test_ctrl_c_in_a_function_stops_its_command(tmp_path: Path) -> None:
    script = (
        "import leafpress, sys\n"
        "try: leafpress.bench('load', dir=sys.argv[1])\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    program = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE)
    end = time.monotonic() + 60
    while not os.listdir(tmp_path) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert os.listdir(tmp_path), "it has begun"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == b"interrupted\n"
    assert os.listdir(tmp_path) == []
