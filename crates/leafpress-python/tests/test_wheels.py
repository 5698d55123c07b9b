"""The wheels that `make wheel` has built, and the check of them."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

CRATE = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", CRATE.parents[1] / "target"))

sys.path.insert(0, str(CRATE))
import wheels


def made(folder: Path, tags: str, bytes_more: int = 0) -> Path:
    """A wheel with these tags that has what a wheel must have."""
    path = folder / f"leafpress-0.1.0-{tags}-manylinux_2_34_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*wheels.NEEDED, "leafpress/_leafpress.abi3.so"):
            archive.writestr(name, "")
        archive.writestr("leafpress-0.1.0.dist-info/entry_points.txt", "[console_scripts]\nleafpress=leafpress.__main__:main\n")
        archive.writestr("leafpress-0.1.0.dist-info/licenses/LICENSE-MIT", "")
        archive.writestr("padding", os.urandom(bytes_more))
    return path


def test_wheels_for_all_and_for_free_threaded_interpreters_are_right(tmp_path: Path) -> None:
    for tags in ("cp310-abi3", "cp314-cp314t", "cp315-abi3.abi3t"):
        made(tmp_path, tags)
    assert wheels.check(tmp_path) == []


@pytest.mark.parametrize("tags", ["cp311-cp311", "cp314-cp314", "cp311-abi3", "cp314-cp313t"])
def test_a_wheel_for_one_version_is_found(tags: str, tmp_path: Path) -> None:
    made(tmp_path, tags)
    problems = wheels.check(tmp_path)
    assert len(problems) == 2 and "no wheel for all interpreters" in problems[1], problems


def test_a_large_wheel_or_one_without_its_parts_is_found(tmp_path: Path) -> None:
    large = made(tmp_path, "cp310-abi3", wheels.BYTES_MAX)
    assert len(wheels.problems_of(large)) == 1
    with zipfile.ZipFile(large, "w") as archive:
        archive.writestr("leafpress/__init__.py", "")
    assert len(wheels.problems_of(large)) == 5


def test_the_wheels_that_were_built_are_right() -> None:
    built = list((TARGET / "wheels").glob("*.whl"))
    if not built:
        pytest.skip("no wheel is built; make wheel builds them")
    assert wheels.check(TARGET / "wheels") == []
