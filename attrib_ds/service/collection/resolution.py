"""Resolves raw hits: their traffic sources to nodes, their user agents to bots (G-193 to G-197)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.campaigns import find_by_slug, insert_campaign, require
from attrib_ds.service.collection.source_nodes import insert_source_nodes
from attrib_ds.service.collection.sources import PARAMETERS, PAYMENT_HOSTS, resolve_source
from attrib_ds.service.collection.traffic_filters import HOST, capture_sql, create_captured_addresses
from attrib_ds.service.collection.user_agents import is_bot
from attrib_ds.service.store.settings import read_settings
from attrib_ds.service.store.table_access import arrow_view

if TYPE_CHECKING:
    import duckdb

_LONGEST_REFERRER: Final = 2_048


def resolve_hits(
    connection: duckdb.DuckDBPyConnection, hits: str, *, project_id: str, now: str, into: str
) -> int:
    """Create a table of hits with their nodes; insert nodes that are missing.

    Each distinct value is resolved once.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    hits : str
        Relation in SQL, for a FROM clause, with the columns of ``hits`` that raw hits have, and ``address``,
        which is not stored.
    project_id : str
        The project.
    now : str
        SQL for the date of new nodes.
    into : str
        Name of the temporary table to create: the columns of ``hits`` with ``nodeId``, ``referrerType``,
        ``isCampaign``, ``isBot`` and ``trafficFilterId``.

    Returns
    -------
    int
        Number of new nodes.
    """
    _create_keys(connection, hits)
    inserted = _resolve_sources(connection, project_id=project_id, now=now)
    agents = connection.execute("SELECT DISTINCT userAgent FROM temp.keyed_hits").to_arrow_table()
    bots = [is_bot(text) for text in agents["userAgent"].to_pylist()]
    with arrow_view(connection, agents.append_column("isBot", pa.array(bots, pa.bool_()))) as view:
        connection.execute(f"CREATE TEMP TABLE agents AS FROM {view}")
    connection.execute(
        f"""
        CREATE TEMP TABLE {into} AS
        SELECT hit.* EXCLUDE (search_key, referrer_key, is_internal, address)
            REPLACE (coalesce(hit.isBot, false) OR agents.isBot AS isBot),
            sources.nodeId, sources.referrerType,
            sources.referrerType = 'campaign' AND NOT is_internal AS isCampaign
        FROM temp.keyed_hits AS hit JOIN temp.sources USING (search_key, referrer_key, is_internal)
        JOIN temp.agents ON hit.userAgent IS NOT DISTINCT FROM agents.userAgent
        """
    )
    for table in ("keyed_hits", "sources", "agents", "captured_addresses"):
        connection.execute(f"DROP TABLE temp.{table}")
    return inserted


def _create_keys(connection: duckdb.DuckDBPyConnection, hits: str) -> None:
    """Create ``keyed_hits``: hits with what of their URLs can decide on their source."""
    # An underscore may be percent-encoded.
    names = literal(f"(?i)[?&]({'|'.join(PARAMETERS).replace('_', '(_|%5f)')})=")
    search, host = quoted("pageUrl.search"), quoted("pageUrl.hostname")
    settings = read_settings(connection)
    excluded = [name.replace(".", "\\.") for name in (*PAYMENT_HOSTS, *settings.excluded_referrers)]
    create_captured_addresses(connection, settings.traffic_filters, hits)
    connection.execute(
        f"""
        CREATE TEMP TABLE keyed_hits AS
        WITH hosts AS (
            SELECT *, rtrim(regexp_replace(lower(coalesce({host}, '')), '^www\\.', ''), '.') AS page_host,
                rtrim(regexp_extract(lower(coalesce(referrer, '')), {literal(HOST)}, 1), '.')
                    AS referrer_host
            FROM {hits}
        ), internal AS (
            SELECT *, referrer_host <> '' AND (
                referrer_host = page_host
                OR (page_host <> '' AND ends_with(referrer_host, '.' || page_host))
                OR (contains(referrer_host, '.') AND ends_with(page_host, '.' || referrer_host))
                OR regexp_full_match(referrer_host, {literal(f"(.*[.])?({'|'.join(excluded)})")})
                ) AS is_internal,
                {capture_sql(settings.traffic_filters, captured="filters")} AS trafficFilterId
            FROM hosts LEFT JOIN temp.captured_addresses USING (address)
        )
        SELECT * EXCLUDE (page_host, referrer_host, filters),
            CASE WHEN regexp_matches({search}, {names}) THEN {search} ELSE '' END AS search_key,
            CASE WHEN is_internal THEN ''
                ELSE left(regexp_replace(coalesce(referrer, ''), '[?#].*', ''), {_LONGEST_REFERRER}) END
                AS referrer_key
        FROM internal
        """
    )


def _resolve_sources(connection: duckdb.DuckDBPyConnection, *, project_id: str, now: str) -> int:
    """Create ``sources``, the node of each distinct source; return the number of new nodes."""
    keys = connection.execute(
        "SELECT DISTINCT search_key, referrer_key, is_internal FROM temp.keyed_hits"
    ).to_arrow_table()
    vendors = [
        vendor
        for (vendor,) in connection.execute(
            "SELECT vendorId FROM integrations WHERE deletedAt IS NULL ORDER BY vendorId"
        ).fetchall()
    ]
    sources = [
        resolve_source(search, referrer, is_internal=is_internal, vendors=vendors)
        for search, referrer, is_internal in zip(*keys.to_pydict().values(), strict=True)
    ]
    custom = {source.custom_campaign for source in sources if source.custom_campaign is not None}
    campaigns = {campaign: _campaign_node(connection, *campaign) for campaign in sorted(custom)}
    inserted = insert_source_nodes(
        connection, (source.nodes for source in sources), project_id=project_id, now=now
    )
    node_ids = [
        source.nodes[-1].node_id if source.custom_campaign is None else campaigns[source.custom_campaign][0]
        for source in sources
    ]
    resolved = keys.append_column("nodeId", pa.array(node_ids, pa.string())).append_column(
        "referrerType", pa.array([source.referrer_type for source in sources], pa.string())
    )
    with arrow_view(connection, resolved) as view:
        connection.execute(f"CREATE TEMP TABLE sources AS FROM {view}")
    return inserted + sum(is_new for _, is_new in campaigns.values())


def _campaign_node(connection: duckdb.DuckDBPyConnection, vendor_id: str, slug: str) -> tuple[str, bool]:
    """Return the node of a custom campaign, and whether it is new (G-160)."""
    integration = require(connection, vendor_id, argument="utm_source")
    existing = find_by_slug(connection, integration, slug)
    if existing is not None:
        return str(existing["id"]), False
    # Derived, so that the id does not depend on the order of arrival.
    id = hashlib.sha256(f"{integration.id}\n{slug}".encode()).hexdigest()[:24]
    insert_campaign(connection, integration, id, slug, slug)
    return id, True
