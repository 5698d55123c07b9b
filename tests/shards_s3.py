"""Shards in a real S3 server: publications, kills at random moments, a server that stops, credentials that may
only read, damage, readers with a small cache, and engines that write.

`make test-s3` runs it, and so does `make test-cluster`: VERSITYGW names the server, LEAFPRESS the command with
its feature object-store. Without Go the server cannot be built: it says "skipped" and why.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from s3_server import BUCKET, Server

ROWS = 120_000
PARTS = 2
# The texts make parts of several pieces.
TEXT = "x" * 300
# A request ends after 30 s; a run that fails makes a few.
STOPPED_SECONDS_MAX = 150


class Place:
    """A prefix of the bucket, and the command on it."""

    def __init__(self, server, name, folder):
        self.server, self.name, self.folder = server, name, folder
        self.url = f"s3://{BUCKET}/{name}"
        self.input = folder / "people.csv"
        if not self.input.exists():
            with open(self.input, "w") as file:
                file.write("id,name\n")
                file.writelines(f"{id},{TEXT}{id}\n" for id in range(ROWS))

    def begin(self, *words, keys=None):
        environment = {**os.environ, **(keys or self.server.root).environment(self.server), "TMPDIR": str(self.folder)}
        return subprocess.Popen([os.environ["LEAFPRESS"], *map(str, words), "--json"], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begin_shard(self, keys=None):
        words = ["--by", "hash(id)", "--parts", PARTS, "--pk", "id"]
        return self.begin("shard", self.input, "--out", self.url, *words, keys=keys)

    def end(self, process, status=0):
        out, err = process.communicate(timeout=600)
        assert process.returncode == status, f"{process.returncode}, not {status}: {out} {err}"
        return json.loads(out)

    def run(self, *words, status=0, keys=None):
        return self.end(self.begin(*words, keys=keys), status)

    def shard(self):
        return self.end(self.begin_shard())

    def manifest(self):
        current = json.loads(self.server.file(f"{self.name}/_CURRENT").read_text())
        return json.loads(self.server.file(f"{self.name}/{current['manifest']}").read_text())

    def check(self):
        """The current run has each row once, by SQLite of Python, and our own check says the same."""
        rows = set()
        manifest = self.manifest()
        for part in manifest["parts"]:
            file = self.server.file(f"{self.name}/{part['path']}")
            with contextlib.closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as connection:
                found = connection.execute("SELECT id FROM people WHERE name = ? || id", (TEXT,)).fetchall()
            assert len(found) == part["rows"]
            rows.update(id for (id,) in found)
        assert rows == set(range(ROWS)), len(rows)
        verdict = self.run("shards", "verify", self.url)
        assert verdict["sound"] and verdict["run"] == manifest["run"]
        return manifest["run"]

    def named(self):
        """The objects that a reader of any published run may need."""
        keys = [f"{self.name}/_CURRENT"]
        for run in self.run("shards", "list", self.url)["runs"]:
            folder = f"{self.name}/runs/{run['run']}"
            manifest = json.loads(self.server.file(f"{folder}/manifest.json").read_text())
            keys += [f"{folder}/manifest.json", f"{folder}/manifest.db"]
            keys += [f"{self.name}/{part['path']}" for part in manifest["parts"]]
        return sorted(keys)

    def left(self):
        """What is there that no manifest names: objects and unfinished uploads."""
        objects = self.server.objects(self.name + "/")
        return sorted(set(objects) - set(self.named())), self.server.uploads(self.name + "/")

    def collect(self):
        self.run("shards", "gc", self.url, "--older-than", "0s")
        assert self.left() == ([], []), self.left()
        assert self.server.objects(self.name + "/") == self.named()


def publish_and_roll_back(place):
    first = place.shard()
    assert first["rows"] == ROWS and first["parts"] == PARTS
    assert place.check() == first["run"]
    second = place.shard()
    assert place.check() == second["run"]
    assert place.run("shards", "rollback", place.url)["run"] == first["run"]
    assert place.check() == first["run"]
    assert place.left() == ([], [])
    error = place.run("shards", "rollback", place.url, "--to", "none", status=3)
    assert place.manifest()["run"] == first["run"], error


def two_at_once(place, rounds):
    told = 0
    for _ in range(rounds):
        before = len(place.run("shards", "list", place.url)["runs"])
        both = [place.begin_shard() for _ in range(2)]
        answers = [process.communicate(timeout=600) for process in both]
        codes = sorted(process.returncode for process in both)
        assert codes in ([0, 0], [0, 3]), answers
        errors = [json.loads(out) for out, _ in answers if '"error"' in out]
        assert all(error["error"]["kind"] == "changed" for error in errors), errors
        told += len(errors)
        runs = place.run("shards", "list", place.url)["runs"]
        assert len(runs) == before + 2, "both are complete"
        winners = [json.loads(out)["run"] for (out, _), it in zip(answers, both) if it.returncode == 0]
        assert place.check() in winners
    assert told > 0, "none of two publications at once was told"
    return told


def kills(place, count, random):
    """Kills the command at random moments of a publication."""
    began = time.monotonic()
    place.shard()
    seconds = time.monotonic() - began
    left, uploads, whole = 0, 0, 0
    for number in range(count):
        before = place.manifest()["run"]
        process = place.begin_shard()
        # Half of them while parts are put up, where there is most to lose.
        if number % 2:
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end and not place.server.uploads(place.name + "/"):
                pass
            time.sleep(random.uniform(0, 0.05))
        else:
            time.sleep(random.uniform(0, seconds))
        process.kill()
        process.communicate()
        assert place.manifest()["run"] == before or process.returncode == 0 or place.check() != before
        whole += place.check() != before
        objects, open_uploads = place.left()
        left, uploads = left + len(objects), uploads + len(open_uploads)
        place.collect()
    assert left + uploads > 0, "no kill left anything: nothing was tested"
    assert uploads > 0, "no kill left an unfinished upload"
    assert whole < count, "no kill came before the publication"
    return f"{count} kills left {left} objects and {uploads} unfinished uploads; gc removed all"


def stopped(place, number):
    """Stops the server in the middle of a run, by a signal."""
    before = place.check()
    process = place.begin_shard()
    end = time.monotonic() + 60
    while not place.server.uploads(place.name + "/") and time.monotonic() < end and process.poll() is None:
        pass
    assert process.poll() is None, "the run ended before the server was stopped"
    place.server.signal(number)
    began = time.monotonic()
    try:
        error = place.end(process, status=3)["error"]
    finally:
        if number == signal.SIGSTOP:
            place.server.signal(signal.SIGCONT)
        else:
            place.server.process.wait()
            place.server.start()
    seconds = time.monotonic() - began
    assert seconds < STOPPED_SECONDS_MAX, seconds
    assert place.url in error["message"], error
    assert place.check() == before
    place.collect()
    place.shard()
    return f"an error after {seconds:.0f} s"


def read_only(place):
    keys = place.server.reader
    before = place.server.objects("")
    assert place.run("shards", "list", place.url, keys=keys)["runs"]
    assert place.run("shards", "verify", place.url, keys=keys)["sound"]
    for process in (
        place.begin_shard(keys=keys),
        place.begin("shards", "rollback", place.url, keys=keys),
        place.begin("shards", "gc", place.url, "--older-than", "0s", keys=keys),
    ):
        error = place.end(process, status=3)["error"]
        assert place.url in error["message"], error
        assert "credentials" in json.dumps(error), error
    assert place.server.objects("") == before and place.server.uploads("") == []


def damage(place):
    run = place.check()
    part = place.manifest()["parts"][1]
    key = f"/{BUCKET}/{place.name}/{part['path']}"
    _, content = place.server.ask("GET", key)
    changed = content[:-1] + bytes([content[-1] ^ 1])
    assert place.server.ask("PUT", key, body=changed)[0] == 200
    verdict = place.run("shards", "verify", place.url, status=1)
    assert not verdict["sound"] and all("part 1: " in it for it in verdict["problems"]), verdict
    assert any("checksum" in it for it in verdict["problems"]), verdict
    assert place.server.ask("DELETE", key)[0] == 204
    verdict = place.run("shards", "verify", place.url, status=1)
    assert any("part 1: " in it for it in verdict["problems"]), verdict
    assert place.server.ask("PUT", key, body=content)[0] == 200
    assert place.check() == run


def readers(place, folder):
    """Python reads, with a cache that has room for one of the parts."""
    import leafpress

    os.environ.update(place.server.root.environment(place.server))
    largest = max(part["bytes"] for part in place.manifest()["parts"])
    cache = folder / "cache"
    for _ in range(2):
        with leafpress.Shards(place.url, cache=cache, cache_size=largest) as shards:
            for id in (0, 5, 77, ROWS - 1, 6, 78):
                assert shards.get(id).fetchall() == [(id, f"{TEXT}{id}")]
                assert sum(it.stat().st_size for it in cache.iterdir()) <= largest
            assert shards.get(ROWS).fetchall() == []
            assert sum(count for (count,) in shards.scan("SELECT count(*) FROM people")) == ROWS
            assert shards.query("SELECT id FROM people WHERE id = ?", (9,), key=9).fetchone() == (9,)
    with leafpress.Shards(place.url) as shards:
        assert shards.get(7).fetchone()[0] == 7
        assert shards.verify()["sound"] and len(shards.list()) > 0


def engines(place, folder, wanted):
    """Dask and Spark write, with the rows on their way in the store and in a folder."""
    import pandas

    import leafpress
    from engines import Dask, Spark

    os.environ.update(place.server.root.environment(place.server))
    rows = pandas.DataFrame({"id": range(20_000), "name": [f"person {id}" for id in range(20_000)]})
    written = []
    for engine in (Dask, Spark):
        if engine.__name__.lower() not in wanted:
            continue
        made = engine()
        for scratch in (None, folder / "scratch"):
            report = made.write(made.frame(rows), place.url, by="hash(id)", parts=3, pk="id", scratch=scratch)
            assert report.rows == 20_000 and report.folder == place.url, report
            with leafpress.Shards(place.url) as shards:
                assert shards.run == report.run
                assert sorted(shards.scan("SELECT id, name FROM people")) == list(rows.itertuples(index=False, name=None))
            assert place.left() == ([], []), place.left()
            assert scratch is None or [it for it in scratch.rglob("*") if it.is_file()] == []
        made.stop()
        written.append(engine.__name__)
    return ", ".join(written)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engines", default="dask,spark")
    parser.add_argument("--only", help="the steps whose names have this word, after a publication")
    given = parser.parse_args()
    server = os.environ.get("VERSITYGW", "")
    if not os.access(server, os.X_OK):
        print("SKIPPED: shards in S3 are not tested: there is no server (Go builds it: make test-s3)")
        return
    tests = pathlib.Path(__file__).resolve().parents[1] / "crates" / "leafpress-python" / "tests"
    sys.path.insert(0, str(tests))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tests), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = pathlib.Path(name)
        server = Server(server, folder)
        place = Place(server, "a/people", folder)
        engines_place = Place(server, "people", folder)
        steps = [
            ("publish, roll back", lambda: publish_and_roll_back(place)),
            ("two publications at once", lambda: f"{two_at_once(place, 3)} were told"),
            ("kills", lambda: kills(place, given.kills, random.Random(given.seed))),
            ("the server is stopped", lambda: stopped(place, signal.SIGSTOP)),
            ("the server is killed", lambda: stopped(place, signal.SIGKILL)),
            ("credentials that may only read", lambda: read_only(place)),
            ("damage", lambda: damage(place)),
            ("readers with a small cache", lambda: readers(place, folder)),
            ("engines", lambda: engines(engines_place, folder, given.engines.split(","))),
        ]
        try:
            if given.only:
                place.shard()
                steps = [step for step in steps if given.only in step[0]]
            for name, step in steps:
                began = time.monotonic()
                found = step()
                print(f"{name}: ok{f' ({found})' if found else ''}, {time.monotonic() - began:.0f} s", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
