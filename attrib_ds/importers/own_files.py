"""Read touchpoints and conversions from users' own files, whose columns are matched by common names.

Rows that cannot be read are listed with the reason; the others are used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.errors import InvalidRequest, UnmatchedUsers, warn
from attrib_ds.importers.column_names import LEVEL_NAMES
from attrib_ds.importers.conversion_names import references
from attrib_ds.importers.journey_tables import CONVERSIONS, VIEWS, VISITS, assemble, chains_of, create_table
from attrib_ds.importers.own_table import Named, OwnTable
from attrib_ds.importers.user_columns import user_columns
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.sources import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta
    from pathlib import Path

    from attrib_ds.importers.journeys import Journeys
    from attrib_ds.records.input_frames import Frame, FrameOrPath
from attrib_ds.importers.column_options import OPTIONS

_SOURCE = ("source", "medium", "campaign")
#: Fields of a traffic source that the columns of a node can fill.
_FIELDS = ("node", "levels", *LEVEL_NAMES)


@dataclass(frozen=True)
class FilePaths:
    """Paths read from files.

    Attributes
    ----------
    paths : Paths
        Paths to attribute.
    counts : dict of str to int
        Number of rows read, by kind.
    columns : dict of str to dict
        The columns used, by kind and role.
    rejected : DataFrame
        ``file`` (str), ``row`` (Int64, from 0, without the header), ``reason`` (str).
    """

    paths: Paths
    counts: dict[str, int]
    columns: dict[str, dict[str, Named]]
    rejected: pd.DataFrame


def read_journeys(
    touchpoints: FrameOrPath,
    conversions: FrameOrPath | None = None,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    event_type: str = "conversion",
    stitch: bool = True,
    channels: Frame | None = None,
    dayfirst: bool | None = None,
    aggregate: bool = False,
) -> Journeys:
    """Read touchpoints and conversions from files or frames of any source.

    Parameters
    ----------
    touchpoints : str, Path or DataFrame
        One row per touchpoint: a CSV, NDJSON, Parquet or XLSX file, or a table.
    conversions : str, Path or DataFrame, optional
        One row per conversion; without it, touchpoints whose flag column is 1 or true are conversions.
    columns : mapping of str to str or list of str, optional
        Column by role (``user``, ``device``, ``node``, ``date``, ``touch``, ``conversion``, ``flag``,
        ``value``, ``currency``), for columns without a common name; ``conversion_user`` and
        ``conversion_date`` if conversions have others than touchpoints. By default the users are those of a
        column that both tables have, if there is one, and devices are used beside users. Several columns for
        ``node`` make a tree: those of a source, medium, campaign, ad group, ad or keyword as in exports,
        others as the levels channel, campaign, adset, ad and keyword, in the order given. By default a column
        of nodes or channels, else the columns of source, medium and campaign. Times without an offset are
        UTC.
    currency : str, optional
        Currency of values that have none. Values of unknown currency have no ROAS beside spend in one.
    event_type : str, default "conversion"
        Event type of the conversions in a project.
    stitch : bool, default True
        Whether to assign rows without a user to the user seen on the same device, if there is exactly one and
        the tables have columns of users and of devices.
    channels : DataFrame, optional
        Rules that assign each node its channel, from :func:`channel_rules`; by default as they are, and the
        node itself if it is not made of a source and medium.
    dayfirst : bool, optional
        Whether dates such as 03/04/2025 begin with the day (true) or the month (false). By default they are
        refused.
    aggregate : bool, default False
        Whether to add up the rows of a conversion, such as the lines of an order: the sum of their values at
        the earliest date.

    Returns
    -------
    Journeys
        Each touchpoint as a session without hits, each conversion with the statistic ``revenue`` if it has a
        value, a node (of type ``channel``) for each name. ``journeys.paths()`` builds the paths,
        ``journeys.load(project)`` loads everything into a project.

    Raises
    ------
    InvalidRequest
        If a file, column or role does not exist, there are no readable rows, identifiers of conversions are
        not unique, or ``currency`` is not a currency code.

    Warns
    -----
    RejectedRows
        If rows cannot be read; the message has their number and the first reason.
    UnmatchedUsers
        If no conversion has a user of any touchpoint.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import attribute, read_journeys
    >>> clicks = pd.DataFrame({"customer": ["u", "u"], "channel": ["search", "email"],
    ...                        "time": ["2025-01-01", "2025-01-02"]})
    >>> orders = pd.DataFrame({"order_id": [1001], "customer": ["u"], "order_date": ["2025-01-03"]})
    >>> attribute(read_journeys(clicks, orders).paths(), "linear")[["node_id", "conversions"]]
      node_id  conversions
    0   email          0.5
    1  search          0.5
    """
    (reference,) = references(event_type).values()
    named = dict(columns or {})
    for role in named:
        if role not in OPTIONS:
            raise InvalidRequest.choice("columns", role, OPTIONS)
    connection = duckdb.connect()
    touch_table = OwnTable(connection, touchpoints, "touchpoints", dayfirst=dayfirst)
    has_own_table = conversions is not None
    conversion_table = OwnTable(
        connection, touchpoints if conversions is None else conversions, "conversions", dayfirst=dayfirst
    )
    of_touchpoints, of_conversions = user_columns(touch_table, conversion_table, named)
    touch_table.take_user(of_touchpoints.user, of_touchpoints.device)
    touch_table.take_node(touch_table.find_node(named))
    touch_table.take_instant("date", touch_table.find("date", named))
    touch_table.take_word("touch", touch_table.find("touch", named, required=False))
    points, rejected = touch_table.read()
    where = "true"
    if not has_own_table:
        flag = conversion_table.find("flag", named)
        where = f"coalesce({conversion_table.source.flag(flag or '')}, false)"
    if "conversion_date" in named:
        named["date"] = named["conversion_date"]
    conversion_table.take_user(of_conversions.user, of_conversions.device)
    events, rejected_conversions = _read_conversions(
        conversion_table,
        named,
        where,
        has_own_table=has_own_table,
        currency=currency,
        aggregate=aggregate,
    )
    _create_visits(connection, points)
    # As in send_conversions, a day counts until its end, so that touchpoints of that day count.
    is_end = has_own_table and conversion_table.has_days_only("date")
    _create_conversions(connection, events, reference, is_end=is_end)
    if has_own_table:
        # A single file for both has the same rejected rows.
        rejected = pd.concat([rejected, rejected_conversions], ignore_index=True)
    connection.register("rejected_rows", pa.Table.from_pandas(rejected, preserve_index=False))
    connection.execute("CREATE TABLE rejected AS SELECT file, row, reason FROM rejected_rows")
    create_table(connection, "views", VIEWS, dict.fromkeys(VIEWS, "NULL"), "WHERE false")
    # Orders, too, tell whose device it is.
    connection.execute(
        "CREATE TABLE sightings AS SELECT device, account FROM visits "
        "UNION ALL SELECT device, account FROM conversions"
    )
    journeys = assemble(
        connection,
        "journeys",
        stitch=stitch,
        currency=currency,
        channels=channels,
        has_units=False,
        sightings="sightings",
    )
    columns_used = {"touchpoints": touch_table.columns, "conversions": conversion_table.columns}
    _warn_of_strangers(journeys, columns_used)
    return replace(journeys, columns=columns_used)


def _warn_of_strangers(journeys: Journeys, columns: Mapping[str, Mapping[str, Named]]) -> None:
    """Warn if no conversion has a user of any touchpoint, so that nothing can be attributed."""
    if journeys.events["userId"].isin(journeys.interactions["userId"]).any():
        return
    used = {kind: of_kind.get("user", of_kind.get("device")) for kind, of_kind in columns.items()}
    warn(
        f"no user of a conversion ({used['conversions']}) occurs among those of the touchpoints "
        f"({used['touchpoints']}), so that no conversion is attributed. Choose columns with the same ids: "
        "columns={'user': COLUMN, 'conversion_user': COLUMN}, or --user COLUMN --conversion-user COLUMN in "
        "the command",
        UnmatchedUsers,
    )


def find_columns(rows: object, roles: Iterable[str]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the columns of a file or frame, and those that have a common name for each role."""
    table = OwnTable(duckdb.connect(), rows, "file")
    found: dict[str, list[str]] = {}
    for role in roles:
        if role == "node":
            found[role] = table.find_node({}, required=False)
        else:
            column = table.find(role, {}, required=False)
            found[role] = [] if column is None else [column]
    return table.source.columns, {role: columns for role, columns in found.items() if columns}


