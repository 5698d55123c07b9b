"""Reports of loads: what was done, or would be."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

_Made = TypeVar("_Made", bound="_Part")


class _Part:
    """A part of a report, made of the JSON of the command."""

    @classmethod
    def _of(cls: type[_Made], parts: dict[str, Any]) -> _Made:
        names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: part for name, part in parts.items() if name in names})


@dataclass(frozen=True)
class BadRow(_Part):
    """A row that was left out."""

    file: str
    """Name of the input."""
    line: int
    """Line in the input, or number of the row where there are no lines, counted from 1."""
    column: int
    """Byte column in that line, counted from 1."""
    reason: str
    """The fault, naming the column."""
    row: str
    """The row as it stands in the input, cut where long."""


@dataclass(frozen=True)
class RejectReason(_Part):
    """A reason for which rows were left out."""

    reason: str
    """The reason, without the values of a row."""
    rows: int
    """Number of rows."""


@dataclass(frozen=True)
class Stage(_Part):
    """One stage of the work."""

    name: str
    """Name of the stage."""
    seconds: float
    """Seconds that it took, summed over all threads."""


@dataclass(frozen=True)
class DecidedBy(_Part):
    """The value that decided a column's type."""

    line: int
    """Line of the value in the input, or number of its row."""
    value: str
    """The value, cut if long."""
    reason: str
    """The reason, in words."""
    file: str | None = None
    """Name of the input, if there are several."""


@dataclass(frozen=True)
class ChangedForm(_Part):
    """Values whose number is kept and whose form is not: '2.50' becomes 2.5."""

    values: int
    """Number of such values."""
    line: int
    """Line of the first one."""
    value: str
    """The first one, cut if long."""
    becomes: str
    """Its number, in as few digits as it needs."""
    file: str | None = None
    """Name of the input, if there are several."""


@dataclass(frozen=True)
class Column(_Part):
    """A column of the table."""

    name: str
    """Its name."""
    declared_type: str
    """Its declared type."""
    decided_by: DecidedBy | None = None
    """The value that ruled a narrower type out, if there is one."""
    changed_form: ChangedForm | None = None
    """Values that change their form, if there are any."""

    @classmethod
    def _of(cls, parts: dict[str, Any]) -> Column:
        decided, changed = parts["decided_by"], parts["changed_form"]
        return cls(
            name=parts["name"],
            declared_type=parts["declared_type"],
            decided_by=None if decided is None else DecidedBy._of(decided),
            changed_form=None if changed is None else ChangedForm._of(changed),
        )


class _Shown(_Part):
    """Base of the reports."""

    _json: str

    @classmethod
    def _from_json(cls: type[_Made], text: str, notes: Sequence[str] = ()) -> _Made:
        """The report of this JSON, with further notes."""
        parts = json.loads(text)
        if notes:
            parts["notes"] += notes
            text = json.dumps(parts)
        parts["columns"] = [Column._of(column) for column in parts["columns"]]
        parts["rejects"] = [BadRow._of(row) for row in parts["rejects"]]
        parts["reject_reasons"] = [RejectReason._of(it) for it in parts["reject_reasons"]]
        if "stages" in parts:
            parts["stages"] = [Stage._of(stage) for stage in parts["stages"]]
        made = cls._of(parts)
        object.__setattr__(made, "_json", text)
        return made

    def to_dict(self) -> dict[str, Any]:
        """The report as the command prints it with --json."""
        parts: dict[str, Any] = json.loads(self._json)
        return parts


@dataclass(frozen=True, repr=False)
class Report(_Shown):
    """Report of a finished load. The database is complete and synced."""

    table: str
    """Name of the table."""
    database: str
    """Path of the database."""
    create_sql: str
    """SQL that declares the table and its indexes."""
    rows_read: int
    """Number of rows in the input."""
    rows_loaded: int
    """Number of rows that went into the table."""
    rows_rejected: int
    """Number of bad rows that were left out."""
    rejects: list[BadRow]
    """First ten bad rows."""
    reject_reasons: list[RejectReason]
    """Reasons for which rows were left out, with their numbers of rows."""
    rows_ignored: int
    """Number of rows left out because another row has their key, or because a trigger or an ON
    CONFLICT of the table passes over them."""
    bytes_read: int
    """Size of the input in bytes."""
    bytes_written: int
    """Size of the database in bytes."""
    pages: int
    """Number of pages of the database."""
    spilled_bytes: int
    """Number of bytes that sorting wrote to temporary files."""
    elapsed_s: float
    """Seconds from the call to the synced database."""
    stages: list[Stage]
    """Time by stage."""
    columns: list[Column]
    """Columns, with the reasons for their types."""
    notes: list[str]
    """Notes, such as renamed columns."""
    path: str
    """Way in which the rows went in: "pressed" and additional work, or "SQL: " and the reason."""

    def __repr__(self) -> str:
        return f"<leafpress.Report: {self._summary()}>"

    def _summary(self) -> str:
        left_out = "".join(
            f", {count} {what}"
            for count, what in ((self.rows_rejected, "rejected"), (self.rows_ignored, "ignored"))
            if count
        )
        return (
            f"{_rows(self.rows_loaded)} in table {self.table} of {self.database}{left_out}, "
            f"{self.elapsed_s:.3g} s"
        )

    def _repr_html_(self) -> str:
        return _page(self._summary(), self.columns, self.rejects, self.notes)


@dataclass(frozen=True, repr=False)
class DryRun(_Shown):
    """Report of a dry run. Nothing was written."""

    table: str
    """Name of the table."""
    create_sql: str
    """SQL that would declare the table and its indexes."""
    columns: list[Column]
    """Columns, with the values that decided their types."""
    rows_read: int
    """Number of rows in the input."""
    would_reject: int
    """Number of rows that would be rejected."""
    rejects: list[BadRow]
    """First twenty rows that would be rejected."""
    reject_reasons: list[RejectReason]
    """Reasons for which rows would be rejected, with their numbers of rows."""
    notes: list[str]
    """Notes, such as renamed columns."""
    path: str
    """Way in which the rows would go in."""
    plan: list[str]
    """Needs of the load: sorting, memory, disk."""

    def __repr__(self) -> str:
        return f"<leafpress.DryRun: {self._summary()}>"

    def _summary(self) -> str:
        rejects = f", {self.would_reject} would be rejected" if self.would_reject else ""
        return f"{_rows(self.rows_read)} for table {self.table}{rejects}"

    def _repr_html_(self) -> str:
        return _page(self._summary(), self.columns, self.rejects, self.notes + self.plan)


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _page(
    summary: str, columns: Sequence[Column], rejects: Sequence[BadRow], notes: Sequence[str]
) -> str:
    """A report as HTML. All texts of the input are escaped."""
    parts = [f"<p><b>{html.escape(summary)}</b></p>"]
    reasons = (
        (it.name, it.declared_type, _reason(it.decided_by) if it.decided_by else "")
        for it in columns
    )
    parts.append(_table(("column", "type", "decided by"), reasons))
    if rejects:
        rows = ((f"{it.file}:{it.line}", it.reason, it.row) for it in rejects)
        parts.append(_table(("rejected", "reason", "row"), rows))
    if notes:
        parts.append("<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in notes) + "</ul>")
    return "".join(parts)


def _reason(decided: DecidedBy) -> str:
    return f"line {decided.line}: {decided.value} {decided.reason}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
