"""Resolves the traffic sources of hits to nodes, by their parameters and referrers."""

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import schema, sql_results
from attrib_ds.records.export_tables import selected_url_parts
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service import campaigns
from attrib_ds.service.identity import identities
from attrib_ds.service.store.settings import ProjectSettings, read_settings
from attrib_ds.service.store.tables import arrow_view
from attrib_ds.traffic import channel_rules
from attrib_ds.traffic.agents import (
    ADDRESS,
    HOST,
    PAGE,
    USER_AGENT,
    agent_table,
    captured_host,
    parse_address,
)
from attrib_ds.traffic.sources import (
    KEY,
    LONGEST_URL,
    NAMED,
    OF_NODE,
    Node,
    TrafficSource,
    Unresolved,
    is_internal,
    other,
    resolve_in_time,
    resolve_source,
)


@dataclass(frozen=True)
class Rules:
    """What a project tells about its hits.

    Parameters
    ----------
    settings : ProjectSettings
        Its settings.
    vendors : tuple of str
        ``vendorId`` of each integration.
    catalog : str
        Where the tables of the project are, for a connection to another database.
    """

    settings: ProjectSettings
    vendors: tuple[str, ...]
    catalog: str

    @classmethod
    def read(cls, connection: Connection, catalog: str) -> Self:
        """Read the rules of the project whose tables are in a catalog."""
        query = "SELECT vendorId FROM integrations WHERE deletedAt IS NULL ORDER BY vendorId"
        vendors = tuple(vendor for (vendor,) in connection.execute(query).fetchall())
        return cls(read_settings(connection), vendors, catalog)


@dataclass(frozen=True)
class ResolvedHits:
    """Hits whose texts were read, so that storing them reads none.

    Parameters
    ----------
    relation : str
        Table of the hits without the texts of URLs, and with ``isBot``, ``referrerType``, ``isCampaign``,
        ``source`` (position in ``sources``), and ``problem``, null unless the hit could not be read.
    whole : str
        The same hits as a relation in SQL, for a FROM clause, with all columns that are stored.
    sources : tuple of TrafficSource or Unresolved
        The distinct traffic sources.
    agents : pyarrow.Table
        ``ua``, ``isBot`` and :data:`.agents.COLUMNS`: one row per user agent, also of stored hits nearby.
    """

    relation: str
    whole: str
    sources: tuple[TrafficSource | Unresolved, ...]
    agents: pa.Table


