"""`df.leafpress.write(…)`, and the plug-in of sqlite-utils."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import leafpress as lp

CRATE = Path(__file__).resolve().parents[1]


def rows_of(database: Path, table: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(f'SELECT * FROM "{table}" ORDER BY 1').fetchall()
    finally:
        connection.close()


def assert_runs(script: str, folder: Path | None = None) -> None:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_writes_itself(library: str, tmp_path: Path) -> None:
    frames = pytest.importorskip(library)
    database = tmp_path / "app.db"
    frame = frames.DataFrame({"id": [2, 1], "name": ["Bob", None]})
    report = frame.leafpress.write(database, table="people", pk="id")
    assert report.rows_loaded == 2
    assert rows_of(database, "people") == [(1, None), (2, "Bob")]
    with pytest.raises(lp.OperationalError):
        frame.leafpress.write(database, table="people")
    more = frames.DataFrame({"id": [1], "name": ["Ann"]})
    more.leafpress.write(database, table="people", if_exists="upsert")
    assert rows_of(database, "people") == [(1, "Ann"), (2, "Bob")]
    with pytest.raises(TypeError):
        frame.leafpress.write(database, table="people", no_such_option=True)
    if library == "polars":
        frame.lazy().leafpress.write(os.fsencode(database), table="lazy")
        assert rows_of(database, "lazy") == [(1, None), (2, "Bob")]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("order", ["leafpress first", "leafpress last"])
def test_the_order_of_imports_does_not_matter(library: str, order: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    imports = ["import leafpress", f"import {library}"]
    script = "\n".join(
        [
            *(imports if order == "leafpress first" else imports[::-1]),
            "import sys, importlib.resources",
            f"{library}.DataFrame({{'x': [1]}}).leafpress.write('a.db', table='t')",
            # The library finds its own files as without us.
            f"spec = sys.modules['{library}'].__spec__",
            "assert type(spec.loader).__name__ == 'SourceFileLoader', spec",
            f"assert list(importlib.resources.files('{library}').iterdir())",
        ]
    )
    assert_runs(script, tmp_path)
    assert rows_of(tmp_path / "a.db", "t") == [(1,)]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_look_for_the_library_is_no_import(library: str) -> None:
    pytest.importorskip(library)
    script = (
        "import leafpress, importlib.util, sys\n"
        f"assert importlib.util.find_spec('{library}') is not None\n"
        f"import {library}\n"
        f"{library}.DataFrame({{'x': [1]}}).leafpress\n"
        "assert not [f for f in sys.meta_path if getattr(f, 'name', '') == '" + library + "']\n"
    )
    assert_runs(script)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_files_of_a_library_are_found_before_its_import(library: str) -> None:
    pytest.importorskip(library)
    script = (
        "import leafpress, importlib.util, pkgutil\n"
        f"loader = importlib.util.find_spec('{library}').loader\n"
        f"assert loader.get_filename('{library}') and loader.is_package('{library}')\n"
        f"assert 'DataFrame' in loader.get_source('{library}')\n"
        f"assert pkgutil.get_data('{library}', '__init__.py')\n"
    )
    assert_runs(script)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_package_that_is_loaded_again_warns_of_nothing(library: str) -> None:
    pytest.importorskip(library)
    script = (
        f"import importlib, warnings, leafpress, leafpress._frames, {library}\n"
        "warnings.simplefilter('error')\n"
        "importlib.reload(leafpress._frames).register()\n"
        f"{library}.DataFrame({{'x': [1]}}).leafpress.write\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)


def test_no_library_of_frames_is_imported_by_ours() -> None:
    script = "import leafpress, sys; print([n for n in ('pandas', 'polars', 'numpy', 'pyarrow') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_library_that_is_missing_stays_missing(tmp_path: Path) -> None:
    blocked = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
    script = blocked + (
        "import leafpress\n"
        "for _ in range(2):\n"
        "    try: import polars\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "No module named 'polars'\n" * 2, done.stderr


def sqlite_utils(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs sqlite-utils with our plug-in, as pyproject.toml declares it."""
    project = (CRATE / "pyproject.toml").read_text()
    declared = re.search(r"\[project\.entry-points\.sqlite_utils\]\n(.*?)\n\n", project, re.DOTALL)
    assert declared is not None
    installed = folder / "installed" / "leafpress-0.1.0.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: leafpress\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text(f"[sqlite_utils]\n{declared[1].replace(chr(34), '')}\n")
    path = os.pathsep.join([str(installed.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "sqlite_utils", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_sqlite_utils_has_our_command(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_utils")
    (tmp_path / "a.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    (tmp_path / "b.csv").write_text("id,name\n2,Bea\n")
    words = ["leafpress-load", "app.db", "people"]
    done = sqlite_utils(tmp_path, *words, "a.csv", "--pk", "id", "--index", "name NOCASE")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "loaded 2 rows into table people of app.db\n"
    done = sqlite_utils(tmp_path, *words, "b.csv")
    assert done.returncode == 1 and "on disk:" in done.stderr and "Traceback" not in done.stderr
    assert sqlite_utils(tmp_path, *words, "b.csv", "--upsert").returncode == 0
    assert rows_of(tmp_path / "app.db", "people") == [(1, "Ann"), (2, "Bea")]
