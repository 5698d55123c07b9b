"""The types of the package: checked by mypy and pyright, and compared with the native module."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any, Union

import pytest

import leafpress as lp

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "python" / "leafpress"
USER, WRONG = TESTS / "user_code.py", TESTS / "wrong_code.py"
ENGINES = {"dask": "dask", "ray": "ray", "spark": "pyspark"}
NEEDS_INSTALLED = {"ray.py": "ray", "dask.py": "dask", "spark.py": "pyspark", "_sqlite_utils.py": "sqlite_utils"}


def of_classes() -> list[Any]:
    """The public functions of the package, and those of its classes."""
    public = [getattr(lp, name) for name in lp.__all__]
    for module in (importlib.import_module(f"leafpress.{name}") for name in ENGINES if importlib.util.find_spec(ENGINES[name])):
        # Not classes: those of Ray have annotations of Ray's own, which cannot be resolved.
        public += [it for it in (getattr(module, name) for name in module.__all__) if inspect.isfunction(it)]
    functions = [it for it in public if inspect.isfunction(it)]
    for kind in (it for it in public if isinstance(it, type)):
        own = [it for name, it in vars(kind).items() if not name.startswith("_")]
        functions += [it for it in [kind, *own] if inspect.isfunction(it) or it is kind]
    return functions


@pytest.mark.skipif(sys.version_info < (3, 11), reason="options are no dicts with types there")
def test_types_are_resolved_when_the_program_runs() -> None:
    for function in [*of_classes(), lp.Writer.__init__, lp.AsyncWriter.__init__]:
        typing.get_type_hints(function)
    assert typing.get_type_hints(lp.load)["db"] == Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]


def run(*words: object, path: str = str(PACKAGE.parent)) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=TESTS,
        env={**os.environ, "MYPYPATH": path},
        capture_output=True,
        text=True,
    )


def mistakes() -> set[int]:
    """The lines of wrong_code.py with a mistake."""
    lines = enumerate(WRONG.read_text().splitlines(), 1)
    return {number for number, line in lines if line.endswith("# a mistake")}


def mypy(*files: Path) -> subprocess.CompletedProcess[str]:
    return run("mypy", f"--config-file={TESTS.parent / 'pyproject.toml'}", "--python-version=3.10", "--no-incremental", *files)


def test_mypy_finds_nothing_in_the_package_and_in_code_that_uses_it() -> None:
    pytest.importorskip("mypy")
    left_out = {name for name, module in NEEDS_INSTALLED.items() if not importlib.util.find_spec(module)}
    files = [file for file in sorted(PACKAGE.glob("*.py*")) if file.suffix in (".py", ".pyi") and file.name not in left_out]
    done = mypy(*files, USER)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_mistakes() -> None:
    pytest.importorskip("mypy")
    found = {int(line) for line in re.findall(r"wrong_code\.py:(\d+): error", mypy(WRONG).stdout)}
    assert found == mistakes()


def test_the_stubs_are_those_of_the_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    import leafpress

    installed = str(Path(leafpress.__file__).parents[1])
    # pyo3 adds a list of all names.
    (tmp_path / "allowed").write_text("leafpress\\._leafpress\\.__all__\n")
    done = run("mypy.stubtest", "leafpress._leafpress", "--allowlist", tmp_path / "allowed", path=installed)
    assert done.returncode == 0, done.stdout + done.stderr


def pyright(folder: Path, code: Path | None) -> list[dict[str, Any]]:
    """What pyright says of a file, or of the package; skips where it cannot fetch itself."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    shutil.copytree(PACKAGE, folder / "leafpress")
    if code is not None:
        shutil.copy(code, folder)
    settings = {
        "include": [code.name if code else "leafpress"],
        # Inside of the package, what pyright cannot know may stay unknown.
        "typeCheckingMode": "strict" if code else "standard",
        "pythonVersion": "3.10",
        # Other packages come without types, or are not there.
        "reportMissingTypeStubs": False,
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = run("pyright", "--project", folder, "--pythonpath", sys.executable, "--outputjson")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        pytest.skip(f"pyright cannot run here: {(done.stdout + done.stderr)[-300:]}")
    assert answer["summary"]["filesAnalyzed"] > 0, done.stdout
    found: list[dict[str, Any]] = answer["generalDiagnostics"]
    return found


def test_pyright_finds_nothing_in_code_that_uses_the_package(tmp_path: Path) -> None:
    assert pyright(tmp_path, USER) == []


def test_pyright_finds_mistakes(tmp_path: Path) -> None:
    found = {said["range"]["start"]["line"] + 1 for said in pyright(tmp_path, WRONG)}
    assert mistakes() <= found


def test_pyright_finds_no_error_in_the_package(tmp_path: Path) -> None:
    said = pyright(tmp_path, None)
    assert [one for one in said if one["severity"] == "error"] == []
