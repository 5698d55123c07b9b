"""Benchmarks of this machine's own disk: `leafpress bench` as a function."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from json import dumps
from pathlib import Path
from typing import Any, Literal

from ._arguments import checked
from ._command import flags, run_json
from ._errors import misuse
from ._sources import Path as PathLike

# Height of the page in a notebook, in pixels. The page scrolls within.
_HEIGHT_PX = 720


class BenchReport:
    """Report of a benchmark. Shows itself in a notebook."""

    data: dict[str, Any]
    """Machine, settings, rungs and ratios, as `leafpress bench --json` writes them."""
    page: str
    """The report as a page of HTML: one document, without network."""

    def __init__(self, data: dict[str, Any], page: str) -> None:
        self.data = data
        self.page = page

    @property
    def ratios(self) -> Mapping[str, Mapping[str, float]]:
        """How many times better than its rival each work was: name → value, min, max."""
        found: Mapping[str, Mapping[str, float]] = self.data["ratios"]
        return found

    def __repr__(self) -> str:
        ratios = (f"{name}={ratio['value']:.3g}" for name, ratio in self.ratios.items())
        return f"BenchReport({', '.join(ratios)})"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its styles stay there."""
        style = f"width:100%;height:{_HEIGHT_PX}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.page)}"></iframe>'


@checked
def bench(
    *experiments: str,
    html: PathLike | None = None,
    json: PathLike | None = None,
    dir: PathLike | None = None,
    quick: bool = False,
    large: bool = False,
    only: str | Sequence[str] = (),
    repeats: int | None = None,
    bytes: int | str | None = None,
    rows: int | str | Sequence[int | str] = (),
    keys: int | str | None = None,
    commits: int | str | None = None,
    transactions: int | str | None = None,
    waiting: int | str | None = None,
    full: bool = False,
    xfs_loop: bool = False,
    assume_atomic: bool = False,
    simulate: Literal["sdcard", "hdd", "emmc", "nvme", "phone2016"] | None = None,
    max_disk: int | str | None = None,
    keep_cache: bool = False,
    from_: PathLike | None = None,
) -> BenchReport:
    """Repeats the classic experiments on this machine's own disk, beside the best that SQL can do.

    `experiments`: "ladder", "presort", "cycles", "queue-inserts", "load", "writer", "checkpoint",
    "atomic", "queue", "shared"; without one the best of all, in less than ten minutes, or in less
    than one if `quick`. `html` and `json` are files to write the report to. `dir`: a folder on the
    disk to be measured; without it the current one. Sizes are numbers or such as "100M". `from_`:
    an earlier report in JSON, which is shown, and nothing measured. The other options are those of
    `leafpress bench`.

    Temporary files are removed at the end, also by ctrl-C. Raises `ProgrammingError` for options
    that make no sense.
    """
    files = {name: Path(os.fsdecode(path)) for name, path in (("html", html), ("json", json)) if path is not None}
    for name, file in files.items():
        if not file.absolute().parent.is_dir():
            raise misuse(f"{name}={str(file)!r}: there is no such folder")
    with tempfile.TemporaryDirectory(prefix="leafpress-bench-") as folder:
        page = Path(folder, "report.html")
        words = flags(
            dir=dir,
            quick=quick,
            large=large,
            only=_listed(only),
            repeats=repeats,
            bytes=bytes,
            rows=_listed(rows),
            keys=keys,
            commits=commits,
            transactions=transactions,
            waiting=waiting,
            full=full,
            xfs_loop=xfs_loop,
            assume_atomic=assume_atomic,
            simulate=simulate,
            max_disk=max_disk,
            keep_cache=keep_cache,
            from_=from_,
        )
        data = run_json(["bench", *words, "--json=-", f"--html={page}", "--", *experiments])
        report = BenchReport(data, page.read_text(encoding="utf-8"))
    texts = {"html": report.page, "json": dumps(report.data, indent=2) + "\n"}
    for name, file in files.items():
        file.write_text(texts[name], encoding="utf-8")
    return report


def _listed(given: int | str | Sequence[int | str]) -> list[int | str]:
    """The parts of a list; a number or a text is one part."""
    return [given] if isinstance(given, (int, str)) else list(given)
