"""Plug-in of sqlite-utils: the command `sqlite-utils leafpress-load`."""

from __future__ import annotations

import click
import sqlite_utils

from ._errors import Error
from ._load import IfExists, load


@sqlite_utils.hookimpl  # type: ignore[untyped-decorator,unused-ignore]
def register_commands(cli: click.Group) -> None:
    """Adds the command."""
    cli.add_command(_load)


@click.command("leafpress-load")
@click.argument("path", type=click.Path(dir_okay=False))
@click.argument("table")
@click.argument("files", nargs=-1, required=True)
@click.option("--pk", multiple=True, help="Column to use as the primary key")
@click.option("--index", multiple=True, help="Column to index, as 'name NOCASE'")
@click.option("--append", "if_exists", flag_value="append", help="Add to the table's rows")
@click.option("--replace", "if_exists", flag_value="replace", help="Replace the table's rows")
@click.option("--ignore", "if_exists", flag_value="ignore", help="Ignore rows whose key is taken")
@click.option("--upsert", "if_exists", flag_value="upsert", help="Update rows whose key is taken")
def _load(
    path: str,
    table: str,
    files: tuple[str, ...],
    pk: tuple[str, ...],
    index: tuple[str, ...],
    if_exists: IfExists | None,
) -> None:
    """Load CSV, JSON, Parquet or Arrow FILES into TABLE by Leafpress, all or nothing."""
    try:
        report = load(
            path, list(files), table=table, pk=pk, index=index, if_exists=if_exists or "fail"
        )
    except Error as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"loaded {report.rows_loaded} rows into table {table} of {path}")
