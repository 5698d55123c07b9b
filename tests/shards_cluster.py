"""Kills workers of Spark and Ray at random while they write shards, with speculative attempts, and
checks that each row is there once, that the manifest is true, and that `gc` leaves nothing else.

`make test-cluster` runs it, with the environment of the package's tests, which has both engines.
All jobs write runs into one folder. As a control, the rows of all files that the attempts left are
counted too: they have to be more than the rows, or no attempt was lost and nothing was tested.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

# Workers find the module `engines` there too.
TESTS = str(pathlib.Path(__file__).resolve().parents[1] / "crates" / "leafpress-python" / "tests")
sys.path.insert(0, TESTS)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [TESTS, os.environ.get("PYTHONPATH")]))

ROWS = 20_000
PARTS = 6
# Kills of one job: enough for all of its stages.
KILLS_MAX = 8
# The command lines of workers. The agents of a node of Ray take the node with them.
WORKERS = {"spark": r"\S*python.*pyspark\.daemon|.*CoarseGrainedExecutorBackend", "ray": r"ray::(?!\w*Agent|Dash|Runtime)"}
# All kills of a job may meet one task, which Ray would try no more than three times again.
os.environ["RAY_TASK_MAX_RETRIES"] = str(KILLS_MAX)
# How likely a task waits, so that another attempt of it begins.
SLOW = 0.3
SPARK = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.2",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.task.maxFailures": "50",
    "spark.python.worker.reuse": "false",
}


def workers_of(engine):
    """Processes of workers below this one."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    below, found = {os.getpid()}, []
    children = collections.defaultdict(list)
    for pid, parent, arguments in rows:
        children[int(parent)].append((int(pid), arguments))
    waiting = list(below)
    while waiting:
        for pid, arguments in children[waiting.pop()]:
            waiting.append(pid)
            if re.match(WORKERS[engine], arguments):
                found.append(pid)
    return found


class Killer(threading.Thread):
    """Kills a worker now and then, until it is stopped."""

    def __init__(self, engine, kills, random):
        super().__init__(daemon=True)
        self.engine, self.kills, self.random = engine, kills, random
        self.killed, self.over = 0, threading.Event()

    def run(self):
        while self.killed < self.kills and not self.over.wait(self.random.uniform(0.3, 2.0)):
            workers = workers_of(self.engine)
            if workers:
                try:
                    os.kill(self.random.choice(workers), signal.SIGKILL)
                    self.killed += 1
                except ProcessLookupError:
                    pass

    def stop(self):
        self.over.set()
        self.join()


def slow(rows):
    """Gives the rows, some of them late."""
    if random.random() < SLOW:
        time.sleep(random.uniform(0.3, 1.5))
    return rows


def rows_of(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT id, name FROM people").fetchall()
    finally:
        connection.close()


def check(out, report):
    """The parts of the manifest have each row once."""
    manifest = json.loads((out / "runs" / report.run / "manifest.json").read_text())
    assert json.loads((out / "_CURRENT").read_text())["run"] == report.run
    assert [part["path"] for part in manifest["parts"]] == [part.path for part in report.parts]
    parts = [rows_of(out / part["path"]) for part in manifest["parts"]]
    assert [len(rows) for rows in parts] == [part["rows"] for part in manifest["parts"]]
    found = sorted(row for rows in parts for row in rows)
    assert found == [(id, f"person {id}") for id in range(ROWS)], f"{len(found)} rows, not {ROWS}"


def command(*words):
    done = subprocess.run([os.environ["LEAFPRESS"], *map(str, words), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def left_files(out):
    return {str(path.relative_to(out)) for path in out.glob("runs/*/parts/*")}


def job(engine, frame, out, kills, dice):
    killer = Killer(type(engine).__name__.lower(), kills, dice)
    killer.start()
    try:
        report = engine.write(engine.mapped(frame, slow), out, by="hash(id)", parts=PARTS, pk="id")
    finally:
        killer.stop()
    check(out, report)
    return report, killer.killed


def jobs_of(engine, out, jobs, dice):
    """Does the jobs; the reports and the number of kills."""
    import pandas

    people = pandas.DataFrame({"id": range(ROWS), "name": [f"person {id}" for id in range(ROWS)]})
    frame, reports, killed = engine.frame(people), [], 0
    for number in range(jobs):
        began = time.monotonic()
        report, kills = job(engine, frame, out, KILLS_MAX, dice)
        reports.append(report)
        killed += kills
        print(f"{type(engine).__name__} job {number + 1}: {kills} kills, {time.monotonic() - began:.1f} s", flush=True)
    engine.stop()
    # Attempts that nothing waits for may go on for a moment.
    time.sleep(3)
    return reports, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=6, help="number of jobs")
    parser.add_argument("--engine", choices=WORKERS, action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    import engines
    import leafpress._engines

    # Parts that are pressed wait before they are told, so that these attempts are lost too.
    leafpress._engines.Plan = engines.SlowPlan
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "people"
        killed, reports = 0, []
        makers = {"spark": lambda: engines.Spark(SPARK), "ray": engines.Ray}
        chosen = given.engine or list(makers)
        for name in chosen:
            done, kills = jobs_of(makers[name](), out, given.jobs // len(chosen), dice)
            reports += done
            killed += kills
        named = {part.path for report in reports for part in report.parts}
        lost = left_files(out) - named
        lost_rows = sum(len(rows_of(out / path)) for path in lost if path.endswith(".db"))
        collected = command("shards", "gc", out, "--older-than", "0s")
        assert left_files(out) == named, "gc leaves other files, or removes parts"
        assert command("shards", "verify", out)["sound"]
        listed = command("shards", "list", out)
        print(
            f"{len(reports)} jobs, {killed} kills: each row once. Attempts that were lost left {len(lost)} files with "
            f"{lost_rows} rows; gc removed {len(collected['files'])}. {len(listed['runs'])} runs are published."
        )
        assert killed > 0 and lost, "the control: no attempt was lost, so nothing was tested"


if __name__ == "__main__":
    main()
