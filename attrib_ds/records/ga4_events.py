"""Reads the events that Google Analytics 4 exports to BigQuery, and their page views as raw hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import ibis
import ibis.expr.types as ir

from attrib_ds.records import export_tables
from attrib_ds.records.frames import FrameOrPath
from attrib_ds.records.sources import Source
from attrib_ds.records.written_values import plausible

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
    "ga_session_id", "ga_session_number", "page_location", "page_referrer", "source", "medium", "campaign",
    "campaign_id", "content", "term", "gclid", "dclid", "transaction_id", "value", "currency",
    "ignore_referrer",
)  # fmt: skip
#: Columns of a traffic source in flattened queries begin alike; an export's first family is used. The columns
#: ``traffic_source_*`` are not among them: they are those of the user's first session.
_FAMILIES: Final = ("manual_", "utm_", "session_", "session_manual_")
#: Other names in a family.
_SYNONYMS: Final = {"campaign": "campaign_name", "content": "ad_content"}
#: Fields of an event that identify the traffic source.
MARKS: Final = ("source", "medium", "campaign", "campaign_id", "content", "term", "gclid", "dclid")

#: SQL for whether an event is a refund, which a shop's back office may send and which is not a visit.
IS_REFUND: Final = "event_name = 'refund'"


def open_ga4_events(connection: duckdb.DuckDBPyConnection, exports: object) -> list[export_tables.Export]:
    """Create the table ``source_events``: each event once, with its parameters and its traffic source.

    Rows that are not events are in the table ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to create tables in.
    exports : DataFrame, Arrow table, path, records, or a list of those
        Rows of ``events_YYYYMMDD``, as for :func:`attrib_ds.read_ga4`.

    Returns
    -------
    list of Export
        The opened exports.

    Raises
    ------
    InvalidRequest
        If an export cannot be read.
    """
    rules = {
        "micros IS NULL": "event_timestamp is not a number of microseconds",
        "event_name IS NULL": "event_name is missing",
        "device IS NULL AND account IS NULL": "user_pseudo_id and user_id are missing",
        "has_invalid_params": "event_params is not a list of keys and values",
    }
    opened = export_tables.gather(
        connection, exports, _columns, rules=rules, argument="exports", required=_REQUIRED, opaque=_OPAQUE
    )
    _deduplicate_events(connection)
    return opened


def _columns(export: export_tables.Export) -> dict[str, str]:
    """Return the SQL expressions of the fields used, by name."""
    fields = {
        "micros": _micros(export),
        "ordering": export.whole("batch_ordering_id"),
        "event_index": export.whole("batch_event_index"),
        "offset_seconds": export.whole("device.time_zone_offset_seconds"),
    }
    # Columns of flattened queries and of Fivetran, one for each parameter.
    flat = {f"flat_{name}": export.text(*_flat_names(name)) for name in _WANTED}
    if not any(
        export.column(name) for mark in ("source", "medium", "campaign") for name in _flat_names(mark)
    ):
        family = next((prefix for prefix in _FAMILIES if export.column(f"{prefix}source")), None)
        for mark in ("source", "medium", "campaign", "campaign_id", "content", "term") if family else ():
            names = (f"{family}{mark}", f"{family}{_SYNONYMS.get(mark, mark)}")
            flat[f"flat_{mark}"] = export.text(*names)
    return fields | export.texts("ga4") | flat | _params(export) | _item_refunds(export)


def _flat_names(name: str) -> tuple[str, ...]:
    """Return the columns of a parameter in flattened queries."""
    return f"param_{name}", f"event_params_{name}", name


def _micros(export: export_tables.Export) -> str:
    """Return SQL for the microseconds of an event; flattened tables may have instants instead."""
    instants = [
        f"epoch_us({export.source.instant(column)})"
        for column in filter(None, map(export.column, ("event_timestamp", "timestamp")))
    ]
    counted = plausible(export.whole("event_timestamp"), per_second=1_000_000)
    return f"coalesce({', '.join([counted, *instants])})"


def _params(export: export_tables.Export) -> dict[str, str]:
    """Return SQL for the parameters used; Parquet files of BigQuery may wrap repeated fields."""
    text = export.text("event_params")
    wanted = ", ".join(f"'{name}'" for name in _WANTED)
    read = f"CAST(TRY(from_json({_unwrapped(text)}, '{_PARAMS}')) AS {_PARAM_TYPE})"
    return {
        "params": f"list_filter({read}, lambda param: param.key IN ({wanted}))",
        "has_invalid_params": f"{text} IS NOT NULL AND {read} IS NULL",
    }


def _unwrapped(text: str) -> str:
    """Return SQL for a repeated field as a JSON array, NULL if it is none."""
    whole = f"CASE WHEN json_valid({text}) THEN {text}::JSON END"
    return (
        f"CASE WHEN json_type({whole}, '$.list') = 'ARRAY' THEN coalesce("
        f"nullif(json_extract({whole}, '$.list[*].element'), []), "
        f"json_extract({whole}, '$.list[*].item'))::JSON WHEN json_type({whole}) = 'ARRAY' THEN {whole} END"
    )


def _item_refunds(export: export_tables.Export) -> dict[str, str]:
    """Return SQL for the sums of the refunds of the items, as text; NULL where no item has one."""
    event, items = export.text("event_name", "name"), _unwrapped(export.text("items"))
    refunded = f"CASE WHEN {event} = 'refund' THEN {items} END"

    def total(name: str) -> str:
        amounts = f"CAST(json_extract_string({refunded}, '$[*].{name}') AS VARCHAR[])"
        numbers = f"list_transform({amounts}, lambda amount: try_cast(amount AS DOUBLE))"
        return f"CAST(round(list_sum({numbers}), 6) AS VARCHAR)"

    return {"items_refund": total("item_refund"), "items_refund_in_usd": total("item_refund_in_usd")}


def _parameter(name: str) -> str:
    value = f"list_filter(params, lambda param: param.key = '{name}')[1].value"
    kinds = ", ".join(f"{value}.{kind}_value" for kind in ("string", "int", "double", "float"))
    return f"coalesce(nullif(trim(coalesce({kinds})), ''), flat_{name})"


def _deduplicate_events(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``source_events``: each event once, with its parameters and its traffic source."""
    flat = ", ".join(f"flat_{name}" for name in _WANTED)
    parameters = ", ".join(f"{_parameter(name)} AS p_{name}" for name in _WANTED)
    has_collected = " OR ".join(f"collected_{name} IS NOT NULL" for name in MARKS)
    marks = ", ".join(
        f"CASE WHEN has_collected THEN collected_{name} WHEN p_ignore_referrer IS DISTINCT FROM 'true' "
        f"THEN p_{name} END AS {name}"
        for name in MARKS
    )
    connection.execute(
        f"""
        CREATE TABLE source_events AS
        WITH parsed AS (
            SELECT * EXCLUDE (params, has_invalid_params, {flat}), {parameters},
                {has_collected} AS has_collected, coalesce(device, account) AS visitor FROM records
        ), marked AS (
            -- A page sends events of several transactions at one instant.
            SELECT *, {marks}, try_cast(p_ga_session_id AS BIGINT) AS session,
                concat_ws('.', visitor, event_name, micros, bundle, page_index, ordering, event_index,
                    nullif(coalesce(transaction, p_transaction_id), '(not set)')) AS event_key
            FROM parsed
        )
        SELECT *, make_timestamp(micros) AS occurred,
            coalesce({", ".join(MARKS)}) IS NOT NULL
                AND (coalesce(source, '') <> '(direct)' OR coalesce(gclid, dclid) IS NOT NULL) AS is_marked,
            visitor || '.' || session AS visit_key,
            {{'micros': micros, 'ordering': coalesce(ordering, 0), 'event_index': coalesce(event_index, 0),
              'key': event_key}} AS event_order
        FROM marked
        -- Exported days may overlap.
        QUALIFY row_number() OVER (PARTITION BY event_key ORDER BY file, row) = 1
        """
    )


