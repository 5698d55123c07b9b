"""The examples of the chapter about Python: each is run, in order, in one folder.

Examples share their names, as in one session. A recipe for a program says which one it is for
(`<!-- python: django -->`), and is run by a part of this file that plays that program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CRATE = Path(__file__).resolve().parents[1]
ROOT = CRATE.parents[1]
CHAPTER = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"(?:<!-- python: (\w+) -->\n)?```python\n(.*?)\n```", re.DOTALL)
SECONDS_MAX = 600

EVENTS = "CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY, what TEXT UNIQUE)"

# What stands before and after a recipe, and has to hold.
PROGRAMS = {
    "fastapi": (
        "",
        """
from fastapi.testclient import TestClient
with TestClient(app) as client:
    answer = client.post("/events/by a request")
    assert answer.status_code == 200 and answer.json()["id"] > 0, answer.text
""",
    ),
    "django": (
        """
import django
from django.conf import settings
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": "app.db"}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=[], USE_TZ=True)
django.setup()
import datetime, decimal, uuid
from django.db import models
class Event(models.Model):
    what = models.TextField()
    class Meta:
        app_label = "app"
        db_table = "event"
class Kept(models.Model):
    uuid = models.UUIDField()
    at = models.DateTimeField()
    day = models.DateField()
    time = models.TimeField()
    long = models.DurationField()
    price = models.DecimalField(max_digits=9, decimal_places=2)
    json = models.JSONField()
    flag = models.BooleanField()
    bytes = models.BinaryField()
    none = models.TextField(null=True)
    made = models.DateTimeField(auto_now_add=True)
    event = models.ForeignKey(Event, models.CASCADE)
    class Meta:
        app_label = "app"
class Made(models.Model):
    number = models.IntegerField()
    double = models.GeneratedField(expression=models.F("number") * 2, output_field=models.IntegerField(), db_persist=True)
    seven = models.IntegerField(db_default=7)
    class Meta:
        app_label = "app"
""",
        """
from django.db import connection
insert([Event(what="by Django")])
with connection.cursor() as cursor:
    assert cursor.execute("SELECT what FROM event WHERE what = 'by Django'").fetchone()
    cursor.execute("INSERT INTO event(what) VALUES ('by the ORM')")
child = os.fork()
if child == 0:
    insert([Event(what="by a child")])
    writer().close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert writer().query("SELECT count(*) FROM event WHERE what IN ('by the ORM', 'by a child')").fetchone()[0] == 2
with connection.schema_editor() as editor:
    editor.create_model(Kept)
kept = dict(
    uuid=uuid.uuid4(), at=datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    day=datetime.date(2026, 1, 2), time=datetime.time(1, 2), long=datetime.timedelta(seconds=5),
    price=decimal.Decimal("1.10"), json={"a": [1, "é"]}, flag=True, bytes=bytes([255]), none=None, event=Event.objects.first(),
)
Kept.objects.create(**kept)
with transaction.atomic():
    Event.objects.create(what="in a transaction")
    insert([Kept(**kept), Kept(**kept)])
    assert Kept.objects.count() == 1
for name, value in kept.items():
    found = Kept.objects.filter(**({f"{name}__isnull": True} if value is None else {name: value}))
    assert [getattr(one, name) for one in found] == [value] * 3, name
assert Kept.objects.exclude(made=None).count() == 3
with connection.cursor() as cursor:
    columns = ", ".join(name + "_id" * (name == "event") for name in kept)
    assert cursor.execute(f"SELECT count(*) FROM (SELECT DISTINCT {columns} FROM app_kept)").fetchone() == (1,)
with connection.schema_editor() as editor:
    editor.create_model(Made)
insert([Made(number=3), Made(number=4)])
insert([Made(number=5, seven=8)])
assert [*Made.objects.order_by("number").values_list("double", "seven")] == [(6, 7), (8, 7), (10, 8)]
""",
    ),
    "sqlalchemy": (
        "",
        """
