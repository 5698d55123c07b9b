"""The benchmark beside other tools, run small, so that it does not rot.

Needs Python 3 and nothing else: what is not installed the benchmark has to name
as unavailable. Run by `make test-python`, or by hand:
LEAFPRESS=target/release/leafpress python3 tests/python/test_rivals.py
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from contextlib import closing
from pathlib import Path

RIVALS = Path(__file__).resolve().parents[2] / "rivals"
SCRIPT = RIVALS / "bench_rivals.py"
LEAFPRESS = os.environ.get("LEAFPRESS", "leafpress")

sys.path.insert(0, str(RIVALS))
sys.dont_write_bytecode = True
import bench_rivals  # Only now can it be found.


def rung(rows, walls, has_index=False):
    """A rung that has run."""
    made = bench_rivals.Rung("x", "durable", lambda source, database: [], has_index=has_index)
    made.data = bench_rivals.Input(Path("x"), 1, rows)
    made.runs = [bench_rivals.Run(wall_s, wall_s, 1.0) for wall_s in walls]
    return made


class Rivals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_quick(self, *only):
        """The report of a quick run, after which nothing else may be left."""
        report = self.folder / "report.json"
        flags = [flag for name in only for flag in ("--only", name)]
        command = [sys.executable, SCRIPT, "--leafpress", LEAFPRESS, "--quick"]
        place = ["--dir", self.folder, "--json", report]
        done = subprocess.run([*command, *place, *flags], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.folder), ["report.json"])
        return json.loads(report.read_text())

    def test_a_quick_run_measures_or_says_why_not(self):
        names = bench_rivals.RATIOS
        report = self.run_quick()
        self.assertEqual(report["experiment"], "rivals")
        for name in names:
            said = name in report["ratios"], name in report.get("unavailable", {})
            self.assertEqual(sum(said), 1, name)
        if shutil.which("sqlite3"):
            for name in ("csv_vs_import", "csv_index_vs_import"):
                ratio = report["ratios"][name]
                self.assertLessEqual(ratio["min"], ratio["value"])
                self.assertLessEqual(ratio["value"], ratio["max"])
            self.assertTrue(all(len(rung["runs_s"]) == 2 for rung in report["rungs"]))

    def test_a_part_counts_row_by_row(self):
        ratio = bench_rivals.ratio(rung(1000, [1.0, 2.0]), rung(100, [3.0, 5.0]))
        self.assertEqual(ratio, {"value": 27.5, "min": 25.0, "max": 30.0})

    def test_an_index_must_be_there_and_whole(self):
        database = self.folder / "a.db"
        made = rung(2, [], has_index=True)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE data(id, description, day)")
            connection.execute("INSERT INTO data VALUES (1, 'b', 'x'), (2, 'a', 'y')")
            connection.commit()
            connection.execute("CREATE INDEX one ON data(day)")
            connection.execute("CREATE INDEX two ON data(description) WHERE id > 1")
            with self.assertRaisesRegex(bench_rivals.BenchError, "no index on description"):
                bench_rivals.check_index(made, database)
            connection.execute('CREATE INDEX "the ""other" ON data(description)')
            bench_rivals.check_index(made, database)
            connection.execute("INSERT INTO data VALUES (3, 'c', 'z')")
            connection.commit()
            with self.assertRaisesRegex(bench_rivals.BenchError, "3 entries, not 2"):
                bench_rivals.check_index(made, database)

    def test_rows_that_differ_are_found(self):
        database = self.folder / "a.db"
        made, expected = rung(2, []), {}
        columns = "id, quantity, account, price, latitude, description, day, city"

        def check(rows):
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("DROP TABLE IF EXISTS data")
                connection.execute(f"CREATE TABLE data({columns})")
                insert = "INSERT INTO data VALUES (?, ?, 3, 4.5, 6, 'a', 'b', 'c')"
                connection.executemany(insert, rows)
                connection.commit()
            bench_rivals.check(made, database, expected)

        check([(1, 7), (2, 8)])
        check([("1", "7"), ("2", "8")])
        for wrong in ([(1, 7)], [(1, 7), (3, 8)], [(1, 7), (2, 9)]):
            with self.assertRaises(bench_rivals.BenchError):
                check(wrong)


if __name__ == "__main__":
    unittest.main()