def read_paths(
    touchpoints: Path,
    conversions: Path | None = None,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    lookback: str | timedelta = "30D",
    dayfirst: bool | None = None,
    aggregate: bool = False,
) -> FilePaths:
    """Read touchpoints and conversions from files as :func:`read_journeys` does, and build the paths."""
    journeys = read_journeys(
        touchpoints,
        conversions,
        columns=columns,
        currency=currency,
        dayfirst=dayfirst,
        aggregate=aggregate,
    )
    counts = {"touchpoints": len(journeys.interactions), "conversions": len(journeys.events)}
    return FilePaths(journeys.paths(lookback=lookback), counts, journeys.columns, journeys.rejected)


def _create_visits(connection: duckdb.DuckDBPyConnection, points: pa.Table) -> None:
    connection.register("points", points)
    # Identical touchpoints are distinct visits.
    fields = [name for name in _FIELDS if name in points.column_names]
    person = _person(points)
    order = f"row_number() OVER (PARTITION BY {person}, {', '.join(fields)}, date ORDER BY row)"
    of_fields = ", ".join(f"coalesce({name}, '')" for name in fields)
    key = f"concat_ws(chr(31), {person}, {of_fields}, epoch_us(date), {order})"
    columns: dict[str, str] = dict.fromkeys(VISITS, "NULL") | {
        "visit_key": "'id ' || touch" if "touch" in points.column_names else f"'as ' || {key}",
        "device": "device" if "device" in points.column_names else "NULL",
        "account": '"user"',
        "started": "date",
        "ended": "date",
        "is_bot": "false",
    }
    columns |= {name: name for name in fields}
    if "referrer" in points.column_names:
        # A visit without UTM parameters comes from the site that links here.
        host = r"regexp_extract(lower(referrer), '^(?:[a-z][a-z0-9+.-]*://)?([^/?#:]+)', 1)"
        is_referred = "coalesce(source, medium, campaign) IS NULL AND referrer IS NOT NULL"
        missing = [f"CAST(NULL AS VARCHAR) AS {name}" for name in _SOURCE if name not in fields]
        selected = ", ".join(["*", *missing])
        points_with_source = f"FROM (SELECT {selected} FROM points)"
        columns |= {
            "source": f"CASE WHEN {is_referred} THEN {host} ELSE source END",
            "medium": f"CASE WHEN {is_referred} THEN 'referral' ELSE medium END",
            "referrer": "referrer",
        }
    else:
        points_with_source = "FROM points"
    create_table(connection, "visits", VISITS, columns, points_with_source)
    connection.unregister("points")


