"""Reads Snowplow's enriched events, and their page views as raw hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa

from attrib_ds.errors import InvalidRequest
from attrib_ds.records import export_tables
from attrib_ds.records.frames import FrameOrPath
from attrib_ds.records.sources import Source, described, literal, open_source
from attrib_ds.records.text_files import copy_text

#: Fields of an enriched event in the order of the tab-separated format.
FIELDS: Final = Path(__file__).with_name("snowplow_fields.txt").read_text(encoding="utf-8").split()

_TABLES: Final = (".parquet", ".pq", ".csv", ".ndjson", ".jsonl", ".json")
_INSTANTS: Final = ("true_tstamp", "derived_tstamp", "collector_tstamp")
_REQUIRED: Final = (("event_id",), ("event_name", "event"), _INSTANTS)
_OPAQUE: Final = ("contexts", "unstruct_event", "derived_contexts")
_ORDER: Final = "com.snowplowanalytics.snowplow.ecommerce/transaction"
_SESSION: Final = "com.snowplowanalytics.snowplow/client_session"
_ROBOT: Final = "com.iab.snowplow/spiders_and_robots"


def open_snowplow_events(connection: duckdb.DuckDBPyConnection, events: object) -> list[export_tables.Export]:
    """Create the table ``source_events``: each event once.

    Rows that are not events are in the table ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to create tables in.
    events : DataFrame, Arrow table, path, records, or a list of those
        Enriched events, as for :func:`attrib_ds.read_snowplow`.

    Returns
    -------
    list of Export
        The opened tables and files.

    Raises
    ------
    InvalidRequest
        If the events cannot be read.
    """
    rules = {
        "event_id IS NULL": "event_id is missing",
        "occurred IS NULL": "derived_tstamp and collector_tstamp are not instants",
        "device IS NULL AND account IS NULL": "domain_userid, network_userid and user_id are missing",
    }
    kind: dict[str, Any] = {"argument": "events", "required": _REQUIRED, "opaque": _OPAQUE}
    opened = export_tables.gather(connection, events, _columns, rules=rules, open_path=_open, **kind)
    _deduplicate_events(connection)
    return opened


def _open(connection: duckdb.DuckDBPyConnection, path: Path) -> Source:
    """Open a file with the ending of a table, or else as tab-separated lines of the pipeline."""
    if path.name.casefold().removesuffix(".gz").endswith(_TABLES):
        return open_source(connection, path, argument="events", opaque=_OPAQUE)
    if not path.is_file():
        raise InvalidRequest(f"events: {str(path)!r} does not exist")
    try:
        copied, unreadable = copy_text(
            connection,
            path,
            FIELDS,
            read={"column_names": FIELDS},
            # Quotation marks belong to the JSON in some fields.
            parse={
                "delimiter": "\t",
                **dict.fromkeys(("quote_char", "double_quote", "newlines_in_values"), False),
            },
            convert={"null_values": [""], "strings_can_be_null": True},
        )
    except pa.ArrowException as error:
        reason = str(error).split("\n")[0]
        raise InvalidRequest(f"events: {str(path)!r} cannot be read: {reason}") from error
    header, event = "where the header has", "where an enriched event has"
    return described(connection, copied, [(row, said.replace(header, event)) for row, said in unreadable], 1)


def _columns(export: export_tables.Export) -> dict[str, str]:
    """Return the SQL expressions of the fields used, by name."""
    session, order, robot = (_entity(export, each) for each in (_SESSION, _ORDER, _ROBOT))
    return export.texts("snowplow") | {
        "kind": export.text("event_name", "event"),
        "occurred": _instant(export, *_INSTANTS),
        "device": f"coalesce({export.text('domain_userid')}, {_member(session, 'userId')}, "
        f"{export.text('network_userid')})",
        "visit": f"coalesce({export.text('domain_sessionid')}, {_member(session, 'sessionId')}, "
        f"{export.text('domain_userid')} || '.' || {export.text('domain_sessionidx')})",
        "is_bot": f"coalesce({export.text('br_type')} = 'Robot', false) "
        f"OR coalesce({_member(robot, 'spiderOrRobot')} = 'true', false)",
        "order_id": f"coalesce({export.text('tr_orderid')}, {_member(order, 'transaction_id')})",
        "has_order": f"{order} IS NOT NULL",
        "amount": f"TRY_CAST(coalesce({export.text('tr_total')}, {_member(order, 'revenue')}, "
        f"{export.text('se_value')}) AS DOUBLE)",
        "money": f"coalesce({export.text('tr_currency')}, {_member(order, 'currency')})",
    }


def _instant(export: export_tables.Export, *columns: str) -> str:
    """Return SQL for the first instant; the pipeline writes UTC without an offset."""
    instants = []
    for column in filter(None, map(export.column, columns)):
        instants += [export.source.instant(column), f"TRY_CAST({export.source.word(column)} AS TIMESTAMP)"]
    return f"coalesce({', '.join([*instants, 'CAST(NULL AS TIMESTAMP)'])})"


def _entity(export: export_tables.Export, schema: str) -> str:
    """Return SQL for the first entity of a schema, as JSON; NULL without one.

    In files, all entities are in one list; in tables, each schema version has a column.
    """
    column = "contexts_" + schema.translate(str.maketrans("./", "__"))
    columns = [name for name in export.source.types if name.casefold().startswith(f"{column}_")]
    candidates = [f"json_extract({_json(export.source.text(name))}, '$[0]')" for name in columns]
    for name in ("contexts", "derived_contexts"):
        if export.column(name) is not None:
            entities = f"json_extract({_json(export.text(name))}, '$.data[*]')"
            fits = f"json_extract_string(entity, '$.schema') LIKE {literal(f'iglu:{schema}/%')}"
            candidates.append(f"json_extract(list_filter({entities}, lambda entity: {fits})[1], '$.data')")
    return f"coalesce({', '.join(candidates)})" if candidates else "CAST(NULL AS JSON)"


def _member(entity: str, name: str) -> str:
    """Return SQL for a member of an entity as text; tables name it in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    texts = [f"json_extract_string({entity}, '$.{member}')" for member in dict.fromkeys((name, snake))]
    return f"nullif(coalesce({', '.join(texts)}), '')"


