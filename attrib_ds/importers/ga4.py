"""Read the BigQuery export of Google Analytics 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb

from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.conversion_names import reference_sql, references
from attrib_ds.importers.export_tables import NULL_TEXT, Export, gather, open_exports
from attrib_ds.importers.journey_tables import (
    CONVERSIONS,
    VIEWS,
    VISITS,
    assemble,
    create_table,
    warn_without_conversions,
)
from attrib_ds.records.written_instants import plausible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.importers.journeys import Journeys
    from attrib_ds.records.input_frames import Frame, FrameOrPath

TRAFFIC: Final = ("session", "last_click")

_REQUIRED: Final = (
    ("event_timestamp", "timestamp"),
    ("event_name", "name"),
    ("event_params", "ga_session_id", "param_ga_session_id"),
)
_OPAQUE: Final = ("event_params", "user_properties", "items", "item_params")
_PARAMS: Final = (
    '[{"key":"VARCHAR","value":{"string_value":"VARCHAR","int_value":"VARCHAR",'
    '"float_value":"VARCHAR","double_value":"VARCHAR"}}]'
)
#: SQL type of the parsed parameters, which DuckDB cannot infer if an export has none.
_PARAM_TYPE: Final = (
    'STRUCT("key" VARCHAR, "value" STRUCT(string_value VARCHAR, int_value VARCHAR, float_value VARCHAR, '
    "double_value VARCHAR))[]"
)
_WANTED: Final = (
    "ga_session_id",
    "ga_session_number",
    "page_location",
    "page_referrer",
    "source",
    "medium",
    "campaign",
    "campaign_id",
    "content",
    "term",
    "gclid",
    "dclid",
    "transaction_id",
    "value",
    "currency",
    "ignore_referrer",
)
#: Columns of a traffic source in flattened queries; an export's first family is used. The columns
#: ``traffic_source_*`` are not among them: they are those of the user's first session.
_FAMILIES: Final[tuple[dict[str, tuple[str, ...]], ...]] = tuple(
    {
        "source": (f"{prefix}source",),
        "medium": (f"{prefix}medium",),
        "campaign": (f"{prefix}campaign", f"{prefix}campaign_name"),
        "campaign_id": (f"{prefix}campaign_id",),
        "content": (f"{prefix}content", f"{prefix}ad_content"),
        "term": (f"{prefix}term",),
    }
    for prefix in ("manual_", "utm_", "session_", "session_manual_")
)
#: Fields of an event that identify the traffic source.
_MARKS: Final = ("source", "medium", "campaign", "campaign_id", "content", "term", "gclid", "dclid")
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
    NoConversions
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
    opened = open_exports(connection, exports, argument="exports", required=_REQUIRED, opaque=_OPAQUE)
    gather(
        connection,
        opened,
        _columns,
        rules={
            "micros IS NULL": "event_timestamp is not a number of microseconds",
            "event_name IS NULL": "event_name is missing",
            "device IS NULL AND account IS NULL": "user_pseudo_id and user_id are missing",
            "has_invalid_params": "event_params is not a list of keys and values",
        },
    )
    _deduplicate_events(connection)
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


def _columns(export: Export) -> dict[str, str]:
    """Return the SQL expressions of the fields used, by name."""
    last_click = "session_traffic_source_last_click"
    collected = "collected_traffic_source"
    fields = {
        "micros": _micros(export),
        "event_name": export.text("event_name", "name"),
        "device": export.text("user_pseudo_id"),
        "account": export.text("user_id"),
        "bundle": export.text("event_bundle_sequence_id", "bundle_sequence_id"),
        "page_index": export.text("batch_page_id"),
        "ordering": export.whole("batch_ordering_id"),
        "event_index": export.whole("batch_event_index"),
        "collected_source": export.text(f"{collected}.manual_source"),
        "collected_medium": export.text(f"{collected}.manual_medium"),
        "collected_campaign": export.text(f"{collected}.manual_campaign_name"),
        "collected_campaign_id": export.text(f"{collected}.manual_campaign_id"),
        "collected_content": export.text(f"{collected}.manual_content"),
        "collected_term": export.text(f"{collected}.manual_term"),
        "collected_gclid": export.text(f"{collected}.gclid"),
        "collected_dclid": export.text(f"{collected}.dclid"),
        "ads_campaign": export.text(f"{last_click}.google_ads_campaign.campaign_name"),
        "ads_campaign_id": export.text(f"{last_click}.google_ads_campaign.campaign_id"),
        "ads_group": export.text(f"{last_click}.google_ads_campaign.ad_group_name"),
        "first_source": export.text("traffic_source.source"),
        "first_medium": export.text("traffic_source.medium"),
        "first_campaign": export.text("traffic_source.name"),
        "channel": export.text(f"{last_click}.cross_channel_campaign.default_channel_group"),
        "transaction": export.text("ecommerce.transaction_id", "transaction_id"),
        "purchase_revenue": export.text("ecommerce.purchase_revenue", "purchase_revenue"),
        "revenue_in_usd": export.text("ecommerce.purchase_revenue_in_usd", "purchase_revenue_in_usd"),
        "agent": NULL_TEXT,
        "browser": export.text("device.web_info.browser", "device.browser"),
        "browser_version": export.text("device.web_info.browser_version", "device.browser_version"),
        "system": export.text("device.operating_system"),
        "system_version": export.text("device.operating_system_version"),
        "device_type": export.text("device.category"),
        "region": export.text("geo.region"),
        "city": export.text("geo.city"),
    }
    for name in ("source", "medium", "campaign_name", "campaign_id"):
        fields[f"last_{name.removesuffix('_name')}"] = export.text(
            f"{last_click}.cross_channel_campaign.{name}", f"{last_click}.manual_campaign.{name}"
        )
    for name in ("content", "term"):
        fields[f"last_{name}"] = export.text(f"{last_click}.manual_campaign.{name}")
    # Columns of flattened queries and of Fivetran, one for each parameter.
    flat = {f"flat_{name}": export.text(*_flat_names(name)) for name in _WANTED}
    if not any(
        export.column(name) for mark in ("source", "medium", "campaign") for name in _flat_names(mark)
    ):
        family = next((names for names in _FAMILIES if export.column(*names["source"])), {})
        flat |= {f"flat_{mark}": export.text(*names) for mark, names in family.items()}
    return fields | flat | _params(export)


def _flat_names(name: str) -> tuple[str, ...]:
    """Return the columns of a parameter in flattened queries."""
    return f"param_{name}", f"event_params_{name}", name


def _micros(export: Export) -> str:
    """Return SQL for the microseconds of an event; flattened tables may have instants instead."""
    instants = [
        f"epoch_us({export.source.instant(column)})"
        for column in filter(None, map(export.column, ("event_timestamp", "timestamp")))
    ]
    counted = plausible(export.whole("event_timestamp"), per_second=1_000_000)
    return f"coalesce({', '.join([counted, *instants])})"


def _params(export: Export) -> dict[str, str]:
    """Return SQL for the parameters used; Parquet files of BigQuery may wrap repeated fields."""
    text = export.text("event_params")
    whole = f"CASE WHEN json_valid({text}) THEN {text}::JSON END"
    unwrapped = (
        f"CASE WHEN json_type({whole}, '$.list') = 'ARRAY' THEN coalesce("
        f"nullif(json_extract({whole}, '$.list[*].element'), []), "
        f"json_extract({whole}, '$.list[*].item'))::JSON WHEN json_type({whole}) = 'ARRAY' THEN {whole} END"
    )
    wanted = ", ".join(f"'{name}'" for name in _WANTED)
    read = f"CAST(TRY(from_json({unwrapped}, '{_PARAMS}')) AS {_PARAM_TYPE})"
    return {
        "params": f"list_filter({read}, lambda param: param.key IN ({wanted}))",
        "has_invalid_params": f"{text} IS NOT NULL AND {read} IS NULL",
    }


def _parameter(name: str) -> str:
    value = f"list_filter(params, lambda param: param.key = '{name}')[1].value"
    kinds = ", ".join(f"{value}.{kind}_value" for kind in ("string", "int", "double", "float"))
    return f"coalesce(nullif(trim(coalesce({kinds})), ''), flat_{name})"


def _deduplicate_events(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``source_events``: each event once, with its parameters and its traffic source."""
    flat = ", ".join(f"flat_{name}" for name in _WANTED)
    parameters = ", ".join(f"{_parameter(name)} AS p_{name}" for name in _WANTED)
    has_collected = " OR ".join(f"collected_{name} IS NOT NULL" for name in _MARKS)
    marks = ", ".join(
        f"CASE WHEN has_collected THEN collected_{name} WHEN p_ignore_referrer IS DISTINCT FROM 'true' "
        f"THEN p_{name} END AS {name}"
        for name in _MARKS
    )
    connection.execute(
        f"""
        CREATE TABLE source_events AS
        WITH parsed AS (
            SELECT * EXCLUDE (params, has_invalid_params, {flat}), {parameters},
                {has_collected} AS has_collected, coalesce(device, account) AS visitor FROM records
        ), marked AS (
            SELECT *, {marks}, try_cast(p_ga_session_id AS BIGINT) AS session,
                concat_ws('.', visitor, event_name, micros, bundle, page_index, ordering, event_index)
                    AS event_key
            FROM parsed
        )
        SELECT *, make_timestamp(micros) AS occurred,
            coalesce({", ".join(_MARKS)}) IS NOT NULL AND coalesce(source, '') <> '(direct)' AS is_marked,
            visitor || '.' || session AS visit_key,
            {{'micros': micros, 'ordering': coalesce(ordering, 0), 'event_index': coalesce(event_index, 0),
              'key': event_key}} AS event_order
        FROM marked
        -- Exported days may overlap.
        QUALIFY row_number() OVER (PARTITION BY event_key ORDER BY file, row) = 1
        """
    )


def _create_visits(connection: duckdb.DuckDBPyConnection, *, is_last_click: bool) -> None:
    first = "FIRST({} ORDER BY event_order)".format
    own = ", ".join(f"FIRST({name} ORDER BY event_order) FILTER (is_marked) AS {name}" for name in _MARKS)
    first_filled = ", ".join(
        f"FIRST({name} ORDER BY event_order) FILTER ({name} IS NOT NULL) AS {name}"
        for name in (
            "browser", "browser_version", "system", "system_version", "device_type", "region", "city",
            "agent", "channel", "ads_campaign", "ads_campaign_id", "ads_group",
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
        "is_bot": "false",
        "country": "NULL",
        "node": "NULL",
        "levels": "NULL",
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
