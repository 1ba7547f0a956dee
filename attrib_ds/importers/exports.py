"""Read exports of Google Analytics 4, Matomo and Snowplow: visits, page views and conversions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import duckdb

from attrib_ds import display, errors, scratch, sql_results
from attrib_ds.importers import journeys
from attrib_ds.importers.aliases import Aliases
from attrib_ds.records import export_tables, ga4_events, snowplow_events, written_values
from attrib_ds.records.frames import Frame, FrameOrPath, to_pandas
from attrib_ds.records.sources import literal

TRAFFIC: Final = ("session", "last_click")

_MAX_NAMES: Final = 20
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
    aliases: Mapping[str, str] | None = None,
) -> journeys.Journeys:
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
    aliases : mapping of str to str, optional
        Present names of campaigns and other nodes by their former names, such as
        ``{"spring sale": "summer sale"}``.

    Returns
    -------
    Journeys
        Sessions by ``ga_session_id``; page views; the conversions with the statistic ``revenue``
        (``ecommerce.purchase_revenue``, else the parameter ``value``), one per ``transaction_id``, less the
        ``refund`` events of the transaction (``ecommerce.refund_value``, else ``value``, else the sum of
        ``item_refund``, else all of it). An order refunded whole is still a conversion, of value 0. The tree
        of sources, media and campaigns. ``journeys.load(project)`` loads them, ``journeys.paths()`` builds
        the paths.

    Raises
    ------
    InvalidRequest
        If an export cannot be read, an argument is not allowed, or some revenue only has a currency.

    Warns
    -----
    InputWarning
        If no event has the name of a conversion; the message lists the names in the export.
    InputWarning
        If refunds are subtracted, have no transaction here, are in another currency or above their
        transaction, or revenue is in USD only; with their numbers.
    InputWarning
        If events with one ``transaction_id`` have different users or amounts; the first counts.
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
    errors.check_choice("traffic", traffic, TRAFFIC)
    by_name = journeys.references(conversions)
    present_names = Aliases(aliases)
    connection = scratch.open_database()
    ga4_events.open_ga4_events(connection, exports)
    notes = _create_ga4_visits(connection, is_last_click=traffic == "last_click")
    notes += _create_ga4_conversions(connection, by_name, journeys.checked_currency(currency))
    for note in notes:
        errors.warn(f"exports: {note}")
    views = {"view_key": "event_key", "viewed": "occurred", "page": "p_page_location"}
    options: dict[str, Any] = {
        "stitch": stitch, "currency": currency, "channels": channels, "aliases": present_names,
    }  # fmt: skip
    read = _assembled(connection, "ga4", "event_name", by_name, views, options)
    refunds = sql_results.read_arrow(
        connection, "SELECT DISTINCT event_id, round(net - whole, 6) AS value FROM subtracted ORDER BY ALL"
    )
    return replace(read, notes=(*notes, *read.notes), refunds=to_pandas(refunds))


def _create_ga4_visits(connection: duckdb.DuckDBPyConnection, *, is_last_click: bool) -> tuple[str, ...]:
    """Create the visits; return what is to be said of their sources."""
    user_first = ", ".join(
        f"FIRST({name} ORDER BY event_order) AS {name}"
        for name in ("first_source", "first_medium", "first_campaign")
    )
    own = ", ".join(
        f"FIRST({name} ORDER BY event_order) FILTER (is_marked) AS {name}" for name in ga4_events.MARKS
    )
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
            FIRST({ga4_events.REFERRER} ORDER BY event_order)
                FILTER (p_page_location IS NOT NULL) AS came_from,
            coalesce(max(try_cast(p_ga_session_number AS BIGINT)) = 1, false) AS is_first, {user_first}
        FROM source_events WHERE visit_key IS NOT NULL AND NOT {ga4_events.IS_REFUND} GROUP BY visit_key
        """
    )
    is_own = f"session_start BETWEEN started - {_DAY_MICROS} AND started"
    has_last = "coalesce(last_source, last_medium, last_campaign) IS NOT NULL"
    landing = export_tables.with_parameters("coalesce(p_page_location, '')", ga4_events.CLICK_IDS)
    is_last = has_last if is_last_click else "false"
    # A campaign of Google Ads belongs to a click on an ad.
    is_ad = f"ads_campaign IS NOT NULL AND regexp_matches({landing}, '[?&](gclid|gbraid|wbraid)=')"
    case = (
        f"CASE WHEN {is_last} THEN {{}} WHEN {is_ad} THEN {{}} WHEN is_marked THEN {{}} ELSE {{}} END".format
    )
    # If a user's first session has no traffic source of its own, the user's source is that of the session.
    user = "CASE WHEN NOT is_marked AND is_first THEN {} END".format

    same = "source IS NOT DISTINCT FROM last_source AND medium IS NOT DISTINCT FROM last_medium"
    columns = {
        "source": case("last_source", "'google'", "source", user("first_source")),
        "medium": case("last_medium", "'cpc'", "medium", user("first_medium")),
        "campaign": case("last_campaign", "ads_campaign", "campaign", user("first_campaign")),
        "campaign_id": case("last_campaign_id", "ads_campaign_id", "campaign_id", "NULL"),
        "adset": case("ads_group", "ads_group", "NULL", "NULL"),
        "ad": case("last_content", "content", "content", "NULL"),
        "keyword": case("last_term", "term", "term", "NULL"),
        "channel": case("channel", "NULL", f"CASE WHEN {same} THEN channel END", "NULL"),
        "started": f"make_timestamp(CASE WHEN {is_own} THEN session_start ELSE started END)",
        "ended": "make_timestamp(ended)",
        "page": "p_page_location",
        "referrer": "p_page_referrer",
        "landing": f"CASE WHEN NOT ({is_last}) THEN {landing} END",
        "came_from": f"CASE WHEN NOT ({is_last}) THEN came_from END",
        "is_derived": f"NOT ({is_ad}) AND (NOT is_marked OR (lower(medium) IN ('organic', 'referral') "
        "AND NOT coalesce(campaign NOT LIKE '(%', false)))",
    }
    journeys.create_table(connection, "visits", journeys.VISITS, columns, "FROM sessions")
    journeys.resolve_sources(connection, "visits")
    if is_last_click:
        return ()
    ((count,),) = connection.execute(
        "SELECT count(*) FROM visits JOIN sessions USING (visit_key) WHERE leaf = 'direct' "
        f"AND {has_last} AND coalesce(last_source, '') <> '(direct)'"
    ).fetchall()
    if not count:
        return ()
    has = "session has" if count == 1 else "sessions have"
    return (
        f"{count:,} direct {has} the source of an earlier click (session_traffic_source_last_click); "
        'traffic="last_click" uses it',
    )


