"""Loads the tree of traffic-source nodes, and outlays of campaigns."""

from typing import Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import schema
from attrib_ds.contract import identifiers
from attrib_ds.records.sources import Source, quoted
from attrib_ds.service.campaigns import (
    fill_integrations,
    find_or_create,
    register_campaigns,
    register_integrations,
    require,
    update_paths,
)
from attrib_ds.service.loading import batch
from attrib_ds.service.store.tables import arrow_view

_WORDS: Final = ("integrationId", "vendorId", "externalId", "channel", "campaignSlug", "source", "medium")


def check_nodes(connection: Connection, source: Source, project: batch.Project) -> batch.Batch:
    """Validate rows and stage them for insertion.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows; parents may come after their children.
    project : Project
        Their project.

    Returns
    -------
    Batch
        With the count ``nodes``.

    Raises
    ------
    InvalidRequest
        If a column is unknown.
    """
    checks = batch.Checks(source, argument="nodes", is_verbatim=project.is_mirror)
    checks.refuse_unknown(schema.NODE.names)
    checks.project(project.project_id)
    checks.word("_id", pattern=batch.NAME, form=batch.NAME_FORM, required=True)
    checks.word("parentId", pattern=batch.NAME, form=batch.NAME_FORM, always=True)
    checks.choice("type", schema.NODE_TYPES)
    checks.word("name", required=True)
    for name in _WORDS:
        checks.word(name)
    checks.flag("active", default="true")
    for name in ("createdAt", "updatedAt"):
        checks.instant(name, default=project.now)
    staged = checks.stage(connection, id="_id")
    return batch.Batch(staged, "_id", lambda writer, valid: _insert_nodes(writer, valid, project))


def _insert_nodes(connection: Connection, valid: batch.ValidRows, project: batch.Project) -> dict[str, int]:
    # A loaded node replaces the implicit node with its id.
    valid.reject_stored(connection, "(SELECT * FROM nodes WHERE NOT implicit)", "_id")
    _reject_taken_slugs(connection, valid)
    _reject_unrooted(connection, valid)
    connection.execute(f"DELETE FROM nodes WHERE implicit AND _id IN (SELECT _id FROM {valid.rows})")
    filled = ("integrationId", "vendorId")
    with valid.replace_stored(connection, "nodes", "_id", changed="updatedAt", filled=filled):
        loaded = valid.insert(connection, "nodes", values={"path": "[]", "implicit": "false"})
    update_paths(connection)
    register_integrations(connection, project.project_id, project.currency, project.ids.new)
    register_campaigns(connection)
    fill_integrations(connection)
    return {"nodes": loaded}


def _reject_taken_slugs(connection: Connection, valid: batch.ValidRows) -> None:
    """Reject campaigns whose slug another campaign of their integration has."""
    slug = '"campaignSlug"'
    if "campaignSlug" not in valid.staged.columns:
        return
    names = "_id, parentId, type, vendorId, campaignSlug"
    vendor = "vendorId" if "vendorId" in valid.staged.columns else "CAST(NULL AS VARCHAR) AS vendorId"
    # Roots without a vendorId are sources and media.
    integration = "CASE WHEN {0}.type = 'integration' THEN {0}.vendorId {1} END"
    valid.reject(
        connection,
        "WITH RECURSIVE "
        f"loaded AS (SELECT row, {names.replace('vendorId', vendor)} FROM {valid.rows}), "
        f"together AS (SELECT * FROM loaded UNION ALL SELECT NULL AS row, {names} FROM nodes "
        "WHERE _id NOT IN (SELECT _id FROM loaded)), "
        f"tree AS (SELECT *, {integration.format('together', '')} AS integration FROM together "
        "WHERE parentId IS NULL UNION ALL "
        f"SELECT child.*, {integration.format('child', 'ELSE tree.integration')} "
        "FROM together AS child JOIN tree ON child.parentId = tree._id) "
        f"SELECT row, 'campaignSlug: ' || {batch.quote_text(slug)} || "
        "' is the slug of another campaign of its integration' "
        "FROM tree WHERE type = 'campaign' AND campaignSlug IS NOT NULL AND integration IS NOT NULL "
        # A stored campaign keeps its slug, and then the first row.
        "QUALIFY row_number() OVER (PARTITION BY integration, campaignSlug ORDER BY row NULLS FIRST) > 1 "
        "AND row IS NOT NULL",
    )


