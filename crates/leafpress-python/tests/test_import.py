"""`import leafpress` imports what most programs need, and the rest when it is used. Each test has an
interpreter of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import leafpress as lp

LATER = ["_async", "_bench", "_command", "_engines", "_jobs", "_queue", "_shards", "_work"]


def printed(code):
    """The words that a new interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": str(Path(lp.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "uses",
    ["", "; lp.load('a.db', [{'id': 1}], table='t'); lp.Writer('a.db').close(); dir(lp); hasattr(lp, '__path__')"],
    ids=["nothing", "a load and a writer"],
)
def test_neither_asyncio_nor_the_engines_are_imported(tmp_path, monkeypatch, uses):
    monkeypatch.chdir(tmp_path)
    modules = printed(f"import sys; there = set(sys.modules); import leafpress as lp{uses}; print(*(set(sys.modules) - there))")
    assert "leafpress._writer" in modules
    later = {"asyncio", "concurrent.futures", "importlib.resources", "subprocess", "zipfile", *(f"leafpress.{name}" for name in LATER)}
    assert later.isdisjoint(modules)


@pytest.mark.parametrize("name", ["AsyncWriter", "bench", "verify", "ShardReport", "Job", "Queue", "Shards", "Stop"])
def test_each_later_module_is_imported_by_its_names(name):
    assert printed(f"import leafpress as lp; print(lp.{name}.__name__, '{name}' in vars(lp))") == [name, "True"]


def test_all_names_are_there():
    code = "import leafpress as lp; print(set(lp.__all__) <= set(dir(lp)), all(getattr(lp, it) for it in lp.__all__))"
    assert printed(code) == ["True", "True"]
    star = "from leafpress import *; import leafpress as lp; print(set(lp.__all__) <= set(globals()), Queue is lp.Queue)"
    assert printed(star) == ["True", "True"]
    assert printed("from leafpress import AsyncWriter, Queue; print(Queue.__name__)") == ["Queue"]
    with pytest.raises(AttributeError, match="module 'leafpress' has no attribute 'writer'"):
        lp.writer
    with pytest.raises(ImportError):
        from leafpress import writer
