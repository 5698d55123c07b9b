#!/usr/bin/env python3
"""Builds the wheels of the package, optimised, and checks them.

One wheel is for all interpreters from 3.10 on. Each free-threaded interpreter that is found
gets one of its own.

    python wheels.py FOLDER       builds into FOLDER (needs maturin), and checks
    python wheels.py --check FOLDER
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

CRATE = Path(__file__).resolve().parent
# Object stores, with HTTP and TLS, are 3 MB of it.
BYTES_MAX = 16_000_000
NAME = re.compile(r"leafpress-[\d.]+-(?P<python>\w+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl")
# All interpreters with a global lock; a free-threaded one; free-threaded ones from 3.15 on.
TAGS = re.compile(r"cp310-abi3|cp3(\d\d)-cp3\1t|cp315-abi3\.abi3t")
FREE_THREADED = [f"python3.{minor}t" for minor in range(14, 20)]
NEEDED = ["leafpress/__init__.py", "leafpress/_leafpress.pyi", "leafpress/py.typed"]


def problems_of(wheel: Path) -> list[str]:
    """What is wrong with a wheel."""
    name = NAME.fullmatch(wheel.name)
    tags = f"{name['python']}-{name['abi']}" if name else "none"
    found = []
    if not TAGS.fullmatch(tags):
        found.append(f"its tags are {tags}: it is for one version of Python")
    if wheel.stat().st_size > BYTES_MAX:
        found.append(f"it has {wheel.stat().st_size} bytes, more than {BYTES_MAX}")
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        points = [archive.read(file).decode() for file in files if file.endswith("entry_points.txt")]
    found += [f"it has no {file}" for file in NEEDED if file not in files]
    if not any("LICENSE" in file for file in files):
        found.append("it has no licence")
    if not any(re.match(r"leafpress/_leafpress\..*(so|pyd)$", file) for file in files):
        found.append("it has no native module")
    if not points or "leafpress=leafpress.__main__:main" not in points[0].replace(" ", ""):
        found.append("it has no command leafpress")
    return [f"{wheel.name}: {problem}" for problem in found]


def check(folder: Path) -> list[str]:
    """What is wrong with the wheels of a folder."""
    wheels = sorted(folder.glob("*.whl"))
    found = [problem for wheel in wheels for problem in problems_of(wheel)]
    if not any("-cp310-abi3-" in wheel.name for wheel in wheels):
        found.append(f"{folder} has no wheel for all interpreters (cp310-abi3)")
    return found


def build(folder: Path) -> None:
    """Builds a wheel for each kind of interpreter."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        sys.exit("wheels.py: run it by an interpreter with a global lock: by a free-threaded one "
                 "maturin makes a wheel for that version alone")
    for wheel in folder.glob("*.whl"):
        wheel.unlink()
    free_threaded = [found for name in FREE_THREADED if (found := shutil.which(name))]
    for interpreter in [sys.executable, *free_threaded]:
        command = [sys.executable, "-m", "maturin", "build", "--profile", "dist", "--locked"]
        command += ["--out", str(folder), "--interpreter", interpreter]
        subprocess.run(command, cwd=CRATE, check=True)


def main() -> int:
    """The command line."""
    folder = Path(sys.argv[-1]).resolve()
    if "--check" not in sys.argv:
        build(folder)
    found = check(folder)
    for wheel in sorted(folder.glob("*.whl")):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
