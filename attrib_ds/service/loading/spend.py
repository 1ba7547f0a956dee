"""Loads outlays of campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds import schema
from attrib_ds.records.sources import Source, quoted
from attrib_ds.service.loading.batch import Batch, Project, ValidRows, insert_implicit_nodes
from attrib_ds.service.loading.checks import CURRENCY, CURRENCY_FORM, NAME, NAME_FORM, Checks, labelled_value

if TYPE_CHECKING:
    import duckdb


def check(connection: duckdb.DuckDBPyConnection, source: Source, project: Project) -> Batch:
    """Validate rows and stage them for insertion.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows.
    project : Project
        Their project.

    Returns
    -------
    Batch
        With the counts ``spend`` and ``implicit_nodes``.

    Raises
    ------
    InvalidRequest
        If a column is unknown.
    """
    checks = Checks(source, argument="spend")
    checks.refuse_unknown(schema.OUTLAY.names, schema.properties(schema.OUTLAY))
    checks.project(project.project_id)
    numbered = source.rows + source.unreadable.num_rows
    checks.word("_id", pattern=NAME, form=NAME_FORM, default=project.ids.many("row", count=numbered))
    checks.word("integrationId", pattern=NAME, form=NAME_FORM)
    checks.word("campaignId", pattern=NAME, form=NAME_FORM, required=True)
    checks.amount("amount.amount", required=True)
    amount = quoted("amount.amount")
    checks.rule(
        f"{amount} < 0",
        f"{labelled_value('amount.amount')} || ' is negative'" if checks.has("amount.amount") else "''",
    )
    checks.word("amount.currency", pattern=CURRENCY, form=CURRENCY_FORM, required=True)
    checks.instant("startDate", required=True, recent=True)
    checks.instant("endDate", required=True, recent=True)
    checks.rule(f"{quoted('startDate')} >= {quoted('endDate')}", "'startDate: is not before endDate'")
    for name in ("country", "region"):
        checks.word(name)
    checks.instant("deletedAt")
    for name in ("createdAt", "updatedAt"):
        checks.instant(name, default=project.now)
    staged = checks.stage(connection)
    checks.unique(connection, staged, "_id")
    return Batch(staged, "_id", lambda writer, valid: _insert(writer, valid, project))


def _insert(connection: duckdb.DuckDBPyConnection, valid: ValidRows, project: Project) -> dict[str, int]:
    valid.reject_stored(connection, "outlays", "_id")
    with valid.replace_stored(connection, "outlays", "_id", changed="updatedAt"):
        return _insert_new(connection, valid, project)


def _insert_new(connection: duckdb.DuckDBPyConnection, valid: ValidRows, project: Project) -> dict[str, int]:
    # Interactions create implicit nodes as channels; a node with spend is a campaign.
    connection.execute(
        f"UPDATE nodes SET type = 'campaign' WHERE implicit AND _id IN (SELECT campaignId FROM {valid.rows})"
    )
    implicit = insert_implicit_nodes(connection, valid, project, column="campaignId", kind="campaign")
    return {"spend": valid.insert(connection, "outlays"), "implicit_nodes": implicit}