def _create_conversions(
    connection: duckdb.DuckDBPyConnection, events: pa.Table, reference: str, *, is_end: bool
) -> None:
    connection.register("events", events)
    person = _person(events)
    order = f"row_number() OVER (PARTITION BY {person}, date ORDER BY row)"
    key = f"concat_ws(' ', {person}, strftime(date, '%Y-%m-%dT%H:%M:%S.%fZ'), nullif({order}, 1))"
    present = events.column_names
    columns: dict[str, str] = dict.fromkeys(CONVERSIONS, "NULL") | {
        "source_id": "conversion" if "conversion" in present else key,
        "kind": literal(reference),
        "device": "device" if "device" in present else "NULL",
        "account": '"user"',
        "occurred": "date + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND" if is_end else "date",
        "amount": "value" if "value" in present else "NULL",
        "currency": "currency" if "currency" in present else "NULL",
    }
    create_table(connection, "conversions", CONVERSIONS, columns, "FROM events")
    connection.unregister("events")


def _person(rows: pa.Table) -> str:
    """Return SQL for the user, or else the device."""
    return "coalesce(\"user\", 'device ' || device)" if "device" in rows.column_names else '"user"'


def _read_conversions(
    table: OwnTable,
    named: Mapping[str, Named],
    where: str,
    *,
    has_own_table: bool,
    currency: str | None,
    aggregate: bool,
) -> tuple[pa.Table, pd.DataFrame]:
    table.take_instant("date", table.find("date", named))
    if has_own_table or "conversion" in named:
        table.take_word("conversion", table.find("conversion", named, required=False))
    value = table.find("value", named, required=False)
    table.take_number("value", value, optional_if="true")
    table.take_currency(table.find_currency(named, value), currency)
    events, rejected = table.read(where=where)
    if aggregate:
        return _summed(table, events), rejected
    if "conversion" in events.column_names:
        duplicates = events.num_rows - pc.count_distinct(events["conversion"]).as_py()
        if duplicates:
            raise InvalidRequest(
                f"conversion: {table.name} has {duplicates:,} rows more than distinct values of "
                f"{table.columns['conversion']!r}; aggregate the rows of a conversion with aggregate=True, "
                "or name the column with unique ids of conversions with columns={'conversion': COLUMN} "
                "(--aggregate or --conversion COLUMN in the command)",
                field="conversion",
            )
    return events, rejected


