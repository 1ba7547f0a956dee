"""The tables that all importers fill (visits, views, conversions), and the frames built from them."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa

from attrib_ds.contract.currencies import NO_SIGN, code_of
from attrib_ds.display import printable
from attrib_ds.errors import InvalidRequest, NoConversions, RejectedRows, UnknownCurrency, warn
from attrib_ds.importers.journeys import REVENUE, SOURCE_ID, Journeys
from attrib_ds.queries.channel_rules import channels_of, default_rules, read_rules
from attrib_ds.queries.traffic_nodes import Node, Traffic, chain, referrer_type, tree
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.page_urls import selected_url_parts
from attrib_ds.records.sources import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from attrib_ds.records.input_frames import Frame

#: Columns of the table ``visits``. ``device`` is the browser, ``account`` the user's id in the source; at
#: least one of them is set.
VISITS: Final = {
    "visit_key": "VARCHAR",
    "device": "VARCHAR",
    "account": "VARCHAR",
    "started": "TIMESTAMP",
    "ended": "TIMESTAMP",
    **{field.name: "VARCHAR" for field in fields(Traffic)},
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
#: Columns of the table ``views``: page views.
VIEWS: Final = {"view_key": "VARCHAR", "visit_key": "VARCHAR", "viewed": "TIMESTAMP", "page": "VARCHAR"}
#: Columns of the table ``conversions``; rows with the same ``kind`` and ``source_id`` are duplicates.
CONVERSIONS: Final = {
    "source_id": "VARCHAR",
    "kind": "VARCHAR",
    "name": "VARCHAR",
    "device": "VARCHAR",
    "account": "VARCHAR",
    "occurred": "TIMESTAMP",
    "amount": "DOUBLE",
    "currency": "VARCHAR",
}
_TRAFFIC: Final = [field.name for field in fields(Traffic)]
_SEPARATOR: Final = "\x1f"
_MAX_NAMES: Final = 20


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
        Database of the table.
    table : str
        Name of the table.
    types : mapping of str to str
        SQL type by column.
    columns : mapping of str to str
        SQL expression by column; a column without one is selected by its name.
    rows : str
        Rest of the query, from ``FROM`` on.
    """
    selected = ", ".join(
        f"CAST({columns.get(name, name)} AS {sql_type}) AS {name}" for name, sql_type in types.items()
    )
    connection.execute(f"CREATE TABLE {table} AS SELECT {selected} {rows}")


def warn_without_conversions(
    connection: duckdb.DuckDBPyConnection, names: str, rows: str, *, expected: str, advice: str
) -> None:
    """Warn if the table ``conversions`` is empty, with the names that occur.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the table.
    names : str
        SQL expression for the names.
    rows : str
        Rest of the query, from ``FROM`` on.
    expected : str
        What the names of conversions are.
    advice : str
        How to choose others.
    """
    if connection.execute("SELECT count(*) FROM conversions").fetchall()[0][0]:
        return
    seen = connection.execute(
        f"SELECT {names} AS name, count(*) AS times {rows} GROUP BY name HAVING name IS NOT NULL "
        "ORDER BY times DESC, name"
    ).fetchall()
    listed = ", ".join(f"{name} ({times:,})" for name, times in seen[:_MAX_NAMES]) or "none"
    others = f" and {len(seen) - _MAX_NAMES:,} others" if len(seen) > _MAX_NAMES else ""
    warnings.warn(
        f"there are no conversions: {expected}. Names in the data: {printable(listed)}{others}. {advice}",
        NoConversions,
        stacklevel=3,
    )