def _create_ga4_conversions(
    connection: duckdb.DuckDBPyConnection, by_name: dict[str, str], currency: str | None
) -> tuple[str, ...]:
    """Create the conversions, net of refunds; return what is to be said of their amounts."""
    transaction = ", ".join(
        f"nullif({column}, '(not set)')" for column in ("transaction", "p_transaction_id")
    )
    revenue, is_broken, in_usd = _ga4_amount("purchase_revenue", "revenue_in_usd", currency)
    columns = {
        "source_id": f"coalesce({transaction}, event_key)",
        "kind": journeys.reference_sql("event_name", by_name),
        "name": "event_name",
        # A user who signed in later in the session has the account from the start.
        "account": "coalesce(source_events.account, sessions.account)",
        "device": "source_events.device",
        "amount": f"try_cast({revenue} AS DOUBLE)",
        "currency": f"CASE WHEN {in_usd} THEN 'USD' ELSE p_currency END",
    }
    is_conversion = f"{columns['kind']} IS NOT NULL"
    refund, is_broken_refund, refund_in_usd = _ga4_amount(
        "refund_value", "coalesce(refund_in_usd, items_refund_in_usd)", currency, items="items_refund"
    )
    is_refund = f"{ga4_events.IS_REFUND} AND NOT {is_conversion}"
    connection.execute(
        f"INSERT INTO rejected SELECT file, row, concat('the ', CASE WHEN {is_conversion} THEN 'revenue of a "
        f"conversion' ELSE 'value of a refund' END, ' is not a number: ', chr(39), "
        f"CASE WHEN {is_conversion} THEN {revenue} ELSE {refund} END, chr(39)) FROM source_events "
        f"WHERE ({is_conversion} AND {is_broken}) OR ({is_refund} AND {is_broken_refund})"
    )
    rows = (
        f"FROM source_events LEFT JOIN sessions USING (visit_key) WHERE {is_conversion} AND NOT {is_broken}"
    )
    journeys.create_table(connection, "conversions", journeys.CONVERSIONS, columns, rows)
    ((in_dollars,),) = connection.execute(f"SELECT count(*) {rows} AND {in_usd}").fetchall()
    connection.execute(
        f"CREATE TABLE refunds AS SELECT coalesce({transaction}) AS transaction_id, "
        f"abs(try_cast({refund} AS DOUBLE)) AS given_back, "
        f"CASE WHEN {refund_in_usd} THEN 'USD' ELSE p_currency END AS money "
        f"FROM source_events WHERE {is_refund} AND NOT {is_broken_refund}"
    )
    notes = _subtract_ga4_refunds(connection, currency)
    if in_dollars:
        counted = display.counted(in_dollars, "conversions")
        notes = (*notes, f"{counted} with revenue in USD, since the events name no other currency")
    return notes


