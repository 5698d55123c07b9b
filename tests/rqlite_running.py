"""Loads files into a running cluster of rqlite: three real nodes, whose tables are compared with those that
SQLite makes of the same rows; loads are killed, leaders too, and nothing half-made may stay.

`make test-rqlite` runs it: RQLITED names the server, LEAFPRESS the command with its feature rqlite.
`--rows N` measures the last transaction for a table of N rows.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.request

from rqlite_cluster import Cluster, found_rqlited
from rqlite_load import load, make_rows


def exact(columns):
    """SQL for each value with its type: texts and BLOBs by their bytes, numbers as numbers."""
    value = """typeof({0}), CASE WHEN typeof({0}) <> 'real' THEN hex(CAST({0} AS BLOB)) END,
        CASE WHEN typeof({0}) = 'real' AND abs({0}) < 9e999 THEN {0} WHEN typeof({0}) = 'real' THEN {0} > 0 END"""
    return ",".join(value.format(it) for it in columns)


def same_rows(found, expected, where=""):
    differ = [pair for pair in zip(found, expected) if pair[0] != pair[1]]
    assert len(found) == len(expected) and not differ, (where, len(found), len(expected), differ[:3])


class Tables:
    """Tables of the cluster, read by SQL."""

    def __init__(self, cluster):
        self.cluster = cluster

    def request(self, path, statements, node=0):
        url = f"http://127.0.0.1:{self.cluster.http[node]}{path}"
        request = urllib.request.Request(url, json.dumps(statements).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["results"]

    def rows(self, sql, level="strong", node=0):
        end = time.monotonic() + 20
        while True:
            try:
                result = self.request(f"/db/query?level={level}", [[sql]], node)[0]
                assert "error" not in result, (sql, result)
                return result.get("values", [])
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def execute(self, *statements):
        for result in self.request("/db/execute?transaction", [[it] for it in statements]):
            assert "error" not in result, result

    def schema(self):
        """All that is not of Leafpress's own."""
        return self.rows("SELECT type, name, sql FROM sqlite_schema WHERE tbl_name NOT LIKE '\\_leafpress%' ESCAPE '\\' ORDER BY name")

    def stages(self):
        return [name for [name] in self.rows("SELECT name FROM sqlite_schema WHERE name LIKE '\\_leafpress\\_load%' ESCAPE '\\'")]

    def content(self, table, columns, level="strong", node=0):
        rows = self.rows(f"SELECT {exact(columns)} FROM {table} ORDER BY {','.join(columns)}", level, node)
        # rqlite writes a large number without a point.
        return [tuple(float(it) if isinstance(it, int) else it for it in row) for row in rows]


def content_of(database, table, columns):
    rows = sqlite3.connect(database).execute(f"SELECT {exact(columns)} FROM {table} ORDER BY {','.join(columns)}")
    return [tuple(row) for row in rows]