def assemble(
    connection: duckdb.DuckDBPyConnection,
    origin: str,
    *,
    stitch: bool,
    currency: str | None,
    channels: Frame | None = None,
    has_units: bool = True,
    sightings: str = "visits",
) -> Journeys:
    """Build the frames from the tables ``visits``, ``views``, ``conversions`` and ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        With the tables, whose columns are :data:`VISITS`, :data:`VIEWS` and :data:`CONVERSIONS`.
    origin : str
        Name of the source, hashed into every id to keep ids of different sources apart.
    stitch : bool
        Whether to assign a device's activity without an account to the account seen on the device, if there
        is exactly one.
    currency : str, optional
        Currency of amounts that have none.
    channels : DataFrame, optional
        Channel rules instead of the channels of the export and of the default rules.
    has_units : bool, default True
        Whether amounts need a currency. Otherwise they are plain numbers if none has a currency.
    sightings : str, default "visits"
        Table whose columns ``device`` and ``account`` say which accounts were seen on which device.

    Returns
    -------
    Journeys
        With ids derived from those of the source.

    Raises
    ------
    InvalidRequest
        If an amount has no currency, or ``currency`` is not a currency.
    """
    _assign_users(connection, sightings, stitch=stitch)
    nodes = _create_nodes(connection, None if channels is None else read_rules(channels))
    amount = _set_currencies(connection, currency, has_units=has_units)
    interactions = connection.execute(
        f"""
        SELECT {_hex(origin, "visit", "visit_key")} AS _id, 'session' AS type,
            {_hex(origin, "user", "owner")} AS userId,
            CASE WHEN account IS NULL THEN json_object('trackerId', device)
                ELSE json_object('vendorUserId', account) END::VARCHAR AS userData,
            node_id AS nodeId, started AS startDate, ended AS endDate,
            coalesce(view_counts.hitCount, 0) AS hitCount, view_counts.firstHitId AS firstHitId,
            coalesce(is_bot, false) AS isBot, referrer, referrer_type AS referrerType,
            page AS firstPage, {selected_url_parts("page", "firstPageUrl")},
            agent AS "userAgent.ua", browser AS "userAgent.browser.name",
            browser_version AS "userAgent.browser.version", system AS "userAgent.os.name",
            system_version AS "userAgent.os.version", device_type AS "userAgent.device.type",
            country AS "geo.countryCode", region AS "geo.state", city AS "geo.city"
        FROM visits JOIN visit_users USING (visit_key) JOIN sources USING (traffic)
        LEFT JOIN (SELECT visit_key, count(*) AS hitCount,
            arg_min({_uuid(origin, "view", "view_key")}, (viewed, view_key)) AS firstHitId
            FROM views GROUP BY visit_key) AS view_counts USING (visit_key)
        ORDER BY startDate, _id
        """
    ).to_arrow_table()
    hits = connection.execute(
        f"""
        SELECT {_uuid(origin, "view", "view_key")} AS id, {_hex(origin, "visit", "visit_key")} AS sessionId,
            viewed AS serverDate, 'pageview' AS hitType, {selected_url_parts("views.page", "pageUrl")},
            coalesce(is_bot, false) AS isBot
        FROM views JOIN visits USING (visit_key) ORDER BY serverDate, id
        """
    ).to_arrow_table()
    events = connection.execute(
        f"""
        SELECT {_uuid(origin, "event", f"kind || {literal(_SEPARATOR)} || source_id")} AS _id,
            {_hex(origin, "user", "owner")} AS userId, kind AS eventType, occurred AS eventDate,
            occurred AS updatedAt, source_id AS {quoted(SOURCE_ID)}, name AS "event.name",
            {amount},
            CASE WHEN account IS NOT NULL THEN account END AS "user.vendorUserId"
        FROM user_conversions ORDER BY eventDate, _id
        """
    ).to_arrow_table()
    (total,) = connection.execute("SELECT count(*) FROM conversions").fetchall()[0]
    rejected = to_pandas(
        connection.execute("SELECT file, row, reason FROM rejected ORDER BY ALL").to_arrow_table()
    )
    _warn_of_rejected(rejected)
    return Journeys(
        interactions=to_pandas(interactions),
        events=to_pandas(events),
        nodes=nodes,
        hits=to_pandas(hits),
        rejected=rejected,
        repeated=total - events.num_rows,
    )


