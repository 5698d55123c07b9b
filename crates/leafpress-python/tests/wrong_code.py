"""Mistakes of a user that type checkers must find, one in each line that says so. Not run."""

from __future__ import annotations

import leafpress as lp


def wrong() -> None:
    writer = lp.Writer("app.db", profile="careless")  # a mistake
    writer.execute(7)  # a mistake
    writer.insert_many("t")  # a mistake
    lp.bench("writer", html=7)  # a mistake
    lp.verify()  # a mistake
    lp.load("app.db", "a.csv", on_error="ignore")  # a mistake
    lp.load("app.db", "a.csv", on_conflict="fail")  # a mistake
    lp.load("app.db", "a.csv", layout="far")  # a mistake
    lp.load("app.db", "a.csv", if_exists="update")  # a mistake
    lp.load("app.db", "a.csv", preset="fast")  # a mistake
    lp.load("app.db", "a.csv", format="xml")  # a mistake
    lp.advise(power_cut="no")  # a mistake
    lp.bench("writer", simulate="tape")  # a mistake
    lp.Queue("app.db", lese=5)  # a mistake
    queue = lp.SyncQueue("app.db", lease=5)
    queue.list("redy")  # a mistake
    queue.configure(attempts_max="many")  # a mistake