def _json(text: str) -> str:
    return f"CASE WHEN json_valid({text}) THEN {text}::JSON END"


def _deduplicate_events(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``source_events``: each event once, because the pipeline delivers at least once."""
    connection.execute(
        "CREATE TABLE source_events AS SELECT * EXCLUDE (visit), visit AS visit_key, "
        "{'occurred': occurred, 'event_id': event_id} AS event_order FROM records "
        "QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY file, row) = 1"
    )


#: Parameters of a URL by the field that a pipeline reads from them, or from others that it is set up for.
_PARAMETERS: Final = {
    f"utm_{name}": f"mkt_{name}" for name in ("source", "medium", "campaign", "content", "term")
}
#: Click ids by ``mkt_network``.
CLICK_IDS: Final = {"gclid": "Google", "msclkid": "Microsoft", "dclid": "DoubleClick"}


def clicks() -> dict[str, str]:
    """Return SQL for the click id of an event by the parameter that has it."""
    return {
        name: f"CASE WHEN mkt_network = {literal(network)} THEN mkt_clickid END"
        for name, network in CLICK_IDS.items()
    }


@dataclass(frozen=True, eq=False)
class SnowplowHits:
    """The page views in enriched events of Snowplow, to :func:`load` as hits.

    Sessions and traffic sources follow the rules of raw hits; :func:`read_snowplow` keeps those of Snowplow.

    Parameters
    ----------
    events : str, Path, DataFrame, or a list of those
        Rows of the table ``atomic.events``, or files of enriched events, as for :func:`read_snowplow`. Files
        may overlap, and may be loaded one by one. For :func:`open_hits`, that table in a warehouse: its name,
        or an Ibis table.

    Notes
    -----
    Hits are the events ``page_view``. The browser (``domain_userid``, else ``network_userid``) is the
    tracker; ``page_url``, ``page_referrer``, ``useragent`` and ``geo_*`` are the properties of the hit. What
    ``mkt_*`` say beyond the URL is added to it as ``utm_*`` and click ids. Robots found by the enrichments
    are marked. ``user_ipaddress`` is used for filters and look-ups, and is not stored.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> events = pd.DataFrame({"event_id": ["11111111-1111-4111-8111-111111111111"],
    ...     "event_name": ["page_view"], "domain_userid": ["d"], "page_url": ["https://shop.example/"],
    ...     "page_referrer": ["https://duckduckgo.com/"],
    ...     "derived_tstamp": pd.to_datetime(["2025-01-01 10:00"])})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     print(at.load(shop, hits=at.hits.Snowplow(events)))
    ...     at.search_interactions(shop)["nodeId"].tolist()
    <Loaded 1 hit, 1 interaction, 2 implicit nodes, 0 skipped events; 0 rows rejected>
    ['organic-search/duckduckgo']
    """

    events: FrameOrPath | ir.Table | Sequence[FrameOrPath] = field(repr=False)


def open_snowplow_hits(connection: duckdb.DuckDBPyConnection, hits: SnowplowHits) -> tuple[Source, int]:
    """Copy the page views of enriched events into a new table of a connection, as raw hits.

    Returns
    -------
    source : Source
        The raw hits; unreadable rows are those that are not events.
    skipped : int
        Number of events that are not page views.

    Raises
    ------
    InvalidRequest
        If the events cannot be read.
    """
    exports = open_snowplow_events(connection, hits.events)
    page = export_tables.with_parameters("page", _PARAMETERS | clicks())
    columns = {"trackerId": "device", "date": "occurred", "pageUrl": page, "referrer": "referrer"}
    columns |= {"userAgent": "agent", "isBot": "is_bot", "ip": "address"}
    columns |= {"geo.countryCode": "country", "geo.state": "region"}
    columns |= {f"geo.{name}": name for name in ("city", "zipcode", "latitude", "longitude")}
    return export_tables.create_page_views(connection, exports, columns, where="kind = 'page_view'")


def page_views(events: ir.Table) -> ir.Table:
    """Return the page views in the table ``atomic.events``, as :func:`open_snowplow_hits` does with files.

    Columns of entities are not read: those of mobile sessions and of the enrichment that finds robots.
    """
    events = events.rename({name.lower(): name for name in events.columns if name != name.lower()})
    columns = set(events.columns)

    def first(*names: str) -> Any:
        found = [events[name].cast("string").strip().nullif("") for name in names if name in columns]
        return ibis.coalesce(*found) if found else ibis.null("string")

    instants = [events[name] for name in _INSTANTS if name in columns]
    marks = {name: first(field) for name, field in _PARAMETERS.items()}
    network, click = first("mkt_network"), first("mkt_clickid")
    marks |= {
        name: ibis.ifelse(network == value, click, ibis.null("string")) for name, value in CLICK_IDS.items()
    }
    texts = {
        "trackerId": ("domain_userid", "network_userid"),
        "referrer": ("page_referrer",),
        "userAgent": ("useragent",),
        "ip": ("user_ipaddress",),
        "geo.countryCode": ("geo_country",),
        "geo.state": ("geo_region_name", "geo_region"),
        "geo.city": ("geo_city",),
        "geo.zipcode": ("geo_zipcode",),
    }
    return events.filter(first("event_name", "event") == "page_view").select(
        date=ibis.coalesce(*instants),
        pageUrl=export_tables.with_query(first("page_url"), marks),
        isBot=(first("br_type") == "Robot").fill_null(False),
        **{name: first(*fields) for name, fields in texts.items()},
        **{f"geo.{name}": first(f"geo_{name}").cast("float64") for name in ("latitude", "longitude")},
    )
