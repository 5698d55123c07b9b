"""Invented reports, as `leafpress bench --json` writes them, for tests of the page."""

import math
import random

HOSTILE = "</script></style><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def rung(experiment, chart, label, safety, median_s, **fields):
    """A rung of 100,000 rows with three runs; ours if its label says so."""
    is_ours = "leafpress" in label
    rows = fields.pop("rows", 100_000)
    made = {
        "name": f"{experiment}, {chart}, {label}",
        "safety": safety,
        "median_s": median_s,
        "runs_s": [median_s * 0.93, median_s, median_s * 1.12],
        "per_second": rows / median_s,
        "rows": rows,
        "cpu_s": median_s / 3,
        "peak_mb": 14.5,
        "experiment": experiment,
        "chart": chart,
        "label": label,
        **fields,
    }
    return {**made, "is_ours": True} if is_ours else made


def latency(p50, worst):
    """Latencies between both."""
    between = math.sqrt(p50 * worst)
    return {"p50": p50, "p99": between, "p999": math.sqrt(between * worst), "max": worst}


def ladder():
    """Bars over six powers of ten, with originals, a sample, and one that can corrupt."""
    rungs = [
        ("default, a transaction a row, with which most people begin", "relaxed", 147.3),
        ("one transaction", "relaxed", 0.353),
        ("WAL + FULL", "durable", 0.089),
        ("MEMORY + OFF", "rebuildable", 0.071),
        ("leafpress, pressed", "durable", 0.00071),
    ]
    made = [rung("ladder", "100,000 rows", *each) for each in rungs]
    made[0].update(sample_rows=2042, original={"label": "each its own", "seconds": 2000.0})
    made[1]["original"] = {"label": "one transaction", "seconds": 18.5, "note": "on a phone"}
    return made


def presort():
    """Lines of ten batches."""
    ways = [("as they come", 0.2, 0.8), ("presorted", 0.2, 0.3), ("leafpress, pressed", 0.012, 0)]
    made = []
    for label, begin, growth in ways:
        batches = [begin + growth * batch / 9 for batch in range(10)]
        more = {"batches_s": batches, "outside_s": 0.1}
        made.append(rung("presort", "random keys", label, "durable", sum(batches), **more))
    found = {"label": "as they come", "seconds": 78.3, "batches_s": [2.48, 6.2, 8.2, 9.7, 11.1]}
    made[0]["original"] = found
    return made


def cycles():
    """Dots of a hundred cycles, two of them with a checkpoint."""
    chance = random.Random(7)
    made = []
    for label, safety, us in [("WAL", "durable", 1200.0), ("leafpress, Writer", "durable", 600.0)]:
        cycles_us = [us * math.exp(chance.gauss(0, 0.2)) for _ in range(100)]
        checkpoints = [45, 90] if label == "WAL" else []
        for cycle in checkpoints:
            cycles_us[cycle] = us * 20
        more = {"cycles_us": cycles_us, "checkpoints": checkpoints, "outside_s": 0.01}
        total = sum(cycles_us) / 1e6 + 0.01
        made.append(rung("cycles", "100 cycles", label, safety, total, rows=1500, **more))
    return made


def inserts():
    """A transaction for each row: what the headline compares, one thread each."""
    rungs = [
        ("default", "relaxed", 14.7),
        ("WAL", "durable", 1.28),
        ("leafpress, Writer, 1 caller", "durable", 0.53),
        ("leafpress, Writer, 64 callers", "durable", 0.057),
    ]
    return [rung("queue-inserts", "each row its own transaction", *each, rows=10_000) for each in rungs]