def resolve_hits(
    connection: Connection, hits: str, *, rules: Rules, span: int, into: str = "resolved_hits"
) -> ResolvedHits:
    """Read the texts of hits, each distinct one once, into tables beside them.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Outside of transactions that write: whoever sends a hit decides how long its texts take.
    hits : str
        Relation in SQL, for a FROM clause, with ``row``, the columns of ``hits`` that raw hits have, with
        ``pageUrl`` for its parts, and ``address``, which is not stored.
    rules : Rules
        Of the project.
    span : int
        Milliseconds before the hits in which sessions may be theirs.
    into : str
        Name of the table; that of the distinct texts has the same beginning.
    """
    texts = f"{into}_texts"
    known = f"SELECT value FROM {rules.catalog}.identities WHERE kind = {literal(identities.TRACKER)}"
    # The landing page of a visitor may be lost, as when it goes on at once or the service was away. If the
    # first page that arrives was opened from it, its URL, which is the referrer, still has the campaign. The
    # ids of hits of the tracking script are UUIDs of version 7.
    opener = "rtrim(regexp_replace(coalesce(referrer, ''), '[?#].*', ''), '/')"
    connection.execute(
        f"""
        CREATE TEMP TABLE first_pages AS
        WITH firsts AS (
            SELECT trackerId, arg_min(id, (serverDate, id)) AS id,
                arg_min({opener}, (serverDate, id)) AS opener
            FROM {hits} WHERE NOT regexp_matches(trackerId, '^(page|hit)[.]') GROUP BY trackerId
            HAVING starts_with(trackerId, 'day.') OR arg_min(id, (serverDate, id))[15] = '7'
        )
        SELECT id, trackerId
        FROM firsts WHERE trackerId NOT IN ({known}) OR NOT starts_with(trackerId, 'day.')
        AND (trackerId, opener) NOT IN (
            SELECT trackerId, rtrim(concat("pageUrl.origin", "pageUrl.pathname"), '/')
            FROM {rules.catalog}.hits WHERE trackerId IN (SELECT trackerId FROM firsts) AND serverDate >=
                (SELECT min(serverDate) - to_milliseconds({span}) FROM {hits})
        )
        """
    )
    # Of the tries of a hit, those of this browser alone: another one may have earlier pages.
    is_first = "(id, trackerId) IN (SELECT (id, trackerId) FROM temp.first_pages)"
    marked = f"(SELECT *, {is_first} AS is_first FROM {hits})"
    sources = _resolve_texts(connection, marked, rules, into=texts)
    agents = _resolve_agents(connection, hits, rules, span)
    filters = rules.settings.traffic_filters
    captured = captured_addresses(connection, filters, hits)
    with arrow_view(connection, captured) as view, arrow_view(connection, agents, "agents"):
        connection.execute(
            f"""
            CREATE TABLE {into} AS
            SELECT hit.* EXCLUDE (isBot, truncated, pageUrl, referrer, address, is_first),
                texts.text, texts.source, texts.referrerType, texts.isCampaign,
                coalesce(hit.isBot, false) OR coalesce(agents.isBot, false) AS isBot,
                coalesce(hit.truncated, false) OR texts.is_cut AS truncated,
                {capture_sql(filters, captured="captured.filters")} AS trafficFilterId,
                coalesce(texts.problem, agents.problem) AS problem
            FROM {marked} AS hit JOIN {texts} AS texts ON hit.pageUrl IS NOT DISTINCT FROM texts.pageUrl
                AND hit.referrer IS NOT DISTINCT FROM texts.referrer AND hit.is_first = texts.is_first
            LEFT JOIN agents ON hit.userAgent = agents.ua
            LEFT JOIN {view} AS captured ON hit.address = captured.address
            """
        )
    connection.execute("DROP TABLE temp.first_pages")
    parts = ", ".join(f"texts.{quoted(f'pageUrl.{part}')}" for part in schema.URL_PARTS)
    whole = (
        f"(SELECT resolved.* EXCLUDE (text), left(texts.referrer, {LONGEST_URL}) AS referrer, {parts} "
        f"FROM {into} AS resolved JOIN {texts} AS texts USING (text))"
    )
    return ResolvedHits(into, whole, sources, agents)


def _resolve_agents(connection: Connection, hits: str, rules: Rules, span: int) -> pa.Table:
    texts = connection.execute(
        f"SELECT DISTINCT userAgent FROM (SELECT userAgent FROM {hits} UNION ALL "
        f"SELECT userAgent FROM {rules.catalog}.hits SEMI JOIN {hits} AS hit USING (trackerId) WHERE "
        f"serverDate >= (SELECT min(serverDate) - to_milliseconds({span}) FROM {hits})) "
        "WHERE userAgent IS NOT NULL"
    ).fetchall()
    return agent_table([text for (text,) in texts])


