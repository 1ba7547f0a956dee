"""Read the BigQuery export of Google Analytics 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb

from attrib_ds.errors import InvalidRequest
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
from attrib_ds.records.ga4_events import MARKS, open_ga4_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.importers.journeys import Journeys
    from attrib_ds.records.frames import Frame, FrameOrPath

TRAFFIC: Final = ("session", "last_click")

#: A session id is the session's start in seconds, unless an app or a server set another one.
_DAY_MICROS: Final = 86_400_000_000


def read_ga4(
    exports: FrameOrPath | Sequence[FrameOrPath],
    *,
    conversions: Sequence[str] = ("purchase",),
    traffic: str = "session",
    stitch: bool = True,
    currency: str | None = None,
    channels: Frame | None = None,
) -> Journeys:
    """Read the event tables that Google Analytics 4 exports to BigQuery.

    Parameters
    ----------
    exports : str, Path, DataFrame, or a list of those
        Rows of ``events_YYYYMMDD``: JSON lines (``.json``, ``.ndjson``, ``.jsonl``, also with ``.gz``),
        Parquet, or a result of a BigQuery client; also flattened queries with a column for each parameter
        (``ga_session_id``, ``source``, …), and Fivetran's table ``event``. Days may overlap. A session past
        midnight is complete only if both days are given.
    conversions : sequence of str, default ("purchase",)
        Names of the events that are conversions; each becomes an event type.
    traffic : {"session", "last_click"}, default "session"
        Traffic source of a session: ``"session"`` uses the session's own events
        (``collected_traffic_source``, else the event parameters), otherwise direct; ``"last_click"`` is the
        source in Google Analytics reports (``session_traffic_source_last_click``), which gives a direct
        session the campaign of an earlier session, and thus counts the campaign again as a touchpoint.
    stitch : bool, default True
        Whether to assign sessions without a ``user_id`` to the user seen on the device, if there is exactly
        one. Otherwise they belong to the device, as in Google Analytics reports.
    currency : str, optional
        Currency of revenue that has none.
    channels : DataFrame, optional
        Rules that assign each node its channel, from :func:`channel_rules`; by default those of the
        export, else the default rules.

    Returns
    -------
    Journeys
        Sessions by ``ga_session_id``; page views; the conversions with the statistic ``revenue``
        (``ecommerce.purchase_revenue``, else the parameter ``value``), one per ``transaction_id``; the tree
        of sources, media and campaigns. ``journeys.load(project)`` loads them, ``journeys.paths()`` builds
        the paths.

    Raises
    ------
    InvalidRequest
        If an export cannot be read, an argument is not allowed, or revenue has no currency.

    Warns
    -----
    InputWarning
        If no event has the name of a conversion; the message lists the names in the export.
    RejectedRows
        If rows cannot be read; the message has their number and the first reason.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import attribute, read_ga4
    >>> def parameter(key, **value):
    ...     return {"key": key, "value": value}
    >>> visit = [parameter("ga_session_id", int_value=1735725600), parameter("source", string_value="google"),
    ...          parameter("medium", string_value="cpc"), parameter("campaign", string_value="spring")]
    >>> order = [parameter("ga_session_id", int_value=1735725600)]
    >>> events = pd.DataFrame({"event_timestamp": [1735725600000000, 1735725900000000],
    ...     "event_name": ["session_start", "purchase"], "user_pseudo_id": ["a.1", "a.1"],
    ...     "event_params": [visit, order], "ecommerce": [None, {"transaction_id": "T1"}]})
    >>> journeys = read_ga4(events)
    >>> attribute(journeys.paths(), "linear")[["node_id", "conversions"]]
                 node_id  conversions
    0  google/cpc/spring          1.0
    """
    if traffic not in TRAFFIC:
        raise InvalidRequest.choice("traffic", traffic, TRAFFIC)
    references_by_name = references(conversions)
    connection = duckdb.connect()
    open_ga4_events(connection, exports)
    _create_visits(connection, is_last_click=traffic == "last_click")
    _create_views(connection)
    _create_conversions(connection, references_by_name)
    warn_without_conversions(
        connection,
        "event_name",
        "FROM source_events",
        expected=f"no event has the name {' or '.join(map(repr, references_by_name))}",
        advice='Choose among them with conversions=["NAME"]',
    )
    # Two accounts in one session are two on the device, though the session has the last one.
    return assemble(
        connection, "ga4", stitch=stitch, currency=currency, channels=channels, sightings="source_events"
    )


def _create_visits(connection: duckdb.DuckDBPyConnection, *, is_last_click: bool) -> None:
    first = "FIRST({} ORDER BY event_order)".format
    own = ", ".join(f"FIRST({name} ORDER BY event_order) FILTER (is_marked) AS {name}" for name in MARKS)
    first_filled = ", ".join(
        f"FIRST({name} ORDER BY event_order) FILTER ({name} IS NOT NULL) AS {name}"
        for name in (
            "browser", "browser_version", "system", "system_version", "device_type", "region", "city",
            "channel", "ads_campaign", "ads_campaign_id", "ads_group",
            "last_source", "last_medium", "last_campaign", "last_campaign_id", "last_content", "last_term",
            "p_page_location", "p_page_referrer",
        )
    )  # fmt: skip
    connection.execute(
        f"""
        CREATE TABLE sessions AS
        SELECT visit_key, any_value(device) AS device, LAST(account ORDER BY event_order)
                FILTER (account IS NOT NULL) AS account,
            min(micros) AS started, max(micros) AS ended, any_value(session) * 1000000 AS session_start,
            {own}, {first_filled}, bool_or(is_marked) AS is_marked,
            coalesce(max(try_cast(p_ga_session_number AS BIGINT)) = 1, false) AS is_first,
            {first("first_source")} AS first_source, {first("first_medium")} AS first_medium,
            {first("first_campaign")} AS first_campaign
        FROM source_events WHERE visit_key IS NOT NULL GROUP BY visit_key
        """
    )
    started = (
        f"CASE WHEN session_start BETWEEN started - {_DAY_MICROS} AND started THEN session_start "
        "ELSE started END"
    )
    is_ad = "is_marked AND gclid IS NOT NULL"
    has_last = (
        f"{str(is_last_click).lower()} AND coalesce(last_source, last_medium, last_campaign) IS NOT NULL"
    )
    # If a user's first session has no traffic source of its own, the user's source is that of the session.
    is_user = "NOT is_marked AND is_first"
    case = (
        f"CASE WHEN {has_last} THEN {{}} WHEN {is_ad} THEN {{}} WHEN is_marked THEN {{}} ELSE {{}} END".format
    )
    user = f"CASE WHEN {is_user} THEN {{}} END".format
    same = "source IS NOT DISTINCT FROM last_source AND medium IS NOT DISTINCT FROM last_medium"
    columns = {
        "source": case("last_source", "'google'", "source", user("first_source")),
        "medium": case("last_medium", "'cpc'", "medium", user("first_medium")),
        "campaign": case(
            "last_campaign", "coalesce(ads_campaign, campaign)", "campaign", user("first_campaign")
        ),
        "campaign_id": case(
            "last_campaign_id", "coalesce(ads_campaign_id, campaign_id)", "campaign_id", "NULL"
        ),
        "adset": case("ads_group", "ads_group", "NULL", "NULL"),
        "ad": case("last_content", "content", "content", "NULL"),
        "keyword": case("last_term", "term", "term", "NULL"),
        "channel": case("channel", "NULL", f"CASE WHEN {same} THEN channel END", "NULL"),
        "started": f"make_timestamp({started})",
        "ended": "make_timestamp(ended)",
        "page": "p_page_location",
        "referrer": "p_page_referrer",
    }
    create_table(connection, "visits", VISITS, columns, "FROM sessions")


def _create_views(connection: duckdb.DuckDBPyConnection) -> None:
    columns = {"view_key": "event_key", "viewed": "occurred", "page": "p_page_location"}
    where = "WHERE event_name IN ('page_view', 'screen_view') AND visit_key IS NOT NULL"
    create_table(connection, "views", VIEWS, columns, f"FROM source_events {where}")


def _create_conversions(connection: duckdb.DuckDBPyConnection, references_by_name: dict[str, str]) -> None:
    named = [f"nullif({column}, '(not set)')" for column in ("transaction", "p_transaction_id")]
    in_usd = (
        "p_currency IS NULL AND revenue_in_usd IS NOT NULL "
        "AND (purchase_revenue IS NOT NULL OR p_value IS NULL)"
    )
    revenue = f"CASE WHEN {in_usd} THEN revenue_in_usd ELSE coalesce(purchase_revenue, p_value) END"
    is_broken = f"({revenue} IS NOT NULL AND try_cast({revenue} AS DOUBLE) IS NULL)"
    columns = {
        "source_id": f"coalesce({', '.join(named)}, event_key)",
        "kind": reference_sql("event_name", references_by_name),
        "name": "event_name",
        # A user who signed in later in the session has the account from the start.
        "account": "coalesce(source_events.account, sessions.account)",
        "device": "source_events.device",
        "amount": f"try_cast({revenue} AS DOUBLE)",
        "currency": f"CASE WHEN {in_usd} THEN 'USD' ELSE p_currency END",
    }
    is_conversion = f"{columns['kind']} IS NOT NULL"
    connection.execute(
        "INSERT INTO rejected SELECT file, row, "
        f"concat('the revenue of a conversion is not a number: ', chr(39), {revenue}, chr(39)) "
        f"FROM source_events WHERE {is_conversion} AND {is_broken}"
    )
    rows = (
        f"FROM source_events LEFT JOIN sessions USING (visit_key) WHERE {is_conversion} AND NOT {is_broken}"
    )
    create_table(connection, "conversions", CONVERSIONS, columns, rows)
