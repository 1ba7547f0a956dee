"""Resolves the traffic sources of hits to nodes, by their parameters and referrers."""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds.queries.channel_rules import default_channel, known_site, referrer_host
from attrib_ds.queries.traffic_nodes import Node, Traffic, chain, known_word, without_placeholders
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.campaigns import (
    CAMPAIGN_NODES,
    find_by_slug,
    insert_campaign,
    register_campaigns,
    require,
    update_paths,
)
from attrib_ds.service.collection.visitors import HOST, capture_sql, create_captured_addresses, is_bot
from attrib_ds.service.store.settings import read_settings
from attrib_ds.service.store.tables import arrow_view

#: Source and medium of the clicks that ad platforms mark. The first of them that a URL has counts.
CLICK_IDS: Final = {
    "gclid": ("google", "cpc"),
    "gbraid": ("google", "cpc"),
    "wbraid": ("google", "cpc"),
    "dclid": ("google", "display"),
    "msclkid": ("bing", "cpc"),
    "fbclid": ("facebook", "social"),
    "ttclid": ("tiktok", "paid"),
    "li_fat_id": ("linkedin", "paid"),
    "twclid": ("twitter", "paid"),
    "yclid": ("yandex", "cpc"),
}
#: Facebook marks every outbound link, those of posts too.
_NOT_ONLY_ADS: Final = "fbclid"
_PAID: Final = re.compile(r".*cp.*|ppc|retargeting|paid.*", re.IGNORECASE)
_UTM: Final = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
#: Parameters of a URL that can name a source.
PARAMETERS: Final = (*_UTM, *CLICK_IDS)
#: Medium of the traffic of known sites that are named as the source, which decides their channel.
_MEDIA: Final = {"search": "organic", "social": "social", "ai": "ai-assistant", "email": "email"}
#: Medium of the nodes of unpaid channels, whose ids have none.
_UNPAID_MEDIA: Final = {
    "Organic Search": "organic",
    "Organic Social": "social",
    "Organic Video": "referral",
    "Organic Shopping": "referral",
    "AI Assistants": "ai-assistant",
    "Referral": "referral",
}
#: Channels of known sites whose traffic is a referral.
_REFERRING: Final = {"shopping": "Organic Shopping", "video": "Organic Video"}
#: Slug of the campaign of traffic that names an integration and no campaign.
DEFAULT_SLUG: Final = "default"
_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
#: Providers of payments, whose referrers are those of customers who return.
PAYMENT_HOSTS: Final = (
    "adyen.com", "afterpay.com", "checkout.com", "checkout.stripe.com", "hooks.stripe.com", "klarna.com",
    "mollie.com", "pay.amazon.com", "pay.google.com", "paypal.com", "secure.worldpay.com", "sofort.com",
)  # fmt: skip


@dataclass(frozen=True)
class TrafficSource:
    """The traffic source of hits.

    Parameters
    ----------
    referrer_type : str
        One of direct, search, social, ai, email, referral, campaign and internal.
    nodes : tuple of Node
        Its nodes, from the root down; empty for a custom campaign.
    custom_campaign : tuple of str, optional
        ``vendorId`` and slug of a custom campaign.
    """

    referrer_type: str
    nodes: tuple[Node, ...] = ()
    custom_campaign: tuple[str, str] | None = None


def resolve_source(
    search: str, referrer: str, *, is_internal: bool = False, vendors: Collection[str] = ()
) -> TrafficSource:
    """Return the traffic source of a hit.

    Parameters
    ----------
    search : str
        Query of the page's URL, with or without the question mark.
    referrer : str
        URL of the referrer; empty without one.
    is_internal : bool, default False
        Whether the referrer is a page of the site itself, or of a provider of payments.
    vendors : collection of str
        ``vendorId`` of each integration.

    Examples
    --------
    >>> ads = resolve_source("?utm_source=google&utm_medium=cpc&utm_campaign=spring", "")
    >>> ads.referrer_type, ads.nodes[-1].node_id, ads.nodes[-1].channel
    ('campaign', 'google/cpc/spring', 'Paid Search')
    >>> resolve_source("", "https://www.bing.com/").nodes[-1].node_id
    'organic-search/bing'
    >>> resolve_source("?utm_source=flyers&utm_campaign=may", "", vendors=["flyers"]).custom_campaign
    ('flyers', 'may')
    """
    values = _values(search)
    utm = [values.get(name) for name in _UTM]
    source, medium, campaign, content, term = utm
    if source is not None:
        vendor = next((vendor for vendor in vendors if vendor.casefold() == source.casefold()), None)
        slug = campaign or DEFAULT_SLUG
        if vendor is not None and _SLUG.fullmatch(slug):
            return TrafficSource("campaign", custom_campaign=(vendor, slug))
    click = next((name for name in CLICK_IDS if name in values), None)
    if click is not None:
        platform, usual = CLICK_IDS[click]
        is_paid = medium is not None and _PAID.fullmatch(medium) is not None
        kind = medium if is_paid and click == _NOT_ONLY_ADS else usual
        is_campaign = click != _NOT_ONLY_ADS or any(utm)
        nodes = _nodes(Traffic(platform, kind, campaign, ad=content, keyword=term))
        return TrafficSource("campaign" if is_campaign else "social", nodes)
    assistant = known_site(f"//{source}") if source and not any(utm[1:]) else None
    if assistant is not None and assistant.kind == "ai":
        return _of_site(assistant.name, "ai")
    if any((source, medium, campaign)):
        return TrafficSource("campaign", _nodes(Traffic(source, medium, campaign, ad=content, keyword=term)))
    if is_internal:
        return TrafficSource("internal", chain(Traffic()))
    site = known_site(referrer)
    if site is not None and site.kind in _MEDIA:
        return _of_site(site.name, site.kind)
    host = referrer_host(referrer).removeprefix("www.")
    if host:
        channel = _REFERRING[site.kind] if site is not None else "Referral"
        return TrafficSource("referral", chain(Traffic(host, "referral", channel=channel)))
    return TrafficSource("direct", chain(Traffic()))