import datetime, enum, uuid
Color = enum.Enum("Color", "RED GREEN")
kept = {
    "uuid": (sa.Uuid(), uuid.uuid4()), "at": (sa.DateTime(), datetime.datetime(2026, 1, 2, 3, 4, 5)),
    "day": (sa.Date(), datetime.date(2026, 1, 2)), "time": (sa.Time(), datetime.time(1, 2)),
    "color": (sa.Enum(Color), Color.RED), "json": (sa.JSON(), {"a": 1}), "text": (sa.JSON(), "text"),
    "interval": (sa.Interval(), datetime.timedelta(seconds=5)), "none": (sa.Uuid(), None),
}
columns = [sa.Column(name, kind) for name, (kind, _) in kept.items()]
table = sa.Table("kept", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), *columns)
values = {name: value for name, (_, value) in kept.items()}
engine = sa.create_engine("sqlite:///app.db")
table.metadata.create_all(engine)
with lp.Writer("app.db") as writer:
    execute(writer, table.insert().values(id=1, **values))
    execute(writer, table.insert().values([{"id": 2, **values}]))
    assert execute(writer, table.update().where(table.c.uuid == values["uuid"]).values(id=table.c.id + 5)).rowcount == 2
    for among, count in ((table.c.color.in_([Color.RED]), 2), (table.c.color.in_([Color.GREEN]), 0),
                         (table.c.id.in_([6, 7, 8]), 2), (table.c.id.in_([]), 0), (table.c.uuid.in_([values["uuid"]]), 2)):
        assert execute(writer, table.update().where(among).values(day=values["day"])).rowcount == count
with engine.begin() as connection:
    connection.execute(table.insert().values(id=1, **values))
    for column in columns:
        found = connection.execute(sa.select(column)).scalars().all()
        assert found == [values[column.name]] * 3, (column.name, found)
    # So it finds them by all that finds its own.
    assert len(connection.exec_driver_sql(f"SELECT DISTINCT {', '.join(values)} FROM kept").all()) == 1
""",
    ),
    "dask": ("", "import leafpress\nassert leafpress.verify('app.db')['sound']"),
    "shards": ("", "import leafpress\nassert report.parts[0].bytes > 0"),
    "ray": (
        "import ray, os\n"
        "ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,"
        " runtime_env={'env_vars': {'PYTHONPATH': os.environ.get('PYTHONPATH', '')}})",
        "import sqlite3\n"
        "assert sqlite3.connect('app.db').execute('SELECT count(*) FROM from_ray').fetchone() == (1000,)",
    ),
}
MODULES = {"fastapi": ["fastapi", "httpx"], "django": ["django"], "dask": ["dask.dataframe"], "shards": ["dask.dataframe"]}


def examples() -> list[tuple[str | None, str]]:
    """The program and the text of each example."""
    return [(program or None, text) for program, text in BLOCK.findall(CHAPTER.read_text())]


def run(script: str, folder: Path) -> None:
    """Runs a script in the folder, in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, f"{script}\n---\n{done.stdout}{done.stderr}"


def test_the_examples_run_in_order(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    texts = [text for program, text in examples() if program is None]
    assert len(texts) > 5, "they were not found"
    assert "lp.bench(" in texts[-1]
    run("\n".join(texts), tmp_path)
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_recipe_runs(program: str, tmp_path: Path) -> None:
    for module in MODULES.get(program, [program]):
        pytest.importorskip(module, reason=f"{module} is not installed: its recipe is not tested")
    [text] = [text for name, text in examples() if name == program]
    before, after = PROGRAMS[program]
    made = f"import sqlite3\nsqlite3.connect('app.db').execute('{EVENTS}').connection.close()\n"
    run(f"{made}{before}\n{text}\n{after}", tmp_path)


@pytest.mark.parametrize("readme", [ROOT / "README.md", CRATE / "README.md"])
def test_the_example_of_a_readme_runs_as_it_stands(readme: Path, tmp_path: Path) -> None:
    [(_, text)] = BLOCK.findall(readme.read_text())
    for _ in range(2):
        run(text, tmp_path)


def test_each_recipe_has_a_program() -> None:
    assert {name for name, _ in examples() if name} == set(PROGRAMS)
