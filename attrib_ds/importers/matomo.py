"""Reads the visits that Matomo answers with (``Live.getLastVisitsDetails``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb

from attrib_ds.importers.assembling import CONVERSIONS, VIEWS, VISITS, assemble, create_table
from attrib_ds.importers.exports import NOTHING, Export, gather, open_exports

if TYPE_CHECKING:
    from attrib_ds.importers.journeys import Journeys

_OPAQUE: Final = (
    "actionDetails",
    "customVariables",
    "pluginsIcons",
    "experiments",
    "crashes",
    "formConversions",
)
_ACTIONS: Final = (
    '[{"type":"VARCHAR","timestamp":"VARCHAR","url":"VARCHAR","pageId":"VARCHAR","idpageview":"VARCHAR",'
    '"orderId":"VARCHAR","revenue":"VARCHAR","goalId":"VARCHAR","goalName":"VARCHAR","goalPageId":"VARCHAR"}]'
)
_ACTIONS_READ: Final = f"TRY(from_json(details, '{_ACTIONS}'))"
_NEEDED: Final = (("idVisit",), ("firstActionTimestamp", "lastActionTimestamp", "serverTimestamp"))


def read_matomo(visits: object, *, stitch: bool = True, currency: str | None = None) -> Journeys:
    """Read visits with their actions as the reporting API of Matomo answers.

    Parameters
    ----------
    visits : list of dict, str, Path, DataFrame, or a list of those
        Answers of ``Live.getLastVisitsDetails`` with ``format=JSON``: the records of one, or files (``.json``
        with the whole answer, or one visit per line). Answers may overlap.
    stitch : bool, default True
        Whether visits of a ``visitorId`` without a ``userId`` belong to the user who was seen with it, if
        only one was.
    currency : str, optional
        Of revenue where the answer has no ``siteCurrency``.

    Returns
    -------
    Journeys
        Visits as they are; page views; orders as the event type ``order`` (once per ``orderId``) and each
        goal as ``goal_<id>``, with the statistic ``revenue``; the tree of channels, campaigns and keywords.
        ``journeys.load(project)`` loads them, ``journeys.paths()`` makes paths.

    Raises
    ------
    InvalidRequest
        If the visits cannot be read, or revenue has no currency.

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
    opened = open_exports(connection, visits, argument="visits", needed=_NEEDED, opaque=_OPAQUE)
    gather(
        connection,
        opened,
        _columns,
        rules={
            "visit IS NULL": "idVisit is missing",
            "began IS NULL": "firstActionTimestamp and serverTimestamp are no numbers of seconds",
            "device IS NULL AND account IS NULL": "visitorId and userId are missing",
            f"details IS NOT NULL AND {_ACTIONS_READ} IS NULL": "actionDetails is no list of actions",
        },
    )
    # The answer that was asked for last knows most of a visit that went on.
    connection.execute(
        "CREATE TABLE told AS SELECT * FROM records "
        "QUALIFY row_number() OVER (PARTITION BY visit ORDER BY ended DESC, file, row) = 1"
    )
    _find_visits(connection)
    connection.execute(
        f"CREATE TABLE actions AS SELECT visit, device, account, site_currency, place, action.* FROM ("
        f"SELECT *, unnest({_ACTIONS_READ}) AS action, "
        "generate_subscripts(from_json(details, '[\"JSON\"]'), 1) AS place FROM told)"
    )
    connection.execute(
        "INSERT INTO rejected SELECT 'visits', NULL, 'action ' || place || ' of the visit ' || visit || ' ("
        "' || type || ') has no timestamp' FROM actions "
        "WHERE try_cast(timestamp AS BIGINT) IS NULL AND type IN ('action', 'ecommerceOrder', 'goal')"
    )
    seen = {
        "view_key": "visit || '.' || coalesce(pageId, idpageview, timestamp || '.' || place)",
        "visit_key": "visit",
        "seen": "make_timestamp(try_cast(timestamp AS BIGINT) * 1000000)",
        "page": "url",
    }
    is_view = "type = 'action' AND try_cast(timestamp AS BIGINT) IS NOT NULL"
    rows = (
        f"FROM actions WHERE {is_view} QUALIFY row_number() OVER (PARTITION BY view_key ORDER BY place) = 1"
    )
    create_table(connection, "views", VIEWS, seen, rows)
    _find_conversions(connection)
    return assemble(connection, "matomo", stitch=stitch, currency=currency)


