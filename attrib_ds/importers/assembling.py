"""Turns the visits, views and conversions of any source into frames like the service's resources."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.journeys import REVENUE, SOURCE_ID, Journeys
from attrib_ds.importers.traffic import Traffic, chain, referrer_type, tree
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.sources import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import pandas as pd

#: Columns of the table ``visits``. ``device`` and ``account`` tell whose it is: the browser, and the user
#: whom the source knows by name; one of them is there.
VISITS: Final = {
    "visit_key": "VARCHAR",
    "device": "VARCHAR",
    "account": "VARCHAR",
    "began": "TIMESTAMP",
    "ended": "TIMESTAMP",
    **{each.name: "VARCHAR" for each in fields(Traffic)},
    "page": "VARCHAR",
    "referrer": "VARCHAR",
    "is_bot": "BOOLEAN",
    "agent": "VARCHAR",
    "browser": "VARCHAR",
    "browser_version": "VARCHAR",
    "system": "VARCHAR",
    "system_version": "VARCHAR",
    "device_type": "VARCHAR",
    "country": "VARCHAR",
    "region": "VARCHAR",
    "city": "VARCHAR",
}
#: Columns of the table ``views``, the page views of visits.
VIEWS: Final = {"view_key": "VARCHAR", "visit_key": "VARCHAR", "seen": "TIMESTAMP", "page": "VARCHAR"}
#: Columns of the table ``conversions``; ``source_id`` is unique within a kind, but for repetitions.
CONVERSIONS: Final = {
    "source_id": "VARCHAR",
    "kind": "VARCHAR",
    "name": "VARCHAR",
    "device": "VARCHAR",
    "account": "VARCHAR",
    "happened": "TIMESTAMP",
    "amount": "DOUBLE",
    "currency": "VARCHAR",
}
_TRAFFIC: Final = [each.name for each in fields(Traffic)]
_UNIT: Final = "\x1f"


def create_table(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    types: Mapping[str, str],
    columns: Mapping[str, str],
    rows: str,
) -> None:
    """Create one of the tables that :func:`assemble` reads.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Where the table is made.
    table : str
        Its name.
    types : mapping of str to str
        Type of each column.
    columns : mapping of str to str
        SQL of the columns that are not there under their own names.
    rows : str
        What follows the selected columns in the query, ``FROM`` included.
    """
    selected = ", ".join(
        f"CAST({columns.get(name, name)} AS {kind}) AS {name}" for name, kind in types.items()
    )
    connection.execute(f"CREATE TABLE {table} AS SELECT {selected} {rows}")


def assemble(
    connection: duckdb.DuckDBPyConnection,
    origin: str,
    *,
    stitch: bool,
    currency: str | None,
    has_units: bool = True,
) -> Journeys:
    """Make frames of the tables ``visits``, ``views``, ``conversions`` and ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        With the tables, whose columns are :data:`VISITS`, :data:`VIEWS` and :data:`CONVERSIONS`.
    origin : str
        Part of every id, so that ids of two sources never meet.
    stitch : bool
        Whether what a device did without an account belongs to the account, where only one was seen on it.
    currency : str, optional
        Of amounts that come without one.
    has_units : bool, default True
        Whether amounts have to be money. Otherwise they are plain numbers where none has a currency.

    Returns
    -------
    Journeys
        With ids that follow from those of the source.

    Raises
    ------
    InvalidRequest
        If an amount has no currency, or the one that is named is none.
    """
    _find_users(connection, stitch=stitch)
    nodes = _find_nodes(connection)
    amount = _find_amounts(connection, currency, has_units=has_units)
    interactions = connection.execute(
        f"""
        SELECT {_hex(origin, "visit", "visit_key")} AS _id, 'session' AS type,
            {_hex(origin, "user", "person")} AS userId,
            CASE WHEN account IS NULL THEN json_object('trackerId', device)
                ELSE json_object('vendorUserId', account) END::VARCHAR AS userData,
            node_id AS nodeId, began AS startDate, ended AS endDate,
            coalesce(seen.hitCount, 0) AS hitCount, seen.firstHitId AS firstHitId,
            coalesce(is_bot, false) AS isBot, referrer, referrer_type AS referrerType,
            page AS firstPage, {_url_parts("page", "firstPageUrl")},
            agent AS "userAgent.ua", browser AS "userAgent.browser.name",
            browser_version AS "userAgent.browser.version", system AS "userAgent.os.name",
            system_version AS "userAgent.os.version", device_type AS "userAgent.device.type",
            country AS "geo.countryCode", region AS "geo.state", city AS "geo.city"
        FROM visits JOIN people USING (visit_key) JOIN sources USING (traffic)
        LEFT JOIN (SELECT visit_key, count(*) AS hitCount,
            arg_min({_uuid(origin, "view", "view_key")}, (seen, view_key)) AS firstHitId
            FROM views GROUP BY visit_key) AS seen USING (visit_key)
        ORDER BY startDate, _id
        """
    ).to_arrow_table()
    hits = connection.execute(
        f"""
        SELECT {_uuid(origin, "view", "view_key")} AS id, {_hex(origin, "visit", "visit_key")} AS sessionId,
            seen AS serverDate, 'pageview' AS hitType, {_url_parts("views.page", "pageUrl")},
            coalesce(is_bot, false) AS isBot
        FROM views JOIN visits USING (visit_key) ORDER BY serverDate, id
        """
    ).to_arrow_table()
    events = connection.execute(
        f"""
        SELECT {_uuid(origin, "event", f"kind || {literal(_UNIT)} || source_id")} AS _id,
            {_hex(origin, "user", "person")} AS userId, kind AS eventType, happened AS eventDate,
            happened AS updatedAt, source_id AS {quoted(SOURCE_ID)}, name AS "event.name",
            {amount},
            CASE WHEN account IS NOT NULL THEN account END AS "user.vendorUserId"
        FROM buyers ORDER BY eventDate, _id
        """
    ).to_arrow_table()
    (listed,) = connection.execute("SELECT count(*) FROM conversions").fetchall()[0]
    rejected = connection.execute("SELECT file, row, reason FROM rejected ORDER BY ALL").to_arrow_table()
    return Journeys(
        interactions=to_pandas(interactions),
        events=to_pandas(events),
        nodes=nodes,
        hits=to_pandas(hits),
        rejected=to_pandas(rejected),
        repeated=listed - events.num_rows,
    )


def _find_users(connection: duckdb.DuckDBPyConnection, *, stitch: bool) -> None:
    """Make ``people`` and ``buyers``: who did what; an account is one person on every device."""
    connection.execute(
        "CREATE TABLE accounts AS SELECT device, min(account) AS known FROM ("
        "SELECT device, account FROM visits UNION ALL SELECT device, account FROM conversions) "
        "WHERE device IS NOT NULL AND account IS NOT NULL "
        f"AND {str(stitch).lower()} GROUP BY device HAVING count(DISTINCT account) = 1"
    )
    # An account and a device of the same name are two.
    person = (
        "CASE WHEN coalesce(account, known) IS NULL THEN 'device ' || device "
        "ELSE 'account ' || coalesce(account, known) END AS person"
    )
    parts = ", ".join(f"coalesce({name}, '')" for name in _TRAFFIC)
    key = f"concat_ws({literal(_UNIT)}, {parts})"
    connection.execute(
        f"CREATE TABLE people AS SELECT visit_key, {person}, {key} AS traffic "
        "FROM visits LEFT JOIN accounts USING (device)"
    )
    connection.execute(
        f"CREATE TABLE buyers AS SELECT conversions.*, {person} FROM conversions "
        "LEFT JOIN accounts USING (device) QUALIFY row_number() OVER (PARTITION BY kind, source_id "
        "ORDER BY happened, amount DESC NULLS LAST, device, account) = 1"
    )


def _find_nodes(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Make ``sources``, the node of each way a visit came; return the tree."""
    connection.execute("ALTER TABLE visits ADD COLUMN traffic VARCHAR")
    connection.execute(
        "UPDATE visits SET traffic = people.traffic FROM people WHERE visits.visit_key = people.visit_key"
    )
    connection.execute("ALTER TABLE people DROP COLUMN traffic")
    found = connection.execute(
        f"SELECT traffic, {', '.join(f'any_value({name}) AS {name}' for name in _TRAFFIC)}, "
        "min(began) AS began FROM visits GROUP BY traffic ORDER BY traffic"
    ).to_arrow_table()
    chains = [chain(Traffic(**{name: row[name] for name in _TRAFFIC})) for row in found.to_pylist()]
    leaves = [nodes[-1] for nodes in chains]
    sources = pa.table(
        {
            "traffic": found["traffic"],
            "node_id": pa.array([leaf.node_id for leaf in leaves], pa.string()),
            "referrer_type": pa.array([referrer_type(leaf) for leaf in leaves], pa.string()),
        }
    )
    connection.register("found_sources", sources)
    connection.execute("CREATE TABLE sources AS FROM found_sources")
    connection.unregister("found_sources")
    began: dict[str, Any] = {}
    for nodes, first in zip(chains, found["began"].to_pylist(), strict=True):
        for node in nodes:
            began[node.node_id] = min(first, began.get(node.node_id, first))
    listed = tree(chains)
    columns = {
        "_id": [node.node_id for node in listed],
        "parentId": [node.parent_id for node in listed],
        "type": [node.kind for node in listed],
        "name": [node.name for node in listed],
        "channel": [node.channel for node in listed],
        "source": [node.source for node in listed],
        "medium": [node.medium for node in listed],
        "campaignSlug": [node.slug for node in listed],
        "externalId": [node.external_id for node in listed],
    }
    dates = pa.array([began[node.node_id] for node in listed], pa.timestamp("us"))
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return to_pandas(pa.table(texts | {"createdAt": dates, "updatedAt": dates}))


