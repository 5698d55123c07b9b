"""Real files, loaded by the binary, against what Python's csv module reads.

Needs Python 3 and nothing else. Run by `make test-python`, or
by hand: LEAFPRESS=target/release/leafpress python3 tests/python/test_real_files.py
The files are looked for in LEAFPRESS_DATA, else beside the repository; where
they are not, the tests say so and pass.
"""

import csv
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BESIDE = os.path.join(HERE, "..", "..", "..", "shared", "data")
DATA = os.environ.get("LEAFPRESS_DATA", BESIDE)
LEAFPRESS = os.environ.get("LEAFPRESS", "leafpress")
csv.field_size_limit(sys.maxsize)

# Options, the text that means NULL, and what a careful person would choose.
FILES = {
    "routes.dat": (
        ["--no-header", "--null", r"\N"],
        "TEXT INTEGER TEXT INTEGER TEXT INTEGER TEXT INTEGER TEXT",
    ),
    "airports.dat": (
        ["--no-header", "--null", r"\N", "--escape", "\\"],
        "INTEGER TEXT TEXT TEXT TEXT TEXT REAL REAL INTEGER REAL TEXT TEXT TEXT TEXT",
    ),
    "weather.csv": (
        ["--null", "NA"],
        # One pressure is written 1e3.
        "TEXT INTEGER INTEGER INTEGER INTEGER REAL REAL REAL INTEGER REAL REAL REAL TEXT REAL"
        " TEXT",
    ),
    "planes.csv": (
        ["--null", "NA"],
        "TEXT INTEGER TEXT TEXT TEXT INTEGER INTEGER INTEGER TEXT",
    ),
    "zipcodes.csv": ([], "TEXT REAL REAL TEXT TEXT TEXT"),
    "birdstrikes.csv": ([], "TEXT " * 10 + "INTEGER INTEGER INTEGER INTEGER"),
}


def plain(real):
    """The shortest decimal form without an exponent."""
    text = repr(real)
    if "e" in text:
        text = format(real, ".30f").rstrip("0") if real < 1 else str(int(real))
    return text


def texts_of_reals(reals, decimals):
    """The forms that a REAL column may have, for all its values at once."""
    yield [plain(real) for real in reals]
    yield [plain(real).removesuffix(".0") for real in reals]
    yield [f"{real:.{decimals}f}" for real in reals]


class RealFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def load(self, path, *options):
        name = f"{len(os.listdir(self.folder.name))}.db"
        database = os.path.join(self.folder.name, name)
        command = [LEAFPRESS, "load", database, path, "--table", "t", "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        connection = sqlite3.connect(database)
        self.addCleanup(connection.close)
        check = connection.execute("PRAGMA integrity_check").fetchone()[0]
        self.assertEqual(check, "ok")
        rows = connection.execute("SELECT * FROM t ORDER BY rowid").fetchall()
        self.assertEqual(report["rows_loaded"], len(rows))
        return report, rows

    def compare(self, path, null, options, **dialect):
        """Loads a file; each column must be what the csv module reads."""
        with open(path, encoding="utf-8", newline="") as file:
            wanted = [row for row in csv.reader(file, **dialect) if row]
        report, rows = self.load(path, *options)
        columns = report["columns"]
        if "--no-header" not in options:
            names = wanted.pop(0)
            self.assertEqual([column["name"] for column in columns], names)
        self.assertEqual(len(rows), len(wanted))
        for index, column in enumerate(columns):
            values = [row[index] for row in rows]
            texts = [row[index] for row in wanted]
            self.compare_column(column, values, texts, null)
        return [column["declared_type"] for column in columns]

    def compare_column(self, column, values, texts, null):
        declared = column["declared_type"]
        reals, real_texts = [], []
        for value, text in zip(values, texts):
            context = (column["name"], declared, text)
            if value is None:
                self.assertTrue(text == null or (text == "" and declared != "TEXT"), context)
            elif declared == "REAL":
                self.assertIsInstance(value, float, context)
                reals.append(value)
                real_texts.append(text)
            else:
                self.assertEqual(str(value), text, context)
        if reals:
            decimals = len(real_texts[0].partition(".")[2])
            fits = any(form == real_texts for form in texts_of_reals(reals, decimals))
            self.assertTrue(fits, (column["name"], real_texts[:5]))

    def test_real_files(self):
        if not os.path.isdir(DATA):
            print(f"skipped: there is no {DATA}; set LEAFPRESS_DATA")
            return
        for name, (options, types) in FILES.items():
            with self.subTest(name):
                null = options[options.index("--null") + 1] if "--null" in options else None
                dialect = {"escapechar": "\\"} if "--escape" in options else {}
                if dialect and null:
                    # The csv module takes the marker for an escaped letter.
                    null = null.removeprefix("\\")
                path = os.path.join(DATA, name)
                found = self.compare(path, null, options, **dialect)
                self.assertEqual(found, types.split())

    def test_spectrum(self):
        folder = os.path.join(DATA, "csv-spectrum")
        if not os.path.isdir(folder):
            print(f"skipped: there is no {folder}; set LEAFPRESS_DATA")
            return
        names = sorted(os.listdir(os.path.join(folder, "csvs")))
        self.assertGreater(len(names), 8)
        for name in names:
            with self.subTest(name):
                path = os.path.join(folder, "csvs", name)
                self.compare(path, None, [])
                report, rows = self.load(path, "--all-text", "--page-size", "512")
                keys = [column["name"] for column in report["columns"]]
                stem = os.path.splitext(name)[0]
                with open(os.path.join(folder, "json", stem + ".json"), encoding="utf-8") as file:
                    wanted = json.load(file)
                found = [dict(zip(keys, row)) for row in rows]
                self.assertEqual(self.bare(found), self.bare(wanted))

    @staticmethod
    def bare(rows):
        """Without returns: version control is prone to strip them from the files."""
        return [{key: value.replace("\r", "") for key, value in row.items()} for row in rows]


if __name__ == "__main__":
    unittest.main()