def _ga4_amount(name: str, in_usd: str, currency: str | None, *, items: str = "NULL") -> tuple[str, str, str]:
    """Return SQL for an amount, whether it is not a number, and whether it is in USD.

    The amount in USD is used if it is the only one, or if the currency of the other is unknown.
    """
    own = f"coalesce({name}, p_value, {items})"
    is_unknown = (
        f"p_currency IS NULL AND coalesce({name}, {items}) IS NOT NULL" if currency is None else "false"
    )
    is_usd = f"({in_usd} IS NOT NULL AND ({own} IS NULL OR ({is_unknown})))"
    amount = f"CASE WHEN {is_usd} THEN {in_usd} ELSE {own} END"
    return amount, f"({amount} IS NOT NULL AND try_cast({amount} AS DOUBLE) IS NULL)", is_usd


def _subtract_ga4_refunds(connection: duckdb.DuckDBPyConnection, currency: str | None) -> tuple[str, ...]:
    """Subtract refunds from their transactions; one without an amount takes back all of it."""
    default = "NULL" if currency is None else literal(currency)
    given, own = (f"upper(coalesce({name}, {default}, ''))" for name in ("money", "currency"))
    is_order = "transaction_id = source_id"
    is_met = f"{is_order} AND (given_back IS NULL OR {given} = {own})"
    # A refund of nothing changes nothing.
    connection.execute("DELETE FROM refunds WHERE given_back = 0")
    left = "CASE WHEN bool_or(given_back IS NULL) THEN 0 ELSE round(amount - sum(given_back), 6) END"
    net = f"(SELECT {left} FROM refunds WHERE {is_met})"
    connection.execute(
        f"CREATE TABLE subtracted AS SELECT source_id AS event_id, amount AS whole, {net} AS net "
        f"FROM conversions WHERE amount IS NOT NULL AND EXISTS (FROM refunds WHERE {is_met})"
    )
    ((met, other, one_other, lost, one_lost),) = connection.execute(
        "SELECT count(*) FILTER (is_met), count(*) FILTER (is_other), min(transaction_id) FILTER (is_other), "
        "count(*) FILTER (is_lost), min(transaction_id) FILTER (is_lost) FROM (SELECT *, is_known AND NOT "
        "is_met AS is_other, NOT is_known AS is_lost FROM (SELECT transaction_id, "
        f"EXISTS (FROM conversions WHERE {is_order}) AS is_known, "
        f"EXISTS (FROM conversions WHERE {is_met}) AS is_met FROM refunds))"
    ).fetchall()
    connection.execute(f"UPDATE conversions SET amount = coalesce({net}, amount) WHERE amount IS NOT NULL")
    notes = [f"{display.counted(met, 'refunds')} subtracted from the revenue"] if met else []
    if lost:
        such = "" if one_lost is None else f", such as {one_lost!r}"
        notes.append(
            f"{display.counted(lost, 'refunds')} not subtracted, since no conversion has the transaction"
            f"{display.printable(such)}. Read the days of the orders as well"
        )
    if other:
        notes.append(
            f"{display.counted(other, 'refunds')} not subtracted, since the order is in another currency, "
            f"such as {display.printable(repr(one_other))}. Pass them to journeys.paths as adjustments, with "
            "in_currency and rates"
        )
    return (*notes, *_excessive_refunds(connection))