def _find_amounts(connection: duckdb.DuckDBPyConnection, currency: str | None, *, has_units: bool) -> str:
    """Give every amount its currency; return SQL for the columns of the statistic."""
    if currency is not None and not re.fullmatch("[A-Z]{3}", currency):
        raise InvalidRequest(
            f"currency: {currency!r} is not allowed; allowed: three capital letters, as in ISO 4217",
            field="currency",
        )
    connection.execute("UPDATE buyers SET currency = upper(currency)")
    if currency is not None:
        connection.execute(
            f"UPDATE buyers SET currency = {literal(currency)} WHERE amount IS NOT NULL AND currency IS NULL"
        )
    # An amount is what makes a currency worth telling.
    connection.execute("UPDATE buyers SET currency = NULL WHERE amount IS NULL")
    count, example, units = connection.execute(
        "SELECT count(*) FILTER (currency IS NULL), min(source_id) FILTER (currency IS NULL), "
        "count(currency) FROM buyers WHERE amount IS NOT NULL"
    ).fetchall()[0]
    if count and not units and not has_units:
        return f"amount AS {quoted(REVENUE)}"
    if count:
        raise InvalidRequest(
            f"currency: {count:,} conversions have revenue without a currency, for example {example!r}; name "
            'it, such as currency="EUR"',
            field="currency",
        )
    return f"amount AS {quoted(f'{REVENUE}.amount')}, currency AS {quoted(f'{REVENUE}.currency')}"