def _resolve_texts(
    connection: Connection, hits: str, rules: Rules, *, into: str
) -> tuple[TrafficSource | Unresolved, ...]:
    """Create a table of the distinct URLs of pages and referrers with their parts and their source."""
    names = literal(f"(?i){NAMED}")
    host = quoted("pageUrl.hostname")
    # Of all that was sent, though less is stored.
    is_url = f"{quoted('pageUrl.protocol')} IS NOT NULL"
    search = f"CASE WHEN {is_url} THEN regexp_extract(pageUrl, '[?#].*') ELSE '' END"
    longest = channel_rules.LONGEST_HOST
    # Only what can decide on the source.
    connection.execute(
        f"""
        CREATE TEMP TABLE page_texts AS
        WITH texts AS (SELECT DISTINCT pageUrl, referrer, is_first FROM {hits}),
            parts AS (SELECT *, {selected_url_parts(f"left(pageUrl, {LONGEST_URL})", "pageUrl")} FROM texts)
        SELECT * REPLACE (right({host}, {longest}) AS {host}), row_number() OVER () AS text,
            rtrim(regexp_replace(lower(coalesce({host}, '')), '^www\\.', ''), '.') AS whole_page,
            rtrim(regexp_extract(lower(coalesce(referrer, '')), {literal(HOST)}, 1), '.')
                AS whole_referrer,
            right(whole_page, {longest}) AS page_host, right(whole_referrer, {longest}) AS referrer_host,
            CASE WHEN regexp_matches({search}, {names}) THEN {search}
                WHEN is_first AND page_host = referrer_host AND regexp_matches(referrer, {names})
                THEN regexp_extract(referrer, '[?#].*') ELSE '' END AS search_key,
            regexp_replace(coalesce(referrer, ''), '[?#].*', '') AS referrer_key
        FROM parts
        """
    )
    keyed = (
        "(SELECT * REPLACE (coalesce(is_internal, false) AS is_internal, "
        "CASE WHEN is_internal THEN '' ELSE referrer_key END AS referrer_key) "
        "FROM temp.page_texts LEFT JOIN internal_pairs USING (page_host, referrer_host))"
    )
    with arrow_view(connection, _internal_pairs(connection, rules.settings), "internal_pairs"):
        query = f"SELECT DISTINCT search_key, referrer_key, is_internal FROM {keyed} ORDER BY ALL"
        keys = sql_results.read_arrow(connection, query)
        sources = resolve_in_time(
            lambda key: resolve_source(key[0], key[1], is_internal=key[2], vendors=rules.vendors),
            list(zip(*keys.to_pydict().values(), strict=True)),
            example=KEY,
        )
        keys = keys.append_column("source", pa.array(range(len(sources)), pa.int64()))
        kinds = {"referrer_type": pa.string(), "is_truncated": pa.bool_(), "reason": pa.string()}
        for name, kind in kinds.items():
            keys = keys.append_column(name, pa.array([getattr(each, name, None) for each in sources], kind))
        with arrow_view(connection, keys, "sources"):
            connection.execute(
                f"""
                CREATE TABLE {into} AS
                SELECT keyed.* EXCLUDE (search_key, referrer_key, is_internal, whole_page, whole_referrer),
                    page_host <> whole_page OR referrer_host <> whole_referrer
                        OR greatest(len(pageUrl), len(coalesce(referrer, ''))) > {LONGEST_URL}
                        OR coalesce(sources.is_truncated, false) AS is_cut,
                    sources.source, sources.referrer_type AS referrerType, sources.reason AS problem,
                    sources.referrer_type = 'campaign' AND NOT is_internal AS isCampaign
                FROM {keyed} AS keyed JOIN sources USING (search_key, referrer_key, is_internal)
                """
            )
    connection.execute("DROP TABLE temp.page_texts")
    return tuple(sources)


def _internal_pairs(connection: Connection, settings: ProjectSettings) -> pa.Table:
    """Return hosts of pages and referrers whose visitors do not come from outside."""
    excluded = channel_rules.returning_hosts(settings.excluded_referrers, settings.domains)
    query = "SELECT DISTINCT page_host, referrer_host FROM temp.page_texts WHERE referrer_host <> ''"
    found = connection.execute(query).fetchall()
    pairs = [(page, other, True) for page, other in found if is_internal(page, other, excluded)]
    names, kinds = ("page_host", "referrer_host", "is_internal"), (pa.string(), pa.string(), pa.bool_())
    columns = zip(*pairs, strict=True) if pairs else ([], [], [])
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names)


def capture_sql(filters: Sequence[str], *, captured: str) -> str:
    """Return SQL for the first filter that captures a hit, or NULL.

    Parameters
    ----------
    filters : sequence of str
        The setting ``trafficFilters``.
    captured : str
        SQL for the list of filters that capture the hit's address, from :func:`captured_addresses`.

    Examples
    --------
    >>> import duckdb
    >>> sql = capture_sql(["hostname:test.shop.example", "userAgent:Probe"], captured="[]")
    >>> hit = "(SELECT 'shop.example' AS page_host, 'probe/2' AS userAgent)"
    >>> duckdb.execute(f"SELECT {sql} FROM {hit}").fetchone()
    ('userAgent:Probe',)
    """
    branches = "".join(
        f" WHEN {_condition(text, captured=captured)} THEN {literal(text)}" for text in filters
    )
    return f"CASE{branches} END" if branches else "CAST(NULL AS VARCHAR)"