def _warn_of_rejected(rejected: pd.DataFrame) -> None:
    if not len(rejected):
        return
    first = rejected.iloc[0]
    place = first["file"] if pd.isna(first["row"]) else f"row {first['row']} of {first['file']}"
    count = "1 row" if len(rejected) == 1 else f"{len(rejected):,} rows"
    warn(
        f"{count} could not be read; the first is {place} ({printable(first['reason'])}). "
        "The others are used, and the attribute rejected lists those that are not",
        RejectedRows,
    )


def _assign_users(connection: duckdb.DuckDBPyConnection, sightings: str, *, stitch: bool) -> None:
    """Create ``visit_users`` and ``user_conversions``; an account is the same user on every device."""
    connection.execute(
        f"CREATE TABLE accounts AS SELECT device, min(account) AS stitched FROM {sightings} "
        "WHERE device IS NOT NULL AND account IS NOT NULL "
        f"AND {str(stitch).lower()} GROUP BY device HAVING count(DISTINCT account) = 1"
    )
    # An account and a device of the same name are different users.
    owner = (
        "CASE WHEN coalesce(account, stitched) IS NULL THEN 'device ' || device "
        "ELSE 'account ' || coalesce(account, stitched) END AS owner"
    )
    parts = ", ".join(f"coalesce({name}, '')" for name in _TRAFFIC)
    key = f"concat_ws({literal(_SEPARATOR)}, {parts})"
    connection.execute(
        f"CREATE TABLE visit_users AS SELECT visit_key, {owner}, {key} AS traffic "
        "FROM visits LEFT JOIN accounts USING (device)"
    )
    connection.execute(
        f"CREATE TABLE user_conversions AS SELECT conversions.*, {owner} FROM conversions "
        "LEFT JOIN accounts USING (device) QUALIFY row_number() OVER (PARTITION BY kind, source_id "
        "ORDER BY occurred, amount DESC NULLS LAST, device, account) = 1"
    )


def _create_nodes(connection: duckdb.DuckDBPyConnection, rules: pd.DataFrame | None) -> pd.DataFrame:
    """Create ``sources``, the node of each distinct traffic source; return the tree of nodes."""
    connection.execute("ALTER TABLE visits ADD COLUMN traffic VARCHAR")
    connection.execute(
        "UPDATE visits SET traffic = visit_users.traffic FROM visit_users "
        "WHERE visits.visit_key = visit_users.visit_key"
    )
    connection.execute("ALTER TABLE visit_users DROP COLUMN traffic")
    distinct = connection.execute(
        f"SELECT traffic, {', '.join(f'any_value({name}) AS {name}' for name in _TRAFFIC)}, "
        "min(started) AS started FROM visits GROUP BY traffic ORDER BY traffic"
    ).to_arrow_table()
    chains = chains_of(distinct, rules)
    leaves = [nodes[-1] for nodes in chains]
    sources = pa.table(
        {
            "traffic": distinct["traffic"],
            "node_id": pa.array([leaf.node_id for leaf in leaves], pa.string()),
            "referrer_type": pa.array([referrer_type(leaf) for leaf in leaves], pa.string()),
        }
    )
    connection.register("arrow_sources", sources)
    connection.execute("CREATE TABLE sources AS FROM arrow_sources")
    connection.unregister("arrow_sources")
    first_visits: dict[str, Any] = {}
    for nodes, started in zip(chains, distinct["started"].to_pylist(), strict=True):
        for node in nodes:
            first_visits[node.node_id] = min(started, first_visits.get(node.node_id, started))
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
    dates = pa.array([first_visits[node.node_id] for node in listed], pa.timestamp("us"))
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return to_pandas(pa.table(texts | {"createdAt": dates, "updatedAt": dates}))