def loaded(cluster, file, *flags, status=0):
    done = load(cluster.url(), file, *flags)
    assert done.returncode == status, (flags, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def wrong(cluster, tables, file, *flags, says):
    """A load that fails leaves the tables and no staging table."""
    before = (tables.schema(), [tables.rows(f"SELECT count(*), total(id), group_concat(name) FROM {it}") for it in ("people",)])
    done = load(cluster.url(), file, *flags)
    assert done.returncode in (2, 3), done
    assert says in done.stdout + done.stderr, (says, done.stdout, done.stderr)
    assert before == (tables.schema(), [tables.rows(f"SELECT count(*), total(id), group_concat(name) FROM {it}") for it in ("people",)])
    assert tables.stages() == [], tables.stages()


def values_arrive_unchanged(cluster, tables, folder):
    source = folder / "odd.db"
    odd = sqlite3.connect(source)
    odd.execute("CREATE TABLE odd(i INTEGER, r REAL, t TEXT, b BLOB, x)")
    huge = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
    reals = [0.1, 1e300, 5e-324, float("inf"), float("-inf"), 2.0**60, 123456789.125, 1e22]
    texts = ["", "a\0b", "ü\U0001f600", 'quote " and \\ and \'', "random()", "\x7f\x01", "x" * 70_000, "nul\0"]
    blobs = [b"", b"\0\xff", bytes(range(256)), None, b"x" * 5000, b"1", b"'", b"\n"]
    mixed = [1, 1.5, "1", b"1", None, float("inf"), 2**60, "1e999"]
    odd.executemany("INSERT INTO odd VALUES(?,?,?,?,?)", zip(huge, reals, texts, blobs, mixed))
    # A text that is no UTF-8.
    odd.execute("INSERT INTO odd VALUES(9, 9, CAST(x'61ff62' AS TEXT), x'', CAST(x'fe' AS TEXT))")
    odd.commit()
    loaded(cluster, f"{source}::odd", "--table", "odd")
    columns = ["i", "r", "t", "b", "x"]
    expected = content_of(source, "odd", columns)
    for node in range(3):
        while not tables.rows("SELECT 1 FROM sqlite_schema WHERE name = 'odd'", "none", node):
            time.sleep(0.1)
        same_rows(tables.content("odd", columns, "none", node), expected, node)


def tables_that_are_there(cluster, tables, folder):
    """Each way gives the table that SQLite makes of the same INSERTs."""
    model = sqlite3.connect(":memory:")
    create = """CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'nobody', born REAL CHECK (born < 3000),
        code TEXT UNIQUE, upper AS (upper(name)))"""
    seed = "INSERT INTO people(id, name, born, code) VALUES (1,'a',1,'A'),(2,'b',2,'B'),(30,'c',3,'C')"
    for sql in (create, "CREATE INDEX people_name ON people(name)", seed):
        model.execute(sql)
        tables.execute(sql)
    columns = ["id", "name", "born", "code", "upper"]

    def write(*rows, header=("id", "name", "born", "code")):
        with open(folder / "rows.csv", "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return folder / "rows.csv"

    def same():
        model.commit()
        expected = [tuple(it) for it in model.execute(f"SELECT {exact(columns)} FROM people ORDER BY {','.join(columns)}")]
        same_rows(tables.content("people", columns), expected)
        assert tables.stages() == []

    # Rows without an id get one that neither the table nor the input has.
    file = write(("", "d", 4, "D"), (31, "e", 5, "E"), ("", "f", 6, ""))
    done = loaded(cluster, file, "--table", "people", "--append", "--empty-null")
    assert done["rows_loaded"] == 3 and any("last transaction" in it for it in done["notes"]), done
    model.executemany("INSERT INTO people(id,name,born,code) VALUES (?,?,?,?)", [(31, "e", 5, "E"), (None, "d", 4, "D"), (None, "f", 6, None)])
    same()
    # Of two unique keys, each counts, also among the rows of the input.
    rows = [(1, "x", 1, "X"), (40, "y", 1, "X"), (41, "z", 1, "A"), (42, "w", 1, "W"), (43, "v", 1, "W")]
    done = loaded(cluster, write(*rows), "--table", "people", "--ignore")
    before = model.total_changes
    model.executemany("INSERT INTO people(id,name,born,code) VALUES (?,?,?,?) ON CONFLICT DO NOTHING", rows)
    assert done["rows_loaded"] == model.total_changes - before == 2 and done["rows_ignored"] == 3, done
    same()
    # Columns that the input lacks stay; the last row of a key wins.
    rows = [(2, "first"), (50, "new"), (2, "second")]
    done = loaded(cluster, write(*rows, header=("id", "name")), "--table", "people", "--upsert")
    model.executemany("INSERT INTO people(id,name) VALUES (?,?) ON CONFLICT(id) DO UPDATE SET name=excluded.name", rows)
    assert done["rows_loaded"] == 3, done
    same()
    # What fails leaves all as it was.
    taken = "UNIQUE constraint failed: people.id: the table has a row already with id = 1"
    wrong(cluster, tables, write((60, "g", 1, "G"), (1, "h", 1, "H")), "--table", "people", "--append", says=taken)
    wrong(cluster, tables, write((60, "g", 5000, "G")), "--table", "people", "--append", says="CHECK constraint failed")
    wrong(cluster, tables, write((60, "g", "late", "G")), "--table", "people", "--append", says="late")
    wrong(cluster, tables, write((1, 2), header=("id", "upper")), "--table", "people", "--append", says="upper")
    wrong(cluster, tables, write((1,), header=("name",)), "--table", "people", "--upsert", says="no column id")
    wrong(cluster, tables, write((1, "a", 1, "A")), "--table", "missing", "--ignore", says="no table missing")
    wrong(cluster, tables, write((1, "a", 1, "A")), "--table", "people", says="there is a table people already")
    wrong(cluster, tables, write((1, "a", 1, "A")), "--table", "people", "--append", "--on-conflict", "ignore", says="--on-conflict")
    wrong(cluster, tables, write((1, "a"), header=("id", "name")), "--table", "clock", "--create", "CREATE TABLE clock(id, name DEFAULT CURRENT_TIMESTAMP)", says="CURRENT_TIMESTAMP")
    # Flags that contradict the table are refused as for a file, and a file of rejected rows goes with its load.
    contradictions = [
        (("--upsert", "--pk", "code"), "another primary key"), (("--append", "--not-null", "born"), "takes NULL in its column 'born'"),
        (("--append", "--index", "born"), "has no index of born"), (("--append", "--strict"), "strict"),
        (("--append", "--page-size", "8192"), "its pages have 4096"), (("--append", "--preset", "turso"), "preset"),
        (("--append", "--exact"), "its own declaration"),
    ]
    for given, says in contradictions:
        wrong(cluster, tables, write((60, "g", 1, "G")), "--table", "people", *given, says=says)
    for given, says in ((("--page-size", "8192"), "its pages have 4096"), (("--layout", "remote"), "another order of its pages")):
        wrong(cluster, tables, write((1,), header=("a",)), "--table", "other", *given, says=says)
    # An index of a new table takes a name that is free.
    tables.execute("CREATE INDEX free_a ON people(name)")
    loaded(cluster, write((1,), header=("a",)), "--table", "free", "--index", "a")
    assert tables.rows("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'free'") == [["free_a_2"]]
    tables.execute("DROP TABLE free", "DROP INDEX free_a")
    # Those that the table has are no other rules for the rows.
    loaded(cluster, write((70, "h", 1, "H"), (71, "i", 1, "H")), "--table", "people", "--ignore", "--pk", "id", "--index", "name", "--unique", "code")
    model.execute("INSERT INTO people(id,name,born,code) VALUES (70,'h',1,'H')")
    same()
    (folder / "none.json").write_text("[]")
    assert loaded(cluster, folder / "none.json", "--table", "people", "--append")["rows_loaded"] == 0
    same()
    rejects = folder / "rejects"
    wrong(cluster, tables, write((60, "g", "late", "G"), (1, "h", 1, "H")), "--table", "people", "--append", "--on-error", "skip",
        "--rejects", str(rejects), says="UNIQUE constraint failed: people.id")
    assert not list(folder.glob("rejects*"))
    tables.execute("CREATE TABLE heap(id, name)")
    wrong(cluster, tables, write((1, "a"), header=("id", "name")), "--table", "heap", "--ignore", says="heap has no key")
    # A key makes a table that is missing.
    for ids, rows in (((1, 2, 1), [[1, "c"], [2, "b"]]), ((2, 3), [[1, "c"], [2, "a"], [3, "b"]])):
        file = write(*zip(ids, "abc"), header=("id", "name"))
        loaded(cluster, file, "--table", "nightly", "--pk", "id", "--upsert")
        assert tables.rows("SELECT * FROM nightly ORDER BY id") == rows
    tables.execute("DROP TABLE heap", "DROP TABLE nightly")
    # Triggers run.
    for sql in ("CREATE TABLE seen(id)", "CREATE TRIGGER people_in AFTER INSERT ON people BEGIN INSERT INTO seen VALUES (new.id); END"):
        model.execute(sql)
        tables.execute(sql)
    rows = [(7, "r", 1, "R"), (5, "s", 2, "S")]
    done = loaded(cluster, write(*rows), "--table", "people", "--replace")
    model.execute("DELETE FROM people")
    model.executemany("INSERT INTO people(id,name,born,code) VALUES (?,?,?,?)", rows)
    assert done["rows_loaded"] == 2, done
    assert any("rows that were there went" in it for it in done["notes"]), done
    assert "the triggers of people ran: people_in" in done["notes"], done
    same()
    assert sorted(tables.rows("SELECT id FROM seen")) == [[5], [7]]
    tables.execute("DROP TABLE people", "DROP TABLE seen")


def a_new_table(cluster, tables, folder):
    make_rows(folder / "new.csv", 30_000)
    local = folder / "local.db"
    flags = ["--pk", "id", "--index", "name", "--unique", "value", "--analyze"]
    assert subprocess.run([os.environ["LEAFPRESS"], "load", local, folder / "new.csv", *flags, "--quiet"]).returncode == 0
    done = loaded(cluster, folder / "new.csv", *flags)
    assert done["rows_loaded"] == 30_000 and any("staging table" in it and "nodes" in it or "has tables" in it for it in done["notes"]), done
    made = sqlite3.connect(local)
    ours = {(kind, name) for kind, name, _ in tables.schema() if not name.startswith("sqlite_stat")}
    theirs = set(made.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' AND tbl_name = 'new'"))
    assert theirs <= ours, (theirs, ours)
    statistics = "SELECT tbl, idx, stat FROM sqlite_stat1 WHERE tbl = 'new' ORDER BY idx"
    assert [tuple(it) for it in tables.rows(statistics)] == list(made.execute(statistics))
    same_rows(tables.content("new", ["id", "name", "value"]), content_of(local, "new", ["id", "name", "value"]))
    assert tables.rows("PRAGMA integrity_check") == [["ok"]]


def killed_loads(cluster, tables, folder, kills):
    """Loads that are killed leave no table, and a later load drops what they left."""
    make_rows(folder / "large.csv", 400_000)
    dice = random.Random(7)
    began = time.monotonic()
    done = loaded(cluster, folder / "large.csv", "--table", "whole")
    whole = time.monotonic() - began
    assert done["rows_loaded"] == 400_000
    stayed = 0
    for number in range(kills):
        table = f"cut{number}"
        process = subprocess.Popen(
            [os.environ["LEAFPRESS"], "load", cluster.url(), folder / "large.csv", "--table", table, "--quiet"])
        time.sleep(dice.uniform(0.2, 1.1) * whole)
        process.send_signal(signal.SIGKILL if number % 2 else signal.SIGINT)
        status = process.wait()
        is_there = tables.rows(f"SELECT 1 FROM sqlite_schema WHERE name = '{table}'")
        rows = tables.rows(f"SELECT count(*) FROM {table}")[0][0] if is_there else 0
        assert rows in (0, 400_000), (table, rows)
        assert (status == 0) <= (rows == 400_000), (status, rows)
        if number % 2 == 0:
            assert len(tables.stages()) == stayed, "a load that was interrupted left a staging table"
        stayed = len(tables.stages())
        if rows:
            tables.execute(f"DROP TABLE {table}")
    # A load that may be going on keeps its table; the others are found by the age of their last group.
    (folder / "small.csv").write_text("a\n1\n")
    loaded(cluster, folder / "small.csv", "--table", "small")
    assert len(tables.stages()) == stayed
    tables.execute("CREATE TABLE _leafpress_load_00(a)", "UPDATE _leafpress_applied SET at = at - 3000")
    done = loaded(cluster, folder / "small.csv", "--table", "small2")
    assert tables.stages() == [], tables.stages()
    assert any("cut off" in it for it in done["notes"]), done
    print(f"{kills} loads were cut off: no table was half made, {stayed} staging tables stayed until a later load")


def killed_leaders(cluster, tables, folder, kills):
    """A load goes on through the deaths of leaders, and its rows are there once."""
    for number in range(kills):
        table = f"led{number}"
        process = subprocess.Popen(
            [os.environ["LEAFPRESS"], "load", cluster.url(), folder / "large.csv", "--table", table, "--json"], stdout=subprocess.PIPE, text=True)
        time.sleep(random.Random(number).uniform(1.0, 3.0))
        leader = cluster.leader()
        if leader is not None:
            cluster.processes[leader].kill()
            cluster.processes[leader].wait()
            cluster.processes[leader] = cluster.start(leader)
            cluster.wait_until_ready(leader)
        out, _ = process.communicate()
        assert process.returncode == 0, out
        expected = tables.rows("SELECT count(*), sum(id % 1000003), total(value) FROM whole")
        assert tables.rows(f"SELECT count(*), sum(id % 1000003), total(value) FROM {table}") == expected
        tables.execute(f"DROP TABLE {table}")
    print(f"{kills} leaders were killed under loads: each row is there once")


def without_most_nodes(cluster, tables, folder):
    """A load whose cluster stops tells of its wait, and afterwards of what may be left."""
    words = [os.environ["LEAFPRESS"], "load", cluster.url(), folder / "large.csv", "--table", "stopped"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (stages := tables.stages()):
        time.sleep(0.05)
    stopped = [cluster.processes[node] for node in range(3) if node != cluster.leader()]
    for node in stopped:
        node.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        says = process.communicate()[1]
    finally:
        for node in stopped:
            node.send_signal(signal.SIGCONT)
    waited = time.monotonic() - began
    assert process.returncode == 3 and waited < 45, (process.returncode, waited, says)
    assert says.count("trying again") == 1 and stages[0] in says, says
    print(f"a load without most nodes ends after {waited:.0f} s, and says what may be left")


def a_watch(cluster):
    """The statistics of queues, again and again until ctrl-C."""
    words = [os.environ["LEAFPRESS"], "queue", "push", cluster.url(), "mail", "x"]
    assert subprocess.run(words, stdout=subprocess.DEVNULL).returncode == 0
    words = [os.environ["LEAFPRESS"], "queue", "stats", cluster.url(), "--watch", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0 and all("mail: ready 1" in line for line in lines), lines


def the_doctor(cluster, tables):
    """The doctor of a cluster, before and after the death of a follower."""
    def examine():
        done = subprocess.run([os.environ["LEAFPRESS"], "doctor", cluster.url(), "--json"], capture_output=True, text=True)
        report = json.loads(done.stdout)
        assert done.returncode == (0 if report["healthy"] else 1), done
        return report, {check["number"]: check for check in report["checks"]}

    report, checks = examine()
    assert report["healthy"] and len(report["cluster"]["nodes"]) == 3, report
    assert "leads in term" in checks[41]["evidence"] and "8" in checks[42]["evidence"], checks
    assert all(abs(node["status"]["clock_ahead_s"]) < 5 for node in report["cluster"]["nodes"]), report
    # A leader that is frozen answers nothing, and another one leads soon.
    frozen = cluster.leader()
    cluster.processes[frozen].send_signal(signal.SIGSTOP)
    try:
        _, checks = examine()
    finally:
        cluster.processes[frozen].send_signal(signal.SIGCONT)
    assert f"n{frozen}" in checks[40]["evidence"], checks
    assert checks[41]["verdict"] == "ok" and f"n{frozen} leads" not in checks[41]["evidence"], checks
    follower = next(node for node in range(3) if node != cluster.leader())
    cluster.processes[follower].kill()
    cluster.processes[follower].wait()
    report, checks = examine()
    assert not report["healthy"] and checks[40]["verdict"] == "care" and f"n{follower}" in checks[40]["evidence"], checks
    assert "1 of 3 voters does not answer: if one more fails" in checks[40]["risk"] and checks[41]["verdict"] == "ok", checks
    other = next(node for node in range(3) if node not in (follower, cluster.leader()))
    cluster.processes[other].kill()
    cluster.processes[other].wait()
    report, checks = examine()
    assert "nothing can be written" in checks[40]["risk"] and checks[41]["verdict"] == "care", checks
    for node in (follower, other):
        cluster.processes[node] = cluster.start(node)
    for node in (follower, other):
        cluster.wait_until_ready(node)
    print("the doctor finds dead nodes, and a cluster without a leader")


def measure(cluster, tables, folder, rows):
    make_rows(folder / "many.csv", rows)
    for flags in (["--table", "many"], ["--table", "many", "--replace"], ["--table", "many", "--upsert"]):
        if flags[-1] == "--upsert":
            tables.execute("DELETE FROM many", "CREATE UNIQUE INDEX many_id ON many(id)")
        began = time.monotonic()
        done = loaded(cluster, folder / "many.csv", *flags)
        print(f"{' '.join(flags)}: {rows / (time.monotonic() - began):,.0f} rows/s; {done['notes']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--rows", type=int, default=0)
    flags = parser.parse_args()
    rqlited = found_rqlited()
    with tempfile.TemporaryDirectory(prefix="rqlite-") as folder:
        folder = pathlib.Path(folder)
        cluster = Cluster(rqlited, folder)
        tables = Tables(cluster)
        try:
            if flags.rows:
                measure(cluster, tables, folder, flags.rows)
                return
            values_arrive_unchanged(cluster, tables, folder)
            tables_that_are_there(cluster, tables, folder)
            a_new_table(cluster, tables, folder)
            print("rows go into a running cluster as into a file, or not at all")
            killed_loads(cluster, tables, folder, flags.kills)
            killed_leaders(cluster, tables, folder, max(1, flags.kills // 2))
            a_watch(cluster)
            the_doctor(cluster, tables)
            without_most_nodes(cluster, tables, folder)
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
