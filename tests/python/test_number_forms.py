"""What DuckDB makes of the texts in the table of number forms.

The table records it, and this asks DuckDB again. Needs DuckDB in the version that
rivals/requirements.txt names, as in rivals/.venv (made by `make bench-rivals`); where it
is not there, the test says so and passes. Run by `make test-python`, or by hand:
rivals/.venv/bin/python tests/python/test_number_forms.py
"""

import csv
import re
import tempfile
import unittest
from pathlib import Path

try:
    import duckdb
except ImportError:
    duckdb = None

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "crates" / "leafpress" / "tests" / "load_oracle" / "number_forms.tsv"
REQUIREMENTS = ROOT / "rivals" / "requirements.txt"
SAID = re.search(r"read_csv of DuckDB (\S+)", TABLE.read_text(encoding="utf-8")).group(1)


def forms():
    lines = TABLE.read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


class NumberForms(unittest.TestCase):
    def test_the_table_is_of_the_version_that_the_rivals_have(self):
        self.assertIn(f"duckdb=={SAID}\n", REQUIREMENTS.read_text())

    def test_duckdb_says_what_the_table_says(self):
        if duckdb is None or duckdb.__version__ != SAID:
            found = "none" if duckdb is None else duckdb.__version__
            self.skipTest(f"DuckDB {SAID} is needed, here is {found}: use rivals/.venv/bin/python")
        connection = duckdb.connect()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "v.csv"
            for text, *_, found, cast in forms():
                with open(path, "w", newline="", encoding="utf-8") as file:
                    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["v"], [text]])
                query = "SELECT typeof(v) FROM read_csv(?, header=true, delim=',', quote='\"')"
                typed = connection.execute(query, [str(path)]).fetchone()[0]
                value = connection.execute("SELECT TRY_CAST(? AS DOUBLE)", [text]).fetchone()[0]
                value = "NULL" if value is None else repr(value)
                self.assertEqual((typed, value), (found, cast), text)


if __name__ == "__main__":
    unittest.main()