def _hex(origin: str, kind: str, key: str) -> str:
    """Return SQL for an id of 24 hexadecimal digits that follows from a key of the source."""
    return f"substr(md5({literal(f'{origin}{_UNIT}{kind}{_UNIT}')} || {key}), 1, 24)"


def _uuid(origin: str, kind: str, key: str) -> str:
    """Return SQL for a UUID that follows from a key of the source."""
    digest = f"md5({literal(f'{origin}{_UNIT}{kind}{_UNIT}')} || {key})"
    # Version 8 of RFC 9562: what the digits mean is our own matter.
    pattern, form = "^(.{8})(.{4}).(.{3}).(.{3})(.{12})$", r"\1-\2-8\3-8\4-\5"
    return f"regexp_replace({digest}, '{pattern}', '{form}')"


def _url_parts(page: str, prefix: str) -> str:
    """Return SQL for the parts of an address, as columns named ``<prefix>.<part>``."""
    whole = r"^([a-zA-Z][a-zA-Z0-9+.-]*:)//([^/?#:]*)(?::([0-9]+))?([^?#]*)(\?[^#]*)?(#.*)?$"

    def part(number: int) -> str:
        return f"regexp_extract({page}, {literal(whole)}, {number})"

    origin = rf"regexp_extract({page}, {literal(r'^([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*)')}, 1)"
    parts = {
        "protocol": part(1),
        "hostname": part(2),
        "port": part(3),
        "origin": origin,
        "pathname": f"coalesce(nullif({part(4)}, ''), '/')",
        "search": part(5),
        "hash": part(6),
    }
    is_address = f"regexp_matches({page}, {literal(whole)})"
    return ", ".join(
        f"CASE WHEN {is_address} THEN {sql} END AS {quoted(f'{prefix}.{name}')}"
        for name, sql in parts.items()
    )
