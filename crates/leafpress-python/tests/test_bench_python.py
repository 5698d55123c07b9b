"""The benchmark of the package beside its rivals, run small, so that it does not rot."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

RIVALS = Path(__file__).resolve().parents[3] / "rivals"
sys.path.insert(0, str(RIVALS))
import bench_python


def quick(folder: Path, *only: str, python: tuple[str, ...] = ()) -> dict[str, Any]:
    """The report of a quick run, after which nothing else may be left."""
    words = [word for name in only for word in ("--only", name)]
    place = ["--dir", folder, "--json", folder / "report.json"]
    command = [sys.executable, *python, RIVALS / "bench_python.py", "--quick", "--repeats", "2"]
    done = subprocess.run([*command, *place, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert os.listdir(folder) == ["report.json"]
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def test_a_quick_run_measures(tmp_path: Path) -> None:
    for module in ("polars", "pandas", "aiosqlite"):
        pytest.importorskip(module)
    report = quick(tmp_path, "pandas", "executemany", "aiosqlite")
    assert report["experiment"] == "python" and "unavailable" not in report
    assert set(report["ratios"]) == {"pandas", "executemany", "aiosqlite"}
    for ratio in report["ratios"].values():
        assert 0 < ratio["min"] <= ratio["value"] <= ratio["max"]
    assert all(len(rung["runs_s"]) == 2 for rung in report["rungs"])
    [in_flight] = [rung for rung in report["rungs"] if rung["name"] == "AsyncWriter, 512 tasks"]
    assert in_flight["cpu_us_per_call"] > 0


def test_what_is_not_installed_is_unavailable(tmp_path: Path) -> None:
    """Without site-packages and without our package, all of it."""
    report = quick(tmp_path, python=("-E", "-S"))
    assert set(report["unavailable"]) == set(bench_python.RATIOS)
    assert report["ratios"] == {} and report["rungs"] == []


def test_rows_that_differ_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Namespace(expected={})
    made = bench_python.Rung("x", "x", "durable")

    def leave(rows: list[tuple[Any, ...]]) -> None:
        connection = sqlite3.connect(tmp_path / "new.db")
        connection.execute("DROP TABLE IF EXISTS data")
        connection.execute("CREATE TABLE data(id, quantity, price, latitude, name, city, note, day)")
        insert = "INSERT INTO data VALUES (?, ?, 1.5, 2.5, 'a', 'b', NULL, '2024-01-01 00:00:00')"
        connection.executemany(insert, rows)
        connection.commit()
        connection.close()
        bench_python.run_load(made, options, tmp_path)

    monkeypatch.setattr(bench_python, "run_peer", lambda *_: {"rows": 2})
    leave([(1, 7), (2, 8)])
    for wrong in ([(1, 7)], [(1, 7), (2, 9)]):
        with pytest.raises(bench_python.BenchError):
            leave(wrong)