def _condition(text: str, *, captured: str) -> str:
    kind, _, value = text.partition(":")
    if kind == ADDRESS:
        return f"list_contains({captured}, {literal(text)})"
    if kind == USER_AGENT:
        return f"contains(lower(userAgent), {literal(value.lower())})"
    host = "page_host" if kind == PAGE else "referrer_host"
    name = captured_host(value)
    return f"({host} = {literal(name)} OR ends_with({host}, {literal(f'.{name}')}))"


def captured_addresses(connection: Connection, filters: Sequence[str], hits: str) -> pa.Table:
    """Return each distinct ``address`` of hits with the ``filters`` that capture it."""
    networks = {
        text: ipaddress.ip_network(text.partition(":")[2], strict=False)
        for text in filters
        if text.startswith(f"{ADDRESS}:")
    }
    texts = []
    if networks:
        query = f"SELECT DISTINCT address FROM {hits} WHERE address IS NOT NULL"
        texts = [text for (text,) in connection.execute(query).fetchall()]
    captured = [
        [text for text, network in networks.items() if address is not None and address in network]
        for address in map(parse_address, texts)
    ]
    columns = {"address": pa.array(texts, pa.string()), "filters": pa.array(captured, pa.list_(pa.string()))}
    return pa.table(columns)


#: Whether a node is only an id.
_IS_BARE: Final = (
    "(nodes.implicit AND nodes.channel IS NULL AND nodes.parentId IS NULL AND nodes.type <> 'integration')"
)


def place_sources(
    connection: Connection,
    sources: Mapping[int, TrafficSource],
    *,
    project_id: str,
    now: str,
    most_new: int | None = None,
) -> tuple[dict[int, str], int]:
    """Insert the nodes of traffic sources that are not in the tree yet.

    Nodes in the tree stay as they are, except those that are only an id, because loaded rows refer to them:
    they are described, so that the result does not depend on what came first. A node follows from its id.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    sources : mapping of int to TrafficSource
        Sources by position.
    project_id : str
        The project.
    now : str
        SQL for the date of new nodes.
    most_new : int, optional
        Most nodes to insert; what is beyond belongs to the node ``(other)`` below its nearest ancestor.

    Returns
    -------
    nodes : dict of int to str
        Node of each source.
    inserted : int
        Number of new nodes.
    """
    custom, integrations = _custom_chains(
        connection, {source.custom_campaign for source in sources.values() if source.custom_campaign}
    )
    chains = {
        number: source.nodes if source.custom_campaign is None else custom[source.custom_campaign]
        for number, source in sources.items()
    }
    named = {node.node_id: node for nodes in chains.values() for node in nodes}
    with arrow_view(connection, pa.table({"_id": pa.array(named, pa.string())})) as view:
        stored = connection.execute(
            f"SELECT _id, path, {_IS_BARE} FROM nodes SEMI JOIN {view} USING (_id)"
        ).fetchall()
    paths: dict[str, list[str]] = {id: path for id, path, _ in stored}
    new: dict[str, Node] = {}
    leaves: dict[int, str] = {}
    room = len(named) if most_new is None else most_new
    for number, nodes in chains.items():
        path: list[str] = []
        for position, node in enumerate(nodes):
            is_beyond = node.node_id not in paths and not room
            below = other(nodes[position - 1] if position else None) if is_beyond else node
            if below.node_id not in paths:
                room -= not is_beyond
                paths[below.node_id] = path
                new[below.node_id] = below
            leaves[number] = below.node_id
            path = [*paths[below.node_id], below.node_id]
            if is_beyond:
                break
    by_integration: dict[str, list[dict[str, str | None]]] = {}
    for *_, leaf in custom.values():
        if new.pop(leaf.node_id, None) is not None:
            campaign = {"id": leaf.node_id, "campaignSlug": leaf.slug, "name": leaf.name}
            by_integration.setdefault(str(leaf.parent_id), []).append(campaign)
    for root, made in by_integration.items():
        campaigns.insert_campaigns(connection, integrations[root], made)
    inserted = 0
    if new or any(is_bare for *_, is_bare in stored):
        seen = {id: node for id, node in named.items() if id in paths} | new
        inserted = _insert_nodes(connection, seen.values(), paths, project_id=project_id, now=now)
    return leaves, inserted + sum(map(len, by_integration.values()))