def _excessive_refunds(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return what is to be said of refunds above their order."""
    count, example, net, whole = connection.execute(
        "SELECT count(DISTINCT event_id), min(event_id), arg_min(net, event_id), arg_min(whole, event_id) "
        "FROM subtracted WHERE net < 0 AND whole >= 0"
    ).fetchall()[0]
    if not count:
        return ()
    return (
        f"{display.counted(count, 'conversions')} with refunds above the revenue, which is then below 0, "
        f"such as {display.printable(repr(example))}: {display.cents(whole - net)} of {display.cents(whole)}",
    )


def read_snowplow(
    events: FrameOrPath | Sequence[FrameOrPath],
    *,
    conversions: Sequence[str] = ("transaction",),
    stitch: bool = True,
    currency: str | None = None,
    channels: Frame | None = None,
    aliases: Mapping[str, str] | None = None,
) -> journeys.Journeys:
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
    aliases : mapping of str to str, optional
        Present names of campaigns and other nodes by their former names, such as
        ``{"spring sale": "summer sale"}``.

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
        If the events cannot be read, an argument is not allowed, or some revenue only has a currency.

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
    by_name = journeys.references(conversions)
    present_names = Aliases(aliases)
    connection = scratch.open_database()
    snowplow_events.open_snowplow_events(connection, events)
    _create_snowplow_visits(connection)
    _create_snowplow_conversions(connection, by_name)
    views = {"view_key": "event_id", "viewed": "occurred"}
    options: dict[str, Any] = {
        "stitch": stitch, "currency": currency, "channels": channels, "aliases": present_names,
    }  # fmt: skip
    return _assembled(connection, "snowplow", "kind", by_name, views, options)


def _create_snowplow_visits(connection: duckdb.DuckDBPyConnection) -> None:
    # The first view has the traffic source; a page ping can be recorded before the view of a slow page.
    marks = ("medium", "source", "term", "content", "campaign", "clickid", "network")
    opening = [f"mkt_{mark}" for mark in marks]
    opening += ["refr_medium", "refr_source", "refr_urlhost", "page", "referrer"]
    rest = ("agent", "browser", "browser_version", "system", "device_type", "country", "region", "city")
    views_first = "(kind NOT IN ('page_view', 'screen_view'), event_order)"
    source = ", ".join(f"arg_min_null({name}, {views_first}) AS {name}" for name in opening)
    details = ", ".join(f"arg_min({name}, event_order) AS {name}" for name in rest)
    connection.execute(
        "CREATE TABLE sessions AS SELECT visit_key, min(device) AS device, "
        "arg_max(account, event_order) AS account, "
        f"min(occurred) AS started, max(occurred) AS ended, bool_or(is_bot) AS is_bot, {source}, {details} "
        "FROM source_events WHERE visit_key IS NOT NULL GROUP BY visit_key"
    )
    is_marked = (
        "coalesce(nullif(lower(mkt_source), '(direct)'), nullif(lower(mkt_medium), '(none)'), "
        "nullif(lower(mkt_campaign), '(direct)')) IS NOT NULL"
    )
    known = snowplow_events.clicks()
    networks = ", ".join(map(literal, snowplow_events.CLICK_IDS.values()))
    is_click = f"NOT ({is_marked}) AND mkt_network NOT IN ({networks})"
    medium = (
        "CASE WHEN refr_medium IN ('social', 'email') THEN refr_medium WHEN refr_medium = 'search' THEN "
        "'organic' WHEN refr_medium = 'paid' THEN 'cpc' WHEN refr_medium <> 'internal' THEN 'referral' END"
    )
    site = f"CASE WHEN ({medium}) IS NOT NULL THEN coalesce(refr_source, refr_urlhost) END"
    columns = {
        "source": f"CASE WHEN {is_marked} THEN mkt_source WHEN {is_click} THEN lower(mkt_network) "
        f"ELSE {site} END",
        "medium": f"CASE WHEN {is_marked} THEN mkt_medium WHEN {is_click} THEN 'cpc' ELSE {medium} END",
        "campaign": "mkt_campaign",
        "ad": f"CASE WHEN ({is_marked}) OR coalesce({is_click}, false) THEN mkt_content END",
        "keyword": f"CASE WHEN ({is_marked}) OR coalesce({is_click}, false) THEN mkt_term END",
        "landing": export_tables.with_parameters("coalesce(page, '')", known),
        "came_from": "referrer",
        "is_derived": f"NOT (({is_marked}) OR coalesce({is_click}, false))",
    }
    journeys.create_table(connection, "visits", journeys.VISITS, columns, "FROM sessions")
    journeys.resolve_sources(connection, "visits")


def _create_snowplow_conversions(connection: duckdb.DuckDBPyConnection, by_name: dict[str, str]) -> None:
    # Orders of the e-commerce plug-in are actions with a transaction entity.
    is_order = "has_order AND kind = 'snowplow_ecommerce_action'"
    name = f"CASE WHEN {is_order} THEN 'transaction' ELSE source_events.kind END"
    columns = {
        "source_id": "CASE WHEN order_id IS NOT NULL THEN order_id ELSE event_id END",
        "kind": journeys.reference_sql(f"({name})", by_name),
        "name": "source_events.kind",
        "account": "coalesce(source_events.account, sessions.account)",
        "device": "source_events.device",
        "currency": "money",
    }
    rows = f"FROM source_events LEFT JOIN sessions USING (visit_key) WHERE {columns['kind']} IS NOT NULL"
    journeys.create_table(
        connection, "conversions", journeys.CONVERSIONS, columns, f"{rows} AND NOT source_events.is_bot"
    )


_OPAQUE: Final = (
    "actionDetails", "customVariables", "pluginsIcons", "experiments", "crashes", "formConversions",
)  # fmt: skip
_ACTION_FIELDS: Final = (
    "type", "timestamp", "url", "pageId", "idpageview", "orderId", "revenue", "goalId", "goalName",
    "goalPageId",
)  # fmt: skip
_ACTIONS: Final = json.dumps([dict.fromkeys(_ACTION_FIELDS, "VARCHAR")])
_ACTIONS_READ: Final = f"TRY(from_json(details, '{_ACTIONS}'))"
#: When an action took place.
_SECONDS: Final = f"({written_values.plausible('try_cast(timestamp AS BIGINT)', per_second=1)})"
_REQUIRED: Final = (("idVisit",), ("firstActionTimestamp", "lastActionTimestamp", "serverTimestamp"))


def read_matomo(
    visits: FrameOrPath | Sequence[FrameOrPath | Mapping[str, Any]],
    *,
    stitch: bool = True,
    currency: str | None = None,
    channels: Frame | None = None,
    aliases: Mapping[str, str] | None = None,
) -> journeys.Journeys:
    """Read visits with their actions from the reporting API of Matomo.

    Parameters
    ----------
    visits : list of dict, str, Path, DataFrame, or a list of those
        Responses of ``Live.getLastVisitsDetails`` with ``format=JSON``: the records of one response, or files
        (``.json`` with a whole response, one visit per line, or ``.csv``). Responses may overlap.
    stitch : bool, default True
        Whether to assign visits without a ``userId`` to the user seen with the same ``visitorId``, if there
        is exactly one.
    currency : str, optional
        Currency of revenue if the response has no ``siteCurrency``.
    channels : DataFrame, optional
        Rules that assign each node its channel, from :func:`channel_rules`; by default as they are.
    aliases : mapping of str to str, optional
        Present names of campaigns and other nodes by their former names, such as
        ``{"spring sale": "summer sale"}``.

    Returns
    -------
    Journeys
        Visits; page views; orders as the event type ``order`` (once per ``orderId``) and goals as the event
        types ``goal_<id>``, with the statistic ``revenue``; the tree of channels, campaigns and keywords.
        ``journeys.load(project)`` loads them, ``journeys.paths()`` builds the paths.

    Raises
    ------
    InvalidRequest
        If the visits cannot be read, or some revenue only has a currency.

    Warns
    -----
    InputWarning
        If there is no order and no goal; the message lists the types of actions.
    RejectedRows
        If rows cannot be read; the message has their number and the first reason.

    Examples
    --------
    >>> from attrib_ds import attribute, read_matomo
    >>> order = {"type": "ecommerceOrder", "orderId": "T1", "revenue": 30, "timestamp": 1735725900}
    >>> visit = {"idSite": 1, "idVisit": 7, "visitorId": "a1", "siteCurrency": "EUR",
    ...          "firstActionTimestamp": 1735725600, "lastActionTimestamp": 1735725900,
    ...          "referrerType": "search", "referrerName": "Google", "actionDetails": [order]}
    >>> journeys = read_matomo([visit])
    >>> attribute(journeys.paths(), "linear")[["node_id", "value", "currency"]]
                     node_id  value currency
    0  organic-search/Google   30.0      EUR
    """
    present_names = Aliases(aliases)
    connection = scratch.open_database()
    rules = {
        "visit IS NULL": "idVisit is missing",
        "started IS NULL": "firstActionTimestamp and serverTimestamp are not numbers of seconds",
        "device IS NULL AND account IS NULL": "visitorId and userId are missing",
        f"details IS NOT NULL AND {_ACTIONS_READ} IS NULL": "actionDetails is not a list of actions",
    }
    kind: dict[str, Any] = {"argument": "visits", "required": _REQUIRED, "opaque": _OPAQUE}
    export_tables.gather(connection, visits, _matomo_columns, rules=rules, **kind)
    # If responses overlap, the latest one counts, or else the one with the most actions.
    connection.execute(
        "CREATE TABLE latest_visits AS SELECT * FROM records "
        "QUALIFY row_number() OVER (PARTITION BY visit ORDER BY ended DESC, length(details) DESC, "
        "details, row) = 1"
    )
    _create_matomo_visits(connection)
    connection.execute(
        f"CREATE TABLE actions AS SELECT visit, device, account, site_currency, number, action.* FROM ("
        f"SELECT *, unnest({_ACTIONS_READ}) AS action, "
        "generate_subscripts(from_json(details, '[\"JSON\"]'), 1) AS number FROM latest_visits)"
    )
    connection.execute(
        "INSERT INTO rejected SELECT 'visits', NULL, 'action ' || number || ' of visit ' || visit || ' ("
        "' || type || ') has no timestamp in seconds' FROM actions "
        f"WHERE {_SECONDS} IS NULL AND type IN ('action', 'ecommerceOrder', 'goal')"
    )
    view = "visit || '.' || coalesce(pageId, idpageview, timestamp || '.' || number)"
    columns = {
        "view_key": view,
        "visit_key": "visit",
        "viewed": f"make_timestamp({_SECONDS} * 1000000)",
        "page": "url",
    }
    is_view = f"type = 'action' AND {_SECONDS} IS NOT NULL"
    rows = f"FROM actions WHERE {is_view} QUALIFY row_number() OVER (PARTITION BY {view} ORDER BY number) = 1"
    journeys.create_table(connection, "views", journeys.VIEWS, columns, rows)
    _create_matomo_conversions(connection)
    _warn_without_conversions(
        connection,
        "type",
        "actions",
        expected="no action has the type 'ecommerceOrder' or 'goal'",
        advice="Define a goal in Matomo for the actions that are conversions",
    )
    read = journeys.assemble(
        connection, "matomo", stitch=stitch, currency=currency, channels=channels, aliases=present_names
    )
    present_names.warn_of_unused()
    return read


def _matomo_columns(export: export_tables.Export) -> dict[str, str]:
    """Return the SQL expressions of the fields used, by name."""
    started, ended = (
        written_values.plausible(export.whole(*columns), per_second=1)
        for columns in (("firstActionTimestamp",), ("lastActionTimestamp", "serverTimestamp"))
    )
    return (
        export.texts("matomo")
        | _numbered_actions(export)
        | {
            "visit": f"coalesce({export.text('idSite')}, '1') || '.' || {export.text('idVisit')}",
            "started": f"coalesce({started}, {ended} - coalesce({export.whole('visitDuration')}, 0))",
            "ended": ended,
            "device_type": f"lower({export.text('deviceType')})",
            "country": f"upper(nullif({export.text('countryCode')}, 'xx'))",
        }
    )


def _numbered_actions(export: export_tables.Export) -> dict[str, str]:
    """Return the actions of an export to CSV, which has columns such as ``actionDetails_0_type``."""
    found: dict[int, dict[str, str]] = {}
    for column in export.source.columns:
        match = re.fullmatch(r"actionDetails_(\d+)_(\w+)", column)
        if match is not None and match[2] in _ACTION_FIELDS:
            found.setdefault(int(match[1]), {})[match[2]] = export.source.word(column)
    if not found or export.column("actionDetails"):
        return {}
    actions = [
        "{" + ", ".join(f"'{name}': {found[number].get(name, 'NULL')}" for name in _ACTION_FIELDS) + "}"
        for number in sorted(found)
    ]
    taken = f"list_filter([{', '.join(actions)}], lambda action: action.type IS NOT NULL)"
    return {"details": f"CAST(to_json({taken}) AS VARCHAR)"}


def _create_matomo_visits(connection: duckdb.DuckDBPyConnection) -> None:
    is_campaign = "kind = 'campaign'"
    page = "json_extract_string(CASE WHEN json_valid(details) THEN details::JSON END, '$[0].url')"
    medium = (
        "CASE WHEN kind IN ('social', 'ai-assistant') THEN kind WHEN kind = 'search' THEN 'organic' "
        "WHEN kind <> 'direct' THEN 'referral' END"
    )
    columns = {
        "visit_key": "visit",
        "started": "make_timestamp(started * 1000000)",
        "ended": "make_timestamp(coalesce(greatest(ended, started), started) * 1000000)",
        "source": f"CASE WHEN {is_campaign} THEN campaignSource WHEN kind <> 'direct' THEN referrer_name END",
        "medium": f"CASE WHEN {is_campaign} THEN coalesce(campaignMedium, CASE WHEN campaignSource IS NULL "
        f"THEN 'campaign' END) ELSE {medium} END",
        "campaign": f"CASE WHEN {is_campaign} THEN coalesce(campaignName, referrer_name) END",
        "campaign_id": "campaignId",
        "ad": "campaignContent",
        "keyword": f"CASE WHEN {is_campaign} THEN coalesce(campaignKeyword, referrer_keyword) END",
        "page": page,
        "landing": page,
        "came_from": "referrer",
        "is_derived": f"({is_campaign}) IS NOT TRUE",
    }
    journeys.create_table(connection, "visits", journeys.VISITS, columns, "FROM latest_visits")
    journeys.resolve_sources(connection, "visits")


def _create_matomo_conversions(connection: duckdb.DuckDBPyConnection) -> None:
    is_order = "type = 'ecommerceOrder'"
    # A goal is converted once per visit, or once per page if the goal allows several conversions.
    goal = "visit || '.' || goalId || '.' || coalesce(goalPageId, timestamp)"
    revenue = "try_cast(revenue AS DOUBLE)"
    is_broken = f"(revenue IS NOT NULL AND {revenue} IS NULL)"
    columns = {
        "source_id": f"CASE WHEN {is_order} THEN coalesce(orderId, visit || '.' || timestamp) "
        f"ELSE {goal} END",
        "kind": f"CASE WHEN {is_order} THEN 'order' ELSE 'goal_' || goalId END",
        "name": f"CASE WHEN {is_order} THEN 'ecommerceOrder' ELSE goalName END",
        "occurred": f"make_timestamp({_SECONDS} * 1000000)",
        # Matomo reports a goal without revenue as revenue 0.
        "amount": f"CASE WHEN {is_order} THEN {revenue} ELSE nullif({revenue}, 0) END",
        "currency": "site_currency",
    }
    wanted = f"({is_order} OR (type = 'goal' AND goalId IS NOT NULL))"
    rows = f"FROM actions WHERE {wanted} AND {_SECONDS} IS NOT NULL"
    connection.execute(
        "INSERT INTO rejected SELECT 'visits', NULL, concat('action ', number, ' of visit ', visit, "
        f"' (', type, ') has revenue that is not a number: ', chr(39), revenue, chr(39)) "
        f"{rows} AND {is_broken}"
    )
    rows += f" AND NOT {is_broken}"
    journeys.create_table(connection, "conversions", journeys.CONVERSIONS, columns, rows)


def _assembled(
    connection: duckdb.DuckDBPyConnection,
    origin: str,
    names: str,
    by_name: dict[str, str],
    views: dict[str, str],
    options: dict[str, Any],
) -> journeys.Journeys:
    """Build the result of an export of events, which are named by a column."""
    is_view = f"{names} IN ('page_view', 'screen_view') AND visit_key IS NOT NULL"
    journeys.create_table(connection, "views", journeys.VIEWS, views, f"FROM source_events WHERE {is_view}")
    _warn_without_conversions(
        connection,
        names,
        "source_events",
        expected=f"no event has the name {' or '.join(map(repr, by_name))}",
        advice='Choose among them with conversions=["NAME"]',
    )
    # Two accounts in one session are two on the device, though the session has the last one.
    read = journeys.assemble(connection, origin, sightings="source_events", **options)
    options["aliases"].warn_of_unused()
    return read


def _warn_without_conversions(
    connection: duckdb.DuckDBPyConnection, names: str, table: str, *, expected: str, advice: str
) -> None:
    """Warn if there are no conversions, with the names in a column of a table."""
    if connection.execute("SELECT count(*) FROM conversions").fetchall()[0][0]:
        return
    seen = connection.execute(
        f"SELECT {names} AS name, count(*) AS times FROM {table} GROUP BY name HAVING name IS NOT NULL "
        "ORDER BY times DESC, name"
    ).fetchall()
    listed = ", ".join(f"{name} ({times:,})" for name, times in seen[:_MAX_NAMES]) or "none"
    errors.warn(
        f"there are no conversions: {expected}. Names in the data: {display.printable(listed)}"
        f"{display.and_others(len(seen), _MAX_NAMES)}. {advice}"
    )
