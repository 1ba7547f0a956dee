"""Read Snowplow's enriched events, from the table ``atomic.events`` or from tab-separated files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from attrib_ds.importers.journeys import (
    CONVERSIONS,
    VIEWS,
    VISITS,
    assemble,
    create_table,
    reference_sql,
    references,
    warn_without_conversions,
)
from attrib_ds.records.snowplow_events import open_snowplow_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.importers.journeys import Journeys
    from attrib_ds.records.frames import Frame, FrameOrPath


def read_snowplow(
    events: FrameOrPath | Sequence[FrameOrPath],
    *,
    conversions: Sequence[str] = ("transaction",),
    stitch: bool = True,
    currency: str | None = None,
    channels: Frame | None = None,
) -> Journeys:
    """Read enriched events of Snowplow.

    Parameters
    ----------
    events : str, Path, DataFrame, or a list of those
        Rows of the table ``atomic.events`` (a frame, Parquet, JSON lines, or CSV with a header), or files of
        enriched events as the pipeline writes them: tab-separated without a header, whatever their names,
        also with ``.gz``.
    conversions : sequence of str, default ("transaction",)
        Values of ``event_name`` (or ``event``) that are conversions; each becomes an event type.
        ``"transaction"`` includes orders of the e-commerce plug-in.
    stitch : bool, default True
        Whether to assign events without a ``user_id`` to the user seen with the same ``domain_userid``, if
        there is exactly one.
    currency : str, optional
        Currency of revenue that has none.
    channels : DataFrame, optional
        Rules that assign each node its channel, from :func:`channel_rules`; by default as they are.

    Returns
    -------
    Journeys
        Sessions by ``domain_sessionid`` (or by ``domain_userid`` and ``domain_sessionidx``) with the traffic
        source of their first view: the marketing fields ``mkt_*``, else the referrer, else direct; page
        views; the conversions with the statistic ``revenue``, orders once per ``tr_orderid``; the tree of
        sources, media and campaigns. ``journeys.load(project)`` loads them, ``journeys.paths()`` builds the
        paths.

    Raises
    ------
    InvalidRequest
        If the events cannot be read, an argument is not allowed, or revenue has no currency.

    Warns
    -----
    InputWarning
        If no event has the name of a conversion; the message lists the names in the export.
    RejectedRows
        If rows cannot be read; the message has their number and the first reason.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import attribute, read_snowplow
    >>> events = pd.DataFrame({"event_id": ["11111111-1111-4111-8111-111111111111",
    ...         "22222222-2222-4222-8222-222222222222"],
    ...     "event_name": ["page_view", "transaction"], "domain_userid": ["d", "d"],
    ...     "domain_sessionid": ["s", "s"], "mkt_source": ["google", None], "mkt_medium": ["cpc", None],
    ...     "derived_tstamp": pd.to_datetime(["2025-01-01 10:00", "2025-01-01 10:05"]),
    ...     "tr_orderid": [None, "T1"]})
    >>> journeys = read_snowplow(events)
    >>> attribute(journeys.paths(), "linear")[["node_id", "conversions"]]
          node_id  conversions
    0  google/cpc          1.0
    """
    references_by_name = references(conversions)
    connection = duckdb.connect()
    open_snowplow_events(connection, events)
    _create_visits(connection)
    columns = {"view_key": "event_id", "viewed": "occurred"}
    create_table(
        connection,
        "views",
        VIEWS,
        columns,
        "FROM source_events WHERE kind IN ('page_view', 'screen_view') AND visit_key IS NOT NULL",
    )
    _create_conversions(connection, references_by_name)
    warn_without_conversions(
        connection,
        "kind",
        "FROM source_events",
        expected=f"no event has the name {' or '.join(map(repr, references_by_name))}",
        advice='Choose among them with conversions=["NAME"]',
    )
    # Two accounts in one session are two on the device, though the session has the last one.
    return assemble(
        connection, "snowplow", stitch=stitch, currency=currency, channels=channels, sightings="source_events"
    )


def _create_visits(connection: duckdb.DuckDBPyConnection) -> None:
    # The first view has the traffic source; a page ping can be recorded before the view of a slow page.
    opening = ["mkt_medium", "mkt_source", "mkt_term", "mkt_content", "mkt_campaign", "mkt_clickid"]
    opening += ["mkt_network", "refr_medium", "refr_source", "refr_urlhost", "page", "referrer"]
    rest = ["agent", "browser", "browser_version", "system", "device_type"]
    rest += ["country", "region", "city"]
    views_first = "(kind NOT IN ('page_view', 'screen_view'), event_order)"
    source = ", ".join(f"arg_min_null({name}, {views_first}) AS {name}" for name in opening)
    details = ", ".join(f"arg_min({name}, event_order) AS {name}" for name in rest)
    connection.execute(
        "CREATE TABLE sessions AS SELECT visit_key, min(device) AS device, "
        "arg_max(account, event_order) AS account, "
        f"min(occurred) AS started, max(occurred) AS ended, bool_or(is_bot) AS is_bot, {source}, {details} "
        "FROM source_events WHERE visit_key IS NOT NULL GROUP BY visit_key"
    )
    is_marked = "coalesce(mkt_source, mkt_medium, mkt_campaign) IS NOT NULL"
    is_click = f"NOT ({is_marked}) AND coalesce(mkt_clickid, mkt_network) IS NOT NULL"
    medium = (
        "CASE refr_medium WHEN 'search' THEN 'organic' WHEN 'social' THEN 'social' WHEN 'email' THEN 'email' "
        "WHEN 'paid' THEN 'cpc' WHEN 'unknown' THEN 'referral' WHEN 'internal' THEN NULL "
        "ELSE CASE WHEN refr_medium IS NOT NULL THEN 'referral' END END"
    )
    site = f"CASE WHEN ({medium}) IS NOT NULL THEN coalesce(refr_source, refr_urlhost) END"
    columns = {
        "source": f"CASE WHEN {is_marked} THEN mkt_source WHEN {is_click} THEN lower(mkt_network) "
        f"ELSE {site} END",
        "medium": f"CASE WHEN {is_marked} THEN mkt_medium WHEN {is_click} THEN 'cpc' ELSE {medium} END",
        "campaign": "mkt_campaign",
        "ad": "mkt_content",
        "keyword": "mkt_term",
    }
    create_table(connection, "visits", VISITS, columns, "FROM sessions")


def _create_conversions(connection: duckdb.DuckDBPyConnection, references_by_name: dict[str, str]) -> None:
    # Orders of the e-commerce plug-in are actions with a transaction entity.
    is_order = "has_order AND kind = 'snowplow_ecommerce_action'"
    name = f"CASE WHEN {is_order} THEN 'transaction' ELSE source_events.kind END"
    columns = {
        "source_id": "CASE WHEN order_id IS NOT NULL THEN order_id ELSE event_id END",
        "kind": reference_sql(f"({name})", references_by_name),
        "name": "source_events.kind",
        "account": "coalesce(source_events.account, sessions.account)",
        "device": "source_events.device",
        "currency": "money",
    }
    rows = f"FROM source_events LEFT JOIN sessions USING (visit_key) WHERE {columns['kind']} IS NOT NULL"
    create_table(connection, "conversions", CONVERSIONS, columns, f"{rows} AND NOT source_events.is_bot")