def _columns(export: Export) -> dict[str, str]:
    """Return the fields of a visit that matter, whatever an answer calls them."""
    ended = export.whole("lastActionTimestamp", "serverTimestamp")
    fields = {
        "visit": f"coalesce({export.text('idSite')}, '1') || '.' || {export.text('idVisit')}",
        "device": export.text("visitorId"),
        "account": export.text("userId"),
        "began": f"coalesce({export.whole('firstActionTimestamp')}, "
        f"{ended} - coalesce({export.whole('visitDuration')}, 0))",
        "ended": ended,
        "details": export.text("actionDetails"),
        "site_currency": export.text("siteCurrency"),
        "kind": export.text("referrerType"),
        "referrer_name": export.text("referrerName"),
        "referrer_keyword": export.text("referrerKeyword"),
        "referrer": export.text("referrerUrl"),
        "agent": NOTHING,
        "browser": export.text("browserName"),
        "browser_version": export.text("browserVersion"),
        "system": export.text("operatingSystemName"),
        "system_version": export.text("operatingSystemVersion"),
        "device_type": f"lower({export.text('deviceType')})",
        "country": f"upper(nullif({export.text('countryCode')}, 'xx'))",
        "region": export.text("region"),
        "city": export.text("city"),
    }
    # Members that the plug-in for campaigns adds.
    names = (
        "campaignSource",
        "campaignMedium",
        "campaignName",
        "campaignId",
        "campaignContent",
        "campaignKeyword",
    )
    return fields | {name: export.text(name) for name in names}


def _find_visits(connection: duckdb.DuckDBPyConnection) -> None:
    is_campaign = "kind = 'campaign'"
    medium = (
        "CASE kind WHEN 'search' THEN 'organic' WHEN 'social' THEN 'social' WHEN 'website' THEN 'referral' "
        "WHEN 'ai-assistant' THEN 'ai-assistant' WHEN 'direct' THEN NULL "
        "ELSE CASE WHEN kind IS NOT NULL THEN 'referral' END END"
    )
    first = "json_extract_string(CASE WHEN json_valid(details) THEN details::JSON END, '$[0].url')"
    columns = {
        "visit_key": "visit",
        "began": "make_timestamp(began * 1000000)",
        "ended": "make_timestamp(coalesce(greatest(ended, began), began) * 1000000)",
        "source": f"CASE WHEN {is_campaign} THEN campaignSource WHEN kind <> 'direct' THEN referrer_name END",
        "medium": f"CASE WHEN {is_campaign} THEN coalesce(campaignMedium, CASE WHEN campaignSource IS NULL "
        f"THEN 'campaign' END) ELSE {medium} END",
        "campaign": f"CASE WHEN {is_campaign} THEN coalesce(campaignName, referrer_name) END",
        "campaign_id": "campaignId",
        "adset": "NULL",
        "ad": "campaignContent",
        "keyword": f"CASE WHEN {is_campaign} THEN coalesce(campaignKeyword, referrer_keyword) END",
        "channel": "NULL",
        "node": "NULL",
        "page": first,
        "is_bot": "false",
    }
    create_table(connection, "visits", VISITS, columns, "FROM told")


def _find_conversions(connection: duckdb.DuckDBPyConnection) -> None:
    is_order = "type = 'ecommerceOrder'"
    # A goal is reached once in a visit, or once at each of its pages if it may be reached again.
    goal = "visit || '.' || goalId || '.' || coalesce(goalPageId, timestamp)"
    revenue = "try_cast(revenue AS DOUBLE)"
    columns = {
        "source_id": f"CASE WHEN {is_order} THEN coalesce(orderId, visit || '.' || timestamp) "
        f"ELSE {goal} END",
        "kind": f"CASE WHEN {is_order} THEN 'order' ELSE 'goal_' || goalId END",
        "name": f"CASE WHEN {is_order} THEN 'ecommerceOrder' ELSE goalName END",
        "happened": "make_timestamp(try_cast(timestamp AS BIGINT) * 1000000)",
        # A goal without revenue is told as one of 0.
        "amount": f"CASE WHEN {is_order} THEN {revenue} ELSE nullif({revenue}, 0) END",
        "currency": "site_currency",
    }
    wanted = f"({is_order} OR (type = 'goal' AND goalId IS NOT NULL))"
    rows = f"FROM actions WHERE {wanted} AND try_cast(timestamp AS BIGINT) IS NOT NULL"
    create_table(connection, "conversions", CONVERSIONS, columns, rows)
