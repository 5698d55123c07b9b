"""Reports of loads: attributes as in the command's JSON, and what notebooks show."""

from __future__ import annotations

import dataclasses
import html.parser

import leafpress as lp
import pytest

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def report(tmp_path):
    rows = [{"n": 1, EVIL: EVIL}, {"n": 2**70, EVIL: EVIL}, {"n": 2}]
    return lp.load(tmp_path / "a.db", rows, table="t", on_error="skip")


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_attributes_are_those_of_the_json(report, tmp_path):
    parts = report.to_dict()
    for made in (report, lp.load(tmp_path / "a.db", b"n\n1\n", table="u", dry_run=True)):
        assert {field.name for field in dataclasses.fields(made)} == set(made.to_dict())
    assert report.rows_loaded == parts["rows_loaded"] == 2
    assert report.rejects[0] == lp.BadRow(**parts["rejects"][0])
    assert report.reject_reasons == [lp.RejectReason(**parts["reject_reasons"][0])]
    assert report.columns[1].decided_by == lp.DecidedBy(1, EVIL, "is text")
    assert {stage.name for stage in report.stages} >= {"read", "sync"}
    assert report.database == str(tmp_path / "a.db")


def test_numbers_that_change_their_form(tmp_path):
    report = lp.load(tmp_path / "a.db", b"x\n1.50\n2.5\n", table="t")
    assert report.columns[0].changed_form == lp.ChangedForm(1, 2, "1.50", "1.5")
    assert 'types={"COL": "text"}' in report.notes[0]


def test_a_report_is_short_in_a_shell(report):
    shown = repr(report)
    assert shown.startswith("<leafpress.Report: 2 rows in table t of ") and len(shown) < 200
    assert "1 rejected" in shown


def test_a_report_is_html_in_a_notebook(report, tmp_path):
    dry = lp.load(tmp_path / "b.db", [{EVIL: EVIL}], table=EVIL, dry_run=True)
    for shown in (report._repr_html_(), dry._repr_html_()):
        tags = Tags()
        tags.feed(shown)
        assert tags.open == []
        assert "table" in tags.seen and "script" not in tags.seen
        assert "&lt;script&gt;" in shown
    assert repr(dry).startswith("<leafpress.DryRun: 1 row for table ")


def test_reports_cannot_be_changed(report):
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.rows_loaded = 7