def checkpoint():
    """Latencies, and a course over time."""
    made = []
    for label, worst in [("SQL, its own checkpoints", 16_000.0), ("leafpress, Writer", 7_500.0)]:
        slots = 500
        max_us = [None if slot % 17 == 3 else 20.0 + slot % 7 for slot in range(slots)]
        max_us[slots // 2] = worst
        course = {"slot_ms": 2.0, "p50_us": [us and 9.0 for us in max_us], "max_us": max_us}
        course["wal_mb"] = [slot % 5 for slot in range(slots)]
        more = {"latency_us": latency(9.0, worst), "wal_mb_max": 4.0, "series": course}
        made.append(rung("checkpoint", "commits", label, "relaxed", 1.0, **more))
    return made


def writer():
    """Rows a second, where each did as many as it could."""
    many = {"latency_us": latency(2000.0, 9000.0)}
    return [
        rung("writer", "durable", "SQL, one commit a call", "durable", 1.2, rows=41_160, **many),
        rung("writer", "durable", "leafpress, 64 callers", "durable", 1.2, rows=561_600, **many),
    ]


def about(name, title, **fields):
    """What an experiment is about."""
    return {"name": name, "title": title, "question": f"What is {title.lower()} for?", **fields}


def full():
    """A report with everything that a page can show."""
    original = {
        "title": "A post",
        "url": "https://example.org/post",
        "date": "2016-08-25",
        "machine": "a phone",
        "figures": [{"label": "each its own", "seconds": 2000.0, "note": "a product"}],
    }
    times = {"value": 207.0, "min": 190.0, "max": 220.0, "low": 180.0, "high": 240.0}
    return {
        "experiment": "ladder presort cycles queue-inserts writer checkpoint",
        "version": 1,
        "machine": {"cpu": "A processor", "cores": 2, "kernel": "Linux 6.18", "memory_mb": 8000},
        "settings": {"quick": False, "repeats": 3, "rival_sqlite": "3.54.1"},
        "rungs": ladder() + presort() + cycles() + inserts() + writer() + checkpoint(),
        "ratios": {"ladder_vs_default": times},
        "unavailable": {"atomic_vs_journal": "this disk does not write a page whole"},
        "experiments": [
            about("ladder", "A hundred thousand inserts", original=original, order="The same."),
            about("presort", "Ten batches of rows"),
            about("cycles", "A hundred cycles"),
            about("queue-inserts", "Rows into a queue's table"),
            about("writer", "Many small transactions"),
            about("checkpoint", "The slowest commit"),
        ],
        "storage": {
            "file_system": {"kind": "ext4"},
            "device": {"is_virtual": True},
            "measured": {"sync_after_append": {"p50_us": 98.5}},
            "verdict": {"profile": "durable", "why": ["ext4 here"], "warnings": ["a cache"]},
        },
        "noise": {"times": 1.15, "in_words": "This machine cannot tell 1.15 times apart."},
        "measured_at": "2026-11-21T18:00:00Z",
        "command": "leafpress bench ladder presort cycles writer checkpoint",
    }


def marked():
    """The same on a played disk, stopped, and quick."""
    simulated = {"name": "sdcard", "what": "an SD card", "figures": "8 ms a sync", "source": "a"}
    report = {**full(), "simulated": simulated, "stopped": "ctrl-C after the ladder"}
    report["settings"]["quick"] = True
    return report


def hostile():
    """The same with names that would like to be programs."""
    report = full()
    for each in report["rungs"]:
        each["label"] = HOSTILE + each["label"]
    for each in report["experiments"]:
        each.update(title=HOSTILE, question=HOSTILE)
    report["experiments"][0]["original"]["url"] = "javascript:window.hacked = 1"
    report["machine"]["cpu"] = HOSTILE
    report["command"] = HOSTILE
    return report


def old():
    """As the first version wrote it."""
    rungs = [rung("", "", f"step {step}", "durable", 0.5 + step) for step in range(3)]
    new = ("experiment", "chart", "label")
    rungs = [{key: each[key] for key in each if key not in new} for each in rungs]
    for step, each in enumerate(rungs):
        each["name"] = f"csv, step {step}"
    ratios = {"csv_vs_sql": {"value": 2.0, "min": 1.9, "max": 2.1}}
    report = {"experiment": "load", "version": 1, "machine": {}, "settings": {}}
    return {**report, "rungs": rungs, "ratios": ratios}