def chains_of(rows: pa.Table, rules: pd.DataFrame | None = None) -> list[tuple[Node, ...]]:
    """Return the nodes of each row, from the root down; columns are fields of a traffic source.

    Rules, if there are any, name the channels.
    """
    missing = pa.nulls(rows.num_rows, pa.string())
    given = pa.table({name: rows[name] if name in rows.column_names else missing for name in _TRAFFIC})
    of_source = given.select(["source", "medium", "campaign"])
    defaults = channels_of(of_source, default_rules()).to_pylist()
    labels = [None] * len(defaults) if rules is None else channels_of(of_source, rules).to_pylist()
    return [
        chain(Traffic(**(row | {"channel": row["channel"] or default})), label)
        for row, default, label in zip(given.to_pylist(), defaults, labels, strict=True)
    ]


def checked_currency(currency: str | None) -> str | None:
    """Return the code of a currency that a user names.

    Raises
    ------
    InvalidRequest
        If it is neither a code of ISO 4217 nor the sign of one currency.
    """
    if currency is None:
        return None
    code = code_of(currency) if isinstance(currency, str) else None
    if code is None:
        raise InvalidRequest(f"currency: {currency!r} is not allowed; expected {NO_SIGN}", field="currency")
    return code


def _set_currencies(connection: duckdb.DuckDBPyConnection, currency: str | None, *, has_units: bool) -> str:
    """Set the currency of every amount; return SQL for the columns of the statistic."""
    currency = checked_currency(currency)
    _drop_unknown_currencies(connection)
    if currency is not None:
        connection.execute(
            f"UPDATE user_conversions SET currency = {literal(currency)} "
            "WHERE amount IS NOT NULL AND currency IS NULL"
        )
    # A currency without an amount means nothing.
    connection.execute("UPDATE user_conversions SET currency = NULL WHERE amount IS NULL")
    count, example, units = connection.execute(
        "SELECT count(*) FILTER (currency IS NULL), min(source_id) FILTER (currency IS NULL), "
        "count(currency) FROM user_conversions WHERE amount IS NOT NULL"
    ).fetchall()[0]
    if count and not units and not has_units:
        return f"amount AS {quoted(REVENUE)}"
    if count:
        raise InvalidRequest(
            f"currency: {count:,} conversions have revenue without a currency, for example {example!r}; pass "
            'one, such as currency="EUR"',
            field="currency",
        )
    return f"amount AS {quoted(f'{REVENUE}.amount')}, currency AS {quoted(f'{REVENUE}.currency')}"


def _drop_unknown_currencies(connection: duckdb.DuckDBPyConnection) -> None:
    """Write currencies as codes; amounts in something that is no currency are left out, with a warning."""
    found = connection.execute(
        "SELECT currency, count(amount) FROM user_conversions WHERE currency IS NOT NULL "
        "GROUP BY currency ORDER BY currency"
    ).fetchall()
    unknown = {word: amounts for word, amounts in found if code_of(word) is None}
    for word, _ in found:
        code, amount = (code_of(word), "amount") if word not in unknown else (None, "NULL")
        if code != word:
            connection.execute(
                f"UPDATE user_conversions SET currency = ?, amount = {amount} WHERE currency = ?",
                [code, word],
            )
    count = sum(unknown.values())
    if count:
        words = ", ".join(map(repr, list(unknown)[:_MAX_NAMES]))
        warn(
            f"{count:,} conversions have no value, because their currency is not one of ISO 4217: "
            f"{printable(words)}",
            UnknownCurrency,
        )


def _hex(origin: str, kind: str, key: str) -> str:
    """Return SQL for an id of 24 hexadecimal digits, hashed from a key of the source."""
    return f"substr(md5({literal(f'{origin}{_SEPARATOR}{kind}{_SEPARATOR}')} || {key}), 1, 24)"


def _uuid(origin: str, kind: str, key: str) -> str:
    """Return SQL for a UUID hashed from a key of the source."""
    digest = f"md5({literal(f'{origin}{_SEPARATOR}{kind}{_SEPARATOR}')} || {key})"
    # UUID version 8 (RFC 9562): custom layout.
    pattern, layout = "^(.{8})(.{4}).(.{3}).(.{3})(.{12})$", r"\1-\2-8\3-8\4-\5"
    return f"regexp_replace({digest}, '{pattern}', '{layout}')"