#: Fields of an event that Google reads from parameters of a URL.
_PARAMETERS: Final = ("source", "medium", "campaign", "content", "term")
CLICK_IDS: Final = {name: name for name in ("gclid", "dclid")}
REFERRER: Final = "CASE WHEN p_ignore_referrer IS DISTINCT FROM 'true' THEN p_page_referrer END"


@dataclass(frozen=True, eq=False)
class GA4Hits:
    """The page views in an export of Google Analytics 4, to :func:`load` as hits.

    Sessions and traffic sources follow the rules of raw hits, so they may differ from those in Google's
    reports, which :func:`read_ga4` keeps.

    Parameters
    ----------
    exports : str, Path, DataFrame, or a list of those
        Rows of ``events_YYYYMMDD``, as for :func:`read_ga4`. Days may overlap, and may be loaded one by one.
        For :func:`open_hits`, a table in BigQuery: its name, or an Ibis table.

    Notes
    -----
    Hits are the events ``page_view``. The browser (``user_pseudo_id``) is the tracker, ``page_location`` and
    ``page_referrer`` are the URLs. What ``collected_traffic_source``, or the parameters ``source``,
    ``medium`` and ``campaign`` of the event, say beyond the URL is added to it as ``utm_*``, ``gclid`` and
    ``dclid``; a source with the medium ``organic`` or ``referral`` only if there is no referrer. An export
    has no user agents, so bots are not marked. Its countries are names, not codes, and are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> def parameter(key, text):
    ...     return {"key": key, "value": {"string_value": text}}
    >>> events = pd.DataFrame({"event_timestamp": [1735725600000000, 1735725900000000],
    ...     "event_name": ["page_view", "purchase"], "user_pseudo_id": ["a.1", "a.1"],
    ...     "event_params": [[parameter("page_location", "https://shop.example/?gclid=1")], []]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     print(at.load(shop, hits=at.hits.GA4(events)))
    ...     at.search_interactions(shop)["nodeId"].tolist()
    <Loaded 1 hit, 1 interaction, 1 implicit node, 1 skipped event; 0 rows rejected>
    ['google/cpc']
    """

    exports: FrameOrPath | ir.Table | Sequence[FrameOrPath] = field(repr=False)