def _summed(table: OwnTable, events: pa.Table) -> pa.Table:
    """Return one row per conversion: the sum of the values of its rows, at the earliest date."""
    if "conversion" not in events.column_names:
        raise InvalidRequest(
            f"aggregate: {table.name} has no column that looks like the conversion; name the "
            "column with their ids with columns={'conversion': COLUMN}, or --conversion COLUMN in the "
            "command",
            field="conversion",
        )
    table.connection.register("lines", events)
    names = [name for name in ("currency", "user", "device") if name in events.column_names]
    mixed = " OR ".join(f'count(DISTINCT "{name}") > 1' for name in names)
    broken = table.connection.execute(
        f"SELECT conversion FROM lines GROUP BY conversion HAVING {mixed} ORDER BY conversion LIMIT 1"
    ).fetchall()
    if broken:
        raise InvalidRequest(
            f"aggregate: the rows of conversion {broken[0][0]!r} are of several users or in several "
            "currencies; allowed: one of each",
            field="conversion",
        )
    columns = ['min(row) AS row, min("user") AS "user", min(date) AS date, conversion']
    columns += ["sum(value) AS value"] if "value" in events.column_names else []
    columns += ["min(device) AS device"] if "device" in events.column_names else []
    columns += ["min(currency) AS currency"] if "currency" in events.column_names else []
    summed = table.connection.execute(
        f"SELECT {', '.join(columns)} FROM lines GROUP BY conversion ORDER BY row"
    ).to_arrow_table()
    table.connection.unregister("lines")
    return summed


def read_sequences(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    separator: str = " > ",
) -> FilePaths:
    """Read aggregated paths from a file.

    Parameters
    ----------
    file : Path
        CSV, NDJSON, Parquet or XLSX file: one row per distinct path, or one row per journey with its steps
        in numbered columns (``T_1``, ``T_2``, …) and a flag that says whether it converted.
    columns : mapping of str to str or list of str, optional
        Column by role (``path``, ``conversions``, ``total_value``, ``currency``, ``nulls``; ``path`` may list
        the columns of steps in order, with ``flag``).
    currency : str, optional
        Currency of values that have none.
    separator : str, default " > "
        Separator between nodes.

    Returns
    -------
    FilePaths
        Paths, counts, the columns used and the rejected rows.

    Raises
    ------
    InvalidRequest
        If the file or a column is missing, or there are no readable rows.
    """
    named = dict(columns or {})
    table = OwnTable(duckdb.connect(), file, "paths")
    steps = table.find_steps(named)
    if steps:
        table.take_steps(steps, separator)
        table.take_outcome(table.find("flag", named))
    else:
        table.take_word("path", table.find("path", named))
        table.take_number("conversions", table.find("conversions", named), minimum=0)
        table.take_number("nulls", table.find("nulls", named, required=False), minimum=0)
    value = table.find("total_value", named, required=False)
    table.take_value(value)
    table.take_currency(table.find_currency(named, value), currency)
    rows, rejected = table.read()
    paths = Paths.from_sequences(
        to_pandas(rows),
        path="path",
        conversions="conversions",
        value="value" if "value" in rows.column_names else None,
        currency="currency" if "currency" in rows.column_names else None,
        nulls="nulls" if "nulls" in rows.column_names else None,
        separator=separator,
    )
    return FilePaths(paths, {"paths": rows.num_rows}, {"paths": table.columns}, rejected)


def read_spend(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    touchpoint_node: Named | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend of nodes from a file; return ``node_id``, ``spend``, ``currency``, and rejected rows.

    ``touchpoint_node`` has the columns of the touchpoints' nodes, which are used if the file has them too.
    """
    named = dict(columns or {})
    table = OwnTable(duckdb.connect(), file, "spend")
    node = table.find_node_like(touchpoint_node, named)
    table.take_node(node)
    if len(node) > 1:
        table.require_any(node)
    spend = table.find("spend", named)
    table.take_number("spend", spend, minimum=0)
    table.take_currency(table.find_currency(named, spend), currency)
    rows, rejected = table.read()
    node_ids = [nodes[-1].node_id for nodes in chains_of(rows)]
    kept = rows.select([name for name in ("spend", "currency") if name in rows.column_names])
    return to_pandas(kept.add_column(0, "node_id", pa.array(node_ids, pa.string()))), rejected
