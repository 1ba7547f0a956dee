"""Read visits from the reporting API of Matomo (``Live.getLastVisitsDetails``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import duckdb

from attrib_ds.importers.journeys import (
    CONVERSIONS,
    VIEWS,
    VISITS,
    assemble,
    create_table,
    warn_without_conversions,
)
from attrib_ds.records.export_tables import Export, gather, open_exports
from attrib_ds.records.written_values import plausible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.importers.journeys import Journeys
    from attrib_ds.records.frames import Frame, FrameOrPath

_OPAQUE: Final = (
    "actionDetails", "customVariables", "pluginsIcons", "experiments", "crashes", "formConversions",
)  # fmt: skip
_ACTIONS: Final = (
    '[{"type":"VARCHAR","timestamp":"VARCHAR","url":"VARCHAR","pageId":"VARCHAR","idpageview":"VARCHAR",'
    '"orderId":"VARCHAR","revenue":"VARCHAR","goalId":"VARCHAR","goalName":"VARCHAR","goalPageId":"VARCHAR"}]'
)
_ACTIONS_READ: Final = f"TRY(from_json(details, '{_ACTIONS}'))"
#: When an action took place.
_SECONDS: Final = f"({plausible('try_cast(timestamp AS BIGINT)', per_second=1)})"
_REQUIRED: Final = (("idVisit",), ("firstActionTimestamp", "lastActionTimestamp", "serverTimestamp"))


def read_matomo(
    visits: FrameOrPath | Sequence[FrameOrPath | Mapping[str, Any]],
    *,
    stitch: bool = True,
    currency: str | None = None,
    channels: Frame | None = None,
) -> Journeys:
    """Read visits with their actions from the reporting API of Matomo.

    Parameters
    ----------
    visits : list of dict, str, Path, DataFrame, or a list of those
        Responses of ``Live.getLastVisitsDetails`` with ``format=JSON``: the records of one response, or files
        (``.json`` with a whole response, or one visit per line). Responses may overlap.
    stitch : bool, default True
        Whether to assign visits without a ``userId`` to the user seen with the same ``visitorId``, if there
        is exactly one.
    currency : str, optional
        Currency of revenue if the response has no ``siteCurrency``.
    channels : DataFrame, optional
        Rules that assign each node its channel, from :func:`channel_rules`; by default as they are.

    Returns
    -------
    Journeys
        Visits; page views; orders as the event type ``order`` (once per ``orderId``) and goals as the event
        types ``goal_<id>``, with the statistic ``revenue``; the tree of channels, campaigns and keywords.
        ``journeys.load(project)`` loads them, ``journeys.paths()`` builds the paths.

    Raises
    ------
    InvalidRequest
        If the visits cannot be read, or revenue has no currency.

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
    connection = duckdb.connect()
    opened = open_exports(connection, visits, argument="visits", required=_REQUIRED, opaque=_OPAQUE)
    gather(
        connection,
        opened,
        _columns,
        rules={
            "visit IS NULL": "idVisit is missing",
            "started IS NULL": "firstActionTimestamp and serverTimestamp are not numbers of seconds",
            "device IS NULL AND account IS NULL": "visitorId and userId are missing",
            f"details IS NOT NULL AND {_ACTIONS_READ} IS NULL": "actionDetails is not a list of actions",
        },
    )
    # If responses overlap, the latest one is the most complete.
    connection.execute(
        "CREATE TABLE latest_visits AS SELECT * FROM records "
        "QUALIFY row_number() OVER (PARTITION BY visit ORDER BY ended DESC, file, row) = 1"
    )
    _create_visits(connection)
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
    create_table(connection, "views", VIEWS, columns, rows)
    _create_conversions(connection)
    warn_without_conversions(
        connection,
        "type",
        "FROM actions",
        expected="no action has the type 'ecommerceOrder' or 'goal'",
        advice="Define a goal in Matomo for the actions that are conversions",
    )
    return assemble(connection, "matomo", stitch=stitch, currency=currency, channels=channels)


def _columns(export: Export) -> dict[str, str]:
    """Return the SQL expressions of the fields used, by name."""
    started, ended = (
        plausible(export.whole(*columns), per_second=1)
        for columns in (("firstActionTimestamp",), ("lastActionTimestamp", "serverTimestamp"))
    )
    return export.texts("matomo") | {
        "visit": f"coalesce({export.text('idSite')}, '1') || '.' || {export.text('idVisit')}",
        "started": f"coalesce({started}, {ended} - coalesce({export.whole('visitDuration')}, 0))",
        "ended": ended,
        "device_type": f"lower({export.text('deviceType')})",
        "country": f"upper(nullif({export.text('countryCode')}, 'xx'))",
    }


def _create_visits(connection: duckdb.DuckDBPyConnection) -> None:
    is_campaign = "kind = 'campaign'"
    medium = (
        "CASE kind WHEN 'search' THEN 'organic' WHEN 'social' THEN 'social' WHEN 'website' THEN 'referral' "
        "WHEN 'ai-assistant' THEN 'ai-assistant' WHEN 'direct' THEN NULL "
        "ELSE CASE WHEN kind IS NOT NULL THEN 'referral' END END"
    )
    first = "json_extract_string(CASE WHEN json_valid(details) THEN details::JSON END, '$[0].url')"
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
        "page": first,
    }
    create_table(connection, "visits", VISITS, columns, "FROM latest_visits")


def _create_conversions(connection: duckdb.DuckDBPyConnection) -> None:
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
    create_table(connection, "conversions", CONVERSIONS, columns, rows)