def open_ga4_hits(connection: duckdb.DuckDBPyConnection, hits: GA4Hits) -> tuple[Source, int]:
    """Copy the page views of an export into a new table of a connection, as raw hits.

    Returns
    -------
    source : Source
        The raw hits; unreadable rows are those that are not events.
    skipped : int
        Number of events that are not page views.

    Raises
    ------
    InvalidRequest
        If an export cannot be read.
    """
    exports = open_ga4_events(connection, hits.exports)
    # Google derives these media from the referrer, which tells more.
    is_referred = f"lower(medium) IN ('organic', 'referral') AND {REFERRER} IS NOT NULL"
    is_other = f"({is_referred}) IS DISTINCT FROM true"
    added = {
        f"utm_{name}": f"CASE WHEN {name} NOT LIKE '(%)' AND {is_other} THEN {name} END"
        for name in _PARAMETERS
    }
    columns = {
        "trackerId": "device",
        "date": "occurred",
        "pageUrl": export_tables.with_parameters("p_page_location", added | CLICK_IDS),
        "referrer": REFERRER,
        # As browsers say it: minutes that UTC is ahead.
        "timezoneOffset": "CAST(offset_seconds AS DOUBLE) / -60",
        "geo.state": "region",
        "geo.city": "city",
    }
    return export_tables.create_page_views(connection, exports, columns, where="event_name = 'page_view'")


def page_views(events: ir.Table) -> ir.Table:
    """Return the page views in Google's tables, where they lie, as :func:`open_ga4_hits` does with an export.

    Parameters
    ----------
    events : ibis.Table
        Rows of ``events_YYYYMMDD`` with records and repeated records, as in BigQuery.
    """
    views = events.filter(events.event_name.strip() == "page_view")

    def member(path: str) -> Any:
        record, _, name = path.partition(".")
        known = record in views.columns and (not name or name in views[record].type().names)
        return _text(views[record][name] if name else views[record]) if known else ibis.null("string")

    def parameter(name: str) -> Any:
        value = views.event_params.filter(lambda each: each.key == name)[0].value
        return _text(ibis.coalesce(*(value[f"{kind}_value"].cast("string") for kind in _KINDS)))

    collected = {name: member(f"collected_traffic_source.{column}") for name, column in _COLLECTED.items()}
    has_collected = ibis.coalesce(*collected.values()).notnull()
    ignored = (parameter("ignore_referrer") == "true").fill_null(False)
    marks = {
        name: ibis.cases((has_collected, value), (~ignored, parameter(name)))
        for name, value in collected.items()
    }
    referrer = ibis.ifelse(ignored, ibis.null("string"), parameter("page_referrer"))
    # Google derives these media from the referrer, which tells more.
    is_other = ~(marks["medium"].lower().isin(["organic", "referral"]) & referrer.notnull()).fill_null(False)
    added = {
        f"utm_{name}": ibis.ifelse(is_other & ~marks[name].startswith("("), marks[name], ibis.null("string"))
        for name in _PARAMETERS
    }
    clicks = {name: marks[name] for name in CLICK_IDS}
    views = export_tables.apart(
        views.mutate(page=parameter("page_location"), referrer=referrer, **added, **clicks)
    )
    device = views.device.type() if "device" in views.columns else None
    has_offset = device is not None and "time_zone_offset_seconds" in device.names
    offset = views.device.time_zone_offset_seconds if has_offset else ibis.null("int64")
    return views.select(
        trackerId=member("user_pseudo_id"),
        # Dates are kept to milliseconds, which more engines can make one of.
        date=(views.event_timestamp // 1_000).as_timestamp("ms"),
        pageUrl=export_tables.with_query(views.page, {name: views[name] for name in (*added, *clicks)}),
        referrer=views.referrer,
        timezoneOffset=offset.cast("float64") / -60,
        **{"geo.state": member("geo.region"), "geo.city": member("geo.city")},
    )


_KINDS: Final = ("string", "int", "double", "float")
_COLLECTED: Final = {
    **{name: f"manual_{name}" for name in MARKS[:6]},
    "campaign": "manual_campaign_name",
    **dict(zip(CLICK_IDS, CLICK_IDS, strict=True)),
}


def _text(value: Any) -> Any:
    return value.cast("string").strip().nullif("")