def _custom_chains(
    connection: Connection, wanted: Collection[tuple[str, str, str]]
) -> tuple[dict[tuple[str, str, str], tuple[Node, ...]], dict[str, campaigns.Integration]]:
    """Return the nodes of custom campaigns, and their integrations by root; one slug is one campaign."""
    vendors = sorted({vendor for vendor, _, _ in wanted})
    integrations = {
        vendor: campaigns.require(connection, vendor, argument="utm_source") for vendor in vendors
    }
    asked = [(integrations[vendor].id, slug, name) for vendor, slug, name in wanted]
    stored = campaigns.find_by_slugs(connection, asked)
    chains: dict[tuple[str, str, str], tuple[Node, ...]] = {}
    for vendor, slug, name in sorted(wanted):
        integration = integrations[vendor]
        root = Node(integration.node_id, None, "integration", vendor, integration.channel or "")
        id = stored.get((integration.id, slug, name)) or campaigns.id_of_slug(integration, slug)
        campaign = Node(id, integration.node_id, "campaign", name, integration.channel or "", slug=slug)
        chains[vendor, slug, name] = root, campaign
    return chains, {integration.node_id: integration for integration in integrations.values()}


def _insert_nodes(
    connection: Connection,
    nodes: Collection[Node],
    paths: Mapping[str, list[str]],
    *,
    project_id: str,
    now: str,
) -> int:
    """Insert the nodes that are not in the tree, and describe those that are only an id."""
    columns = {
        name: pa.array([getattr(node, field) for node in nodes], pa.string())
        for name, field in OF_NODE.items()
    } | {"path": pa.array([paths[node.node_id] for node in nodes], pa.list_(pa.string()))}
    names = ", ".join(columns)
    # A row of spend makes a node a campaign.
    changed = ", ".join(f"{name} = seen.{name}" for name in OF_NODE if name not in ("_id", "type"))
    with arrow_view(connection, pa.table(columns)) as view:
        inserted = connection.execute(
            f"INSERT INTO nodes (projectId, {names}, active, createdAt, updatedAt, implicit) "
            f"SELECT {literal(project_id)}, {names}, true, {now}, {now}, true "
            f"FROM {view} ANTI JOIN nodes USING (_id) ORDER BY _id"
        ).fetchall()[0][0]
        updated = connection.execute(
            f"UPDATE nodes SET {changed}, updatedAt = {now}, "
            "type = CASE WHEN nodes.type = 'campaign' THEN nodes.type ELSE seen.type END "
            f"FROM {view} AS seen WHERE nodes._id = seen._id AND {_IS_BARE}"
        ).fetchall()[0][0]
        if updated:
            campaigns.update_paths(connection)
        if inserted or updated:
            _list_campaigns(connection, view)
    return int(inserted)


def _list_campaigns(connection: Connection, seen: str) -> None:
    """List the campaigns below integrations among nodes; of several with one slug, one keeps it."""
    if sql_results.read_row(connection, "SELECT 1 FROM integrations LIMIT 1") is None:
        return
    connection.execute(
        "CREATE TEMP TABLE seen_campaigns AS SELECT _id FROM nodes WHERE type = 'campaign' AND path <> [] "
        f"AND (_id IN (SELECT _id FROM {seen}) OR campaignSlug IN (SELECT campaignSlug FROM {seen}))"
    )
    among = "_id IN (SELECT _id FROM temp.seen_campaigns)"
    connection.execute(
        "UPDATE nodes SET campaignSlug = NULL FROM ("
        f"SELECT _id FROM nodes JOIN {campaigns.campaign_nodes(among)} AS owner USING (_id) "
        "WHERE campaignSlug IS NOT NULL "
        "QUALIFY row_number() OVER (PARTITION BY owner.integrationId, campaignSlug "
        "ORDER BY implicit, _id) > 1"
        ") AS repeated WHERE nodes._id = repeated._id AND nodes.implicit"
    )
    campaigns.register_campaigns(connection, among)
    connection.execute("DROP TABLE temp.seen_campaigns")
