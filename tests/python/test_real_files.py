"""Real files, loaded by the binary, against what Python's csv and json modules read.

Needs Python 3 and nothing else; with pyarrow every value of the Arrow and
Parquet files is compared, too. Run by `make test-python`, or
by hand: LEAFPRESS=target/release/leafpress python3 tests/python/test_real_files.py
The files are looked for in LEAFPRESS_DATA, else beside the repository; where
they are not, the tests say so and pass.
"""

import csv
import datetime
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

try:
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError:
    pyarrow = None

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
        "TEXT INTEGER INTEGER INTEGER INTEGER REAL REAL REAL INTEGER REAL REAL REAL REAL REAL"
        " TEXT",
    ),
    "planes.csv": (
        ["--null", "NA"],
        "TEXT INTEGER TEXT TEXT TEXT INTEGER INTEGER INTEGER TEXT",
    ),
    "zipcodes.csv": ([], "TEXT REAL REAL TEXT TEXT TEXT"),
    "birdstrikes.csv": ([], "TEXT " * 10 + "INTEGER INTEGER INTEGER INTEGER"),
}

# The types of --exact, where they are others: one pressure is written 1e3.
EXACT_TYPES = {
    "weather.csv": "TEXT INTEGER INTEGER INTEGER INTEGER REAL REAL REAL INTEGER REAL REAL REAL TEXT"
    " REAL TEXT",
}

MOVIE_TYPES = {
    "US Gross": "INTEGER",
    "Worldwide Gross": "INTEGER",
    "US DVD Sales": "INTEGER",
    "Production Budget": "INTEGER",
    "Running Time min": "INTEGER",
    "Rotten Tomatoes Rating": "INTEGER",
    "IMDB Rating": "REAL",
    "IMDB Votes": "INTEGER",
}

# Column, type, and what pyarrow read: distinct values, the least, the greatest.
FLIGHTS = (
    ("delay", "INTEGER", 471, -86, 1444),
    ("distance", "INTEGER", 1079, 30, 4962),
    # A float of 32 bits.
    ("time", "REAL", 1311, 0.0, 23.983333587646484),
)
OIL_AND_GAS = (
    ("Reporting Year", "INTEGER", 31, 1985, 2015),
    ("Gas Produced, MCF", "REAL", 16828, 0.0, 6474551.0),
    ("Water Produced, bbl", "REAL", 1730, 0.0, 1467482.0),
    ("Oil Produced, bbl", "REAL", 910, 0.0, 8645.0),
    ("Surface Longitude", "REAL", 13469, -79.7616, 0.0),
    ("Surface Latitude", "REAL", 11930, 0.0, 43.56255),
    ("Well Name", "TEXT", 14228, None, None),
    ("Well Type", "TEXT", 17, "Brine", "Stratigraphic"),
    # As SQLite's datetime() writes it.
    ("Date Well Completed", "TEXT", 8125, "1881-08-01 00:00:00", "2016-06-07 00:00:00"),
    ("Well Status", "TEXT", 15, "Active", "Voided Permit"),
    ("__index_level_0__", "INTEGER", 260374, 0, 260373),
)


def plain(real):
    """The shortest decimal form without an exponent."""
    text = repr(real)
    if "e" in text:
        text = format(real, ".30f").rstrip("0") if real < 1 else str(int(real))
    return text


def is_usual(value, text):
    """Whether a number without exponent is written in as few digits as it needs."""
    bare = plain(value).removesuffix(".0")
    return text in (bare, bare + ".0")


def texts_of_reals(reals, decimals):
    """The forms that a REAL column may have, for all its values at once."""
    yield [plain(real) for real in reals]
    yield [plain(real).removesuffix(".0") for real in reals]
    yield [f"{real:.{decimals}f}" for real in reals]


class RealFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def load(self, path, *options, order="rowid"):
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
        rows = connection.execute(f"SELECT * FROM t ORDER BY {order}").fetchall()
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
            self.compare_column(column, values, texts, null, "--exact" in options)
        return [column["declared_type"] for column in columns]

    def compare_column(self, column, values, texts, null, exact):
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
        if reals and not exact:
            for value, text in zip(reals, real_texts):
                self.assertEqual(Decimal(repr(value)), Decimal(text), column["name"])
            changed = [text for value, text in zip(reals, real_texts) if not is_usual(value, text)]
            said = column["changed_form"] or {"values": 0, "value": None}
            first = changed[0] if changed else None
            self.assertEqual((said["values"], said["value"]), (len(changed), first))
        elif reals:
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
                exact = self.compare(path, null, [*options, "--exact"], **dialect)
                self.assertEqual(exact, EXACT_TYPES.get(name, types).split())

    def data_file(self, name):
        path = os.path.join(DATA, name)
        if os.path.isfile(path):
            return path
        print(f"skipped: there is no {path}; set LEAFPRESS_DATA")
        return None

    def test_json(self):
        path = self.data_file("movies.json")
        if path is None:
            return
        with open(path, encoding="utf-8") as file:
            movies = json.load(file)
        report, rows = self.load(path)
        names = [column["name"] for column in report["columns"]]
        self.assertEqual(names, list(movies[0]))
        self.assertEqual(len(rows), len(movies))
        for column in report["columns"]:
            name = column["name"]
            self.assertEqual(column["declared_type"], MOVIE_TYPES.get(name, "TEXT"), name)
        for row, movie in zip(rows, movies):
            for name, value in zip(names, row):
                self.compare_value(name, value, movie[name])

        # Dates like these are no ISO 8601, so they stay as they are.
        self.assertEqual(rows[0][names.index("Release Date")], "Jun 12 1998")
        # The same as lines, with a key and an index, in a table without rowids.
        lines = os.path.join(self.folder.name, "movies.ndjson")
        with open(lines, "w", encoding="utf-8") as file:
            for number, movie in enumerate(movies):
                file.write(json.dumps({"number": number, **movie}) + "\n")
        options = ("--pk", "number", "--without-rowid", "--index", "Major Genre")
        _, again = self.load(lines, *options, order="number")
        self.assertEqual([row[1:] for row in again], rows)

    def compare_value(self, name, value, wanted):
        """A title that is a number in the file is a text beside other texts."""
        if name not in MOVIE_TYPES and wanted is not None:
            wanted = wanted if isinstance(wanted, str) else json.dumps(wanted)
        self.assertEqual(value, wanted, name)
        if MOVIE_TYPES.get(name) == "INTEGER" and value is not None:
            self.assertIsInstance(value, int, name)

    def test_arrow_and_parquet(self):
        files = (
            ("flights-200k.arrow", 200_000, FLIGHTS),
            ("oil-and-gas.parquet", 260_374, OIL_AND_GAS),
        )
        for name, count, wanted in files:
            path = self.data_file(name)
            if path is None:
                continue
            with self.subTest(name):
                report, rows = self.load(path)
                self.assertEqual(len(rows), count)
                names = [column["name"] for column in report["columns"]]
                types = [column["declared_type"] for column in report["columns"]]
                self.assertEqual(names, [column[0] for column in wanted])
                self.assertEqual(types, [column[1] for column in wanted])
                for index, (column, _, distinct, least, greatest) in enumerate(wanted):
                    values = [row[index] for row in rows]
                    self.assertEqual(len(set(values)), distinct, column)
                    if least is not None:
                        self.assertEqual((min(values), max(values)), (least, greatest), column)
                self.compare_with_pyarrow(path, rows)

    def compare_with_pyarrow(self, path, rows):
        if pyarrow is None:
            return
        if path.endswith(".parquet"):
            table = pyarrow.parquet.read_table(path)
        else:
            table = pyarrow.ipc.open_file(path).read_all()
        for index, column in enumerate(table.columns):
            wanted = column.to_pylist()
            if isinstance(wanted[0], datetime.datetime):
                wanted = [value.strftime("%Y-%m-%d %H:%M:%S") for value in wanted]
            self.assertEqual([row[index] for row in rows], wanted, table.column_names[index])

    def test_formats_agree(self):
        """The same rows by way of another database, and of CSV, give the same table."""
        path = self.data_file("zipcodes.csv")
        if path is None:
            return
        report, rows = self.load(path)
        source = f"{report['database']}::t"
        copied, again = self.load(source)
        self.assertEqual(again, rows)
        types = [[column["declared_type"] for column in each["columns"]] for each in (report, copied)]
        self.assertEqual(*types)

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