def _reject_unrooted(connection: Connection, valid: batch.ValidRows) -> None:
    """Reject nodes without a path to a root: unknown or rejected parents, and cycles."""
    parent = batch.quote_text('"parentId"')
    rows = valid.staged.relation
    valid.reject(
        connection,
        f"SELECT row, 'parentId: ' || {parent} || ' is not a node of this project' FROM {rows} "
        f"WHERE parentId NOT IN (SELECT _id FROM {rows} WHERE _id IS NOT NULL) "
        "AND parentId NOT IN (SELECT _id FROM nodes)",
    )
    connection.execute(
        f"CREATE TEMP TABLE new_nodes AS SELECT row, _id, parentId FROM {valid.rows};"
        "CREATE TEMP TABLE all_nodes AS SELECT _id, parentId FROM temp.new_nodes UNION ALL "
        "SELECT _id, parentId FROM nodes WHERE _id NOT IN (SELECT _id FROM temp.new_nodes);"
        "CREATE TEMP TABLE unrooted AS WITH RECURSIVE tree AS ("
        "SELECT _id FROM temp.all_nodes WHERE parentId IS NULL UNION ALL "
        "SELECT child._id FROM temp.all_nodes AS child JOIN tree ON child.parentId = tree._id) "
        "SELECT * FROM temp.new_nodes WHERE _id NOT IN (SELECT _id FROM tree);"
        # Pairs of a node and an ancestor; a node that is its own ancestor is part of a cycle.
        "CREATE TEMP TABLE cycles AS WITH RECURSIVE above AS ("
        "SELECT _id, parentId AS ancestor FROM temp.unrooted UNION "
        "SELECT above._id, higher.parentId FROM above "
        "JOIN temp.all_nodes AS higher ON above.ancestor = higher._id) "
        "SELECT DISTINCT _id FROM above WHERE _id = ancestor"
    )
    valid.reject(
        connection,
        f"SELECT row, 'parentId: ' || {parent} || CASE WHEN _id IN (SELECT _id FROM temp.cycles) "
        "THEN ' is the node itself or one of its descendants' ELSE ' is rejected' END FROM temp.unrooted",
    )
    for table in ("new_nodes", "all_nodes", "unrooted", "cycles"):
        connection.execute(f"DROP TABLE temp.{table}")


def check_spend(connection: Connection, source: Source, project: batch.Project) -> batch.Batch:
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
    checks = batch.Checks(source, argument="spend", is_verbatim=project.is_mirror)
    checks.refuse_unknown(schema.OUTLAY.names, schema.properties(schema.OUTLAY))
    checks.project(project.project_id)
    numbered = source.rows + source.unreadable.num_rows
    checks.word(
        "_id", pattern=batch.NAME, form=batch.NAME_FORM, default=project.ids.many("row", count=numbered)
    )
    checks.word("integrationId", pattern=batch.NAME, form=batch.NAME_FORM)
    # With an integration, it may be the text of a campaign.
    longest = identifiers.LONGEST_CAMPAIGN if checks.has("integrationId") else 128
    form = f"text of 1 to {longest} characters"
    checks.word("campaignId", pattern=f".{{1,{longest}}}", form=form, required=True)
    checks.amount("amount.amount", required=True)
    amount = quoted("amount.amount")
    checks.rule(
        f"{amount} < 0",
        f"{batch.labelled_value('amount.amount')} || ' is negative'" if checks.has("amount.amount") else "''",
    )
    checks.currency("amount.currency", required=True)
    checks.instant("startDate", required=True, recent=True)
    checks.instant("endDate", required=True, recent=True)
    checks.rule(f"{quoted('startDate')} >= {quoted('endDate')}", "'startDate: is not before endDate'")
    for name in ("country", "region"):
        checks.word(name)
    checks.instant("deletedAt")
    for name in ("createdAt", "updatedAt"):
        checks.instant(name, default=project.now)
    staged = checks.stage(connection, id="_id")
    return batch.Batch(staged, "_id", lambda writer, valid: _insert_spend(writer, valid, project))


def _insert_spend(connection: Connection, valid: batch.ValidRows, project: batch.Project) -> dict[str, int]:
    valid.reject_stored(connection, "outlays", "_id")
    rows = valid.rows
    if "integrationId" in valid.staged.columns and not valid.is_replacing:
        rows = _with_campaigns(connection, rows)
    campaigns = f"SELECT campaignId FROM {rows}"
    with valid.replace_stored(connection, "outlays", "_id", changed="updatedAt"):
        # Interactions create implicit nodes as channels; a node with spend is a campaign.
        connection.execute(f"UPDATE nodes SET type = 'campaign' WHERE implicit AND _id IN ({campaigns})")
        implicit = batch.insert_implicit_nodes(
            connection, valid, project, column="campaignId", kind="campaign", rows=rows
        )
        return {"spend": valid.insert(connection, "outlays", rows=rows), "implicit_nodes": implicit}


def _with_campaigns(connection: Connection, rows: str) -> str:
    """Return rows of spend with the ids of campaigns in the place of texts; unknown campaigns are created.

    Only in rows that name an integration: others refer to nodes, which traffic may make later.
    """
    named = connection.execute(
        f"SELECT integrationId, vendorId, campaignId FROM {rows} AS loaded JOIN integrations "
        "ON integrations._id = loaded.integrationId AND integrations.deletedAt IS NULL "
        "WHERE campaignId NOT IN (SELECT _id FROM nodes) GROUP BY ALL ORDER BY min(row)"
    ).fetchall()
    if not named:
        return rows
    integrations = {id: require(connection, vendor, argument="integrationId") for id, vendor, _ in named}
    asked = [(integration, identifiers.slug_of(text), text) for integration, _, text in named]
    found = find_or_create(connection, integrations, asked)
    records = [
        {"integrationId": integration, "text": text, "id": found[integration, slug, text]}
        for integration, slug, text in asked
    ]
    with arrow_view(connection, pa.Table.from_pylist(records)) as view:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE named_campaigns AS FROM {view}")
    return (
        "(SELECT loaded.* REPLACE (coalesce(named.id, loaded.campaignId) AS campaignId) "
        f"FROM {rows} AS loaded LEFT JOIN temp.named_campaigns AS named "
        "ON named.integrationId = loaded.integrationId AND named.text = loaded.campaignId)"
    )