def _values(search: str) -> dict[str, str]:
    """Return the first value of each parameter that can name a source."""
    values: dict[str, str] = {}
    for name, value in parse_qsl(search.removeprefix("?"), errors="replace"):
        word = known_word("".join(letter for letter in value if letter.isprintable()))
        if name.lower() in PARAMETERS and word is not None:
            values.setdefault(name.lower(), word)
    return values


def _of_site(name: str, kind: str) -> TrafficSource:
    return TrafficSource(kind, _nodes(Traffic(name, _MEDIA[kind])))


def _nodes(traffic: Traffic) -> tuple[Node, ...]:
    """Return nodes whose description follows from their id, whatever traffic is seen first."""
    traffic = without_placeholders(traffic)
    source, medium = traffic.source or "", traffic.medium or ""
    channel = default_channel()(source, medium, traffic.campaign or "")
    nodes = chain(replace(traffic, channel=channel))
    if nodes[0].kind == "integration":
        return replace(nodes[0], channel=default_channel()(source, medium, "")), *nodes[1:]
    return tuple(replace(node, medium=_UNPAID_MEDIA.get(channel, node.medium)) for node in nodes)


_FIELDS: Final = {
    "_id": "node_id",
    "parentId": "parent_id",
    "type": "kind",
    "name": "name",
    "channel": "channel",
    "campaignSlug": "slug",
    "source": "source",
    "medium": "medium",
}


def insert_source_nodes(
    connection: Connection, chains: Iterable[tuple[Node, ...]], *, project_id: str, now: str
) -> int:
    """Insert nodes that are not in the tree yet; return their number.

    Nodes in the tree stay as they are, except those that are only an id, because loaded rows refer to them:
    they are described, so that the result does not depend on what came first. A node follows from its id.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    chains : iterable of tuple of Node
        Nodes of each source, from the root down.
    project_id : str
        The project.
    now : str
        SQL for their date.
    """
    nodes = {node for chain in chains for node in chain}
    columns = {
        name: pa.array([getattr(node, field) for node in nodes], pa.string())
        for name, field in _FIELDS.items()
    }
    names = ", ".join(_FIELDS)
    # A row of spend makes a node a campaign.
    changed = ", ".join(f"{name} = seen.{name}" for name in _FIELDS if name not in ("_id", "type"))
    with arrow_view(connection, pa.table(columns)) as view:
        inserted = connection.execute(
            f"INSERT INTO nodes (projectId, {names}, path, active, createdAt, updatedAt, implicit) "
            f"SELECT {literal(project_id)}, {names}, [], true, {now}, {now}, true "
            f"FROM {view} ANTI JOIN nodes USING (_id) ORDER BY _id"
        ).fetchall()[0][0]
        updated = connection.execute(
            f"UPDATE nodes SET {changed}, updatedAt = {now}, "
            "type = CASE WHEN nodes.type = 'campaign' THEN nodes.type ELSE seen.type END "
            f"FROM {view} AS seen WHERE nodes._id = seen._id AND nodes.implicit AND nodes.channel IS NULL "
            "AND nodes.parentId IS NULL AND nodes.type <> 'integration'"
        ).fetchall()[0][0]
    if inserted or updated:
        update_paths(connection)
        _list_campaigns(connection)
    return int(inserted)


def _list_campaigns(connection: Connection) -> None:
    """List the campaigns below integrations; of several with one slug, one keeps it."""
    connection.execute(
        "UPDATE nodes SET campaignSlug = NULL FROM ("
        f"SELECT _id FROM nodes JOIN {CAMPAIGN_NODES} AS owner USING (_id) WHERE campaignSlug IS NOT NULL "
        "QUALIFY row_number() OVER (PARTITION BY owner.integrationId, campaignSlug "
        "ORDER BY implicit, _id) > 1"
        ") AS repeated WHERE nodes._id = repeated._id AND nodes.implicit"
    )
    register_campaigns(connection)


_LONGEST_REFERRER: Final = 2_048


def resolve_hits(connection: Connection, hits: str, *, project_id: str, now: str, into: str) -> int:
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


def _create_keys(connection: Connection, hits: str) -> None:
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


def _resolve_sources(connection: Connection, *, project_id: str, now: str) -> int:
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


def _campaign_node(connection: Connection, vendor_id: str, slug: str) -> tuple[str, bool]:
    """Return the node of a custom campaign, and whether it is new."""
    integration = require(connection, vendor_id, argument="utm_source")
    existing = find_by_slug(connection, integration, slug)
    if existing is not None:
        return str(existing["id"]), False
    # Derived, so that the id does not depend on the order of arrival.
    id = hashlib.sha256(f"{integration.id}\n{slug}".encode()).hexdigest()[:24]
    insert_campaign(connection, integration, id, slug, slug)
    return id, True
