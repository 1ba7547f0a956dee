"""Read touchpoints and conversions from users' own files, whose columns are matched by common names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from functools import partial, reduce
from itertools import chain
from typing import Any, Final, NamedTuple

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import scratch, sql_results
from attrib_ds.attribution.paths.paths import doubts_of
from attrib_ds.display import counted, worth
from attrib_ds.errors import InvalidRequest, warn
from attrib_ds.importers import exports, own_paths, own_sources, own_spend
from attrib_ds.importers import journeys as journey_tables
from attrib_ds.importers.aliases import Aliases
from attrib_ds.importers.columns import GROUPS, OPTIONS, Named, names_of
from attrib_ds.importers.content import evidence
from attrib_ds.importers.content import rows as rows_of
from attrib_ds.importers.reading import Asked, File, Reading, telling_readings
from attrib_ds.importers.tables import checks
from attrib_ds.importers.tables.conversions import occurred, read_conversions
from attrib_ds.importers.tables.dates import find_date, take_date, take_days, take_zone
from attrib_ds.importers.tables.divided import divide
from attrib_ds.importers.tables.nodes import (
    find_node,
    find_views,
    has_address,
    left_over,
    split_ends,
    split_pairs,
    take_node,
    take_views,
    warn_of_unused,
)
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import find_column, rows_of_kind, take_groups, take_word
from attrib_ds.importers.tables.table import is_same, workbook_of
from attrib_ds.importers.tables.users import read_phones, take_user, user_columns
from attrib_ds.records import sources, written_files
from attrib_ds.records.frames import Frame, FrameOrPath, to_pandas
from attrib_ds.traffic.sources import Traffic


def read_journeys(
    touchpoints: FrameOrPath,
    conversions: FrameOrPath | Sequence[FrameOrPath] | None = None,
    *,
    reading: Reading | None = None,
    currency: str | None = None,
    event_type: str = "conversion",
    channels: Frame | None = None,
    conversion_page: str | None = None,
    spend: FrameOrPath | Sequence[FrameOrPath] | None = None,
    aliases: Mapping[str, str] | None = None,
    statuses: Mapping[str, bool] | None = None,
) -> journey_tables.Journeys:
    """Read touchpoints and conversions from files or frames of any source.

    Parameters
    ----------
    touchpoints : str, Path or DataFrame
        One row per touchpoint: a CSV, NDJSON, Parquet or XLSX file, or a table; or an access log. Exports of
        known services are read as they come, with a warning that says which rows count. Without conversions,
        orders or leads with their own source, such as UTM parameters or a channel: their last touchpoint.
    conversions : str, Path or DataFrame, or a list of those, optional
        One row per conversion. If several files have it, the latest state counts. Without this table,
        touchpoints whose flag column is 1, true, t, yes or y are conversions. A table without rows is a
        period without conversions.
    reading : Reading, optional
        How to read the files: what their values leave open, such as the order of day and month, or what you
        want to change. :func:`attrib_ds.preview_files` shows how they are read.
    currency : str, optional
        Currency of values that have none: a code of ISO 4217, or a sign of one currency, such as €. Values of
        unknown currency have no ROAS if spend has a currency.
    event_type : str, default "conversion"
        Event type of the conversions in a project.
    channels : DataFrame, optional
        Rules that assign each node its channel, from :func:`channel_rules`; by default unchanged. A node that
        is not made of a source and medium is its own channel.
    conversion_page : str, optional
        Path of the page that confirms a conversion, such as ``"/thank-you"`` or ``"/orders/*/thanks"``, if
        ``touchpoints`` has page views or is an access log. Each visit that views it is one conversion.
    spend : str, Path or DataFrame, or a list of those, optional
        Spend of nodes, as pipelines and ad platforms write it. The node is the column whose values meet the
        nodes of the touchpoints most; a column of platforms tells campaigns of one name apart. Rows of the
        same node and day in several tables count once. The paths have the spend, so that
        :func:`attrib_ds.attribute` gives costs and returns. If every row has a day,
        :func:`attrib_ds.credit_series` gives them by period.
    aliases : mapping of str to str, optional
        Present names of campaigns, channels and other nodes by their former names, such as ``{"spring sale":
        "summer sale"}``, in the touchpoints and in the spend. Case, white space, ``-`` and ``_`` do not
        count. If a name was changed twice, the last one counts.
    statuses : mapping of str to bool, optional
        Which statuses count, such as ``{"pending": False}``. By default, conversions that were cancelled,
        refunded, voided, refused, failed, expired or lost do not count, nor do tests and drafts.

    Returns
    -------
    journey_tables.Journeys
        Each touchpoint as a session without hits, each conversion with the statistic ``revenue`` if it has a
        value, a node (of type ``channel``) for each name. ``journeys.paths()`` builds the paths,
        ``journeys.load(project)`` loads everything into a project.

    Raises
    ------
    InvalidRequest
        If a file, column or role does not exist, there are no touchpoints or no readable rows, identifiers of
        conversions are not unique, a flag is not a yes or no, the decimal mark or the encoding is unclear,
        ``currency`` is not a currency, ``aliases`` are blank, not text or lead back to themselves, or two
        tables of spend have different amounts of a node and day.

    Warns
    -----
    InputWarning
        If a file is the export of a known service; the message says how many rows count.
    InputWarning
        If no column of values is recognised among columns of numbers, an amount is below zero, a status tells
        of rows that are not paid, won or complete, or several users are in one cell.
    InputWarning
        If every touchpoint occurs more than once, rows of spend are in several files, or names of spend meet
        no node or several.
    InputWarning
        If a column beside the days looks like their times, but cannot be read as such.
    InputWarning
        If names of nodes differ by case only.
    InputWarning
        If there are no conversions.
    RejectedRows
        If rows cannot be read; the message has their number and the first reason.
    InputWarning
        If rows of conversions without an id, or with ``aggregate=True``, repeat another one exactly; each
        counts.
    InputWarning
        If no conversion has a user of any touchpoint, all are before the first
        touchpoint, or users differ by case, blanks, leading zeros or a final .0 only.

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
    asked = Asked(event_type, currency, channels, conversion_page, spend, aliases, statuses or {})
    return read_tables(touchpoints, conversions, Reading.of(reading), asked, [])


@telling_readings()
def read_tables(
    touchpoints: FrameOrPath,
    conversions: FrameOrPath | Sequence[FrameOrPath] | None,
    reading: Reading,
    asked: Asked,
    tables: list[OwnTable],
) -> journey_tables.Journeys:
    """Read files as :func:`read_journeys` does, and add their tables to a list as they are opened."""
    reading = with_sheets(touchpoints, conversions, reading)
    (reference,) = journey_tables.references(asked.event_type).values()
    named, currency = reading.columns, journey_tables.checked_currency(asked.currency)
    asked, present_names = replace(asked, currency=currency), Aliases(asked.aliases)
    of_spend: dict[str, Any] = {
        "columns": named,
        "currency": currency,
        "formats": reading.formats("spend"),
        "ignore_case": reading.ignore_case,
        "aliases": present_names,
        "tables": tables,
    }
    with_spend = partial(_with_spend, asked.spend, of_spend)
    idle = [role for role in ("spend", "spend_node") if role in named and asked.spend is None]
    idle += ["flag"] if "flag" in named and conversions is not None else []
    if idle:
        warn(f"the reading names columns for {', '.join(idle)}, which no file has; they are not used")
    connection = scratch.open_database()
    single = own = mark = None
    if conversions is None and asked.conversion_page is None:
        single, own, mark = own_sources.alone(connection, touchpoints, reading)
    formats = reading.formats("touchpoints")
    touch_table = own.table if own else None
    touch_table = touch_table or OwnTable(
        connection, touchpoints, "touchpoints", formats, is_alone=conversions is None
    )
    tables.append(touch_table)
    if single is not None and own is None and single.format is touch_table.format is None:
        # A file may have a list of each.
        conversions = touchpoints if single.header != touch_table.header else None
    if single is not None and mark and conversions is None:
        divide(touch_table, single, mark)
        conversions, reading = touchpoints, replace(reading, columns={mark.role: mark.column, **named})
    if touch_table.format is not None and touch_table.format.reader == "read_matomo" and conversions is None:
        warn(touch_table.note)
        visits = exports.read_matomo(
            touchpoints,
            stitch=reading.stitch,
            currency=currency,
            channels=asked.channels,
            aliases=asked.aliases,
        )
        return with_spend(replace(visits, notes=(touch_table.note, *visits.notes), reading=reading))
    if own is not None:
        points, events, rejected = _read_orders(own, reading, asked)
    else:
        points, events, rejected = _read_both(touchpoints, conversions, reading, asked, tables, single)
    _create_conversions(connection, events, reference)
    groups = _groups_of(connection, points, events)
    connection.register("rejected", pa.Table.from_pandas(rejected, preserve_index=False))
    journey_tables.create_table(connection, "views", journey_tables.VIEWS, {}, "FROM visits WHERE false")
    # Orders, too, tell whose device it is.
    connection.execute(
        "CREATE TABLE sightings AS FROM seen UNION ALL SELECT device, account FROM conversions"
    )
    _join_people(connection)
    journeys = journey_tables.assemble(
        connection,
        "journeys",
        stitch=reading.stitch,
        currency=currency,
        channels=asked.channels,
        sightings="sightings",
        aliases=present_names,
    )
    table = tables[-1]
    notes = tuple(dict.fromkeys(each.note for each in tables if each.note))
    for note in notes:
        warn(note)
    used = {each.argument: each.columns for each in tables}
    if journeys.events.empty:
        warn(f"{table.name} has no conversions")
    else:
        _warn_of_conversions_without_users(table, events)
        _warn_of_doubts(connection, used)
    journeys = replace(journeys, columns=used, notes=(*notes, *journeys.notes), groups=groups)
    journeys = replace(with_spend(journeys), reading=reading_of(reading, tables))
    present_names.warn_of_unused()
    return journeys


def _read_both(
    touchpoints: FrameOrPath,
    conversions: FrameOrPath | Sequence[FrameOrPath] | None,
    reading: Reading,
    asked: Asked,
    tables: list[OwnTable],
    single: OwnTable | None,
) -> tuple[pa.Table, pa.Table, pd.DataFrame]:
    """Create the table ``visits``; return the touchpoints, the conversions and the rejected rows."""
    touch_table, connection = tables[0], tables[0].connection
    formats = reading.formats("conversions")
    if isinstance(conversions, list | tuple):
        conversions = checks.together(connection, conversions, encoding=formats.encoding)
    if conversions is None:
        formats = reading.formats("touchpoints")
    table = single or OwnTable(
        connection, touchpoints if conversions is None else conversions, "conversions", formats
    )
    tables.append(table)
    table.instants.beside, touch_table.instants.beside = touch_table.instants, table.instants
    if single is None and touch_table.header == table.header:
        # Other lists or parts of the same file are other rows.
        _check_same(touchpoints, conversions)
    points, rejected = _read_touchpoints(touch_table, table, reading.columns, conversions)
    has_own, views = conversions is not None, "page" in touch_table.columns
    events, rejected_conversions = read_conversions(table, reading, asked, has_own=has_own, has_views=views)
    if reading.ignore_case:
        points = own_paths.merge_case(points, name=touch_table.name)
    _create_visits(connection, points)
    if views:
        _say_visits(touch_table, points.num_rows)
    if has_own:
        # A single file for both has the same rejected rows.
        rejected = pd.concat([rejected, rejected_conversions], ignore_index=True).drop_duplicates()
        own = own_sources.OwnSource(table)
        if own.count and reading.order_sources:
            events, of_orders = _add_own_sources(own, events, reading)
            _create_visits(connection, of_orders, "own_visits")
            own_visits = "* EXCLUDE (is_campaign, leaf) REPLACE ('own ' || visit_key AS visit_key)"
            connection.execute(f"INSERT INTO visits BY NAME SELECT {own_visits} FROM own_visits")
        elif own.count:
            own.say("not used beside touchpoints; add it with reading=Reading(order_sources=True)")
    return points, events, rejected


def _read_orders(
    own: own_sources.OwnSource, reading: Reading, asked: Asked
) -> tuple[pa.Table, pa.Table, pd.DataFrame]:
    """Read orders alone, whose sources are the touchpoints, as :func:`_read_both` does."""
    table, named = own.table, reading.columns
    if "conversion_user" in named:
        named = {**named, "user": named["conversion_user"]}
    # Orders may have nobody.
    table.select["user"] = "CAST(NULL AS VARCHAR)"
    with nullcontext() if "user" in named else suppress(InvalidRequest):
        take_user(table, *user_columns((table, table), named)[1], optional=True)
    events, rejected = read_conversions(table, reading, asked, has_own=True, has_views=False)
    events, points = _add_own_sources(own, events, reading)
    _create_visits(table.connection, points)
    return points, events, rejected


def _add_own_sources(
    own: own_sources.OwnSource, events: pa.Table, reading: Reading
) -> tuple[pa.Table, pa.Table]:
    """Return the orders, and the touchpoints that they carry; an order of nobody has a user of its own."""
    connection = own.table.connection
    own.table.columns["own_source"] = own.columns
    own.say("the last touchpoint")
    connection.register("orders", events)
    nobody = f"{_person(events)} IS NULL AND row IN (SELECT row FROM ({own.of_rows('date')}))"
    user = f"CASE WHEN {nobody} THEN 'order ' || {_conversion_id(events)} ELSE \"user\" END"
    query = f'SELECT * REPLACE ({user} AS "user") FROM orders ORDER BY row'
    events = sql_results.read_arrow(connection, query)
    connection.register("orders", events)
    points = sql_results.read_arrow(connection, own.of_rows(occurred(events)))
    return events, own_paths.merge_case(points, name=own.table.name) if reading.ignore_case else points


def reading_of(reading: Reading, tables: Sequence[OwnTable]) -> Reading:
    """Return a reading with what the values of the tables decided."""
    columns: dict[str, Named] = {}
    ways: dict[str, dict[str, Any]] = {"dayfirst": {}, "decimal": {}}
    # Several files of spend may have different columns.
    several = sum(table.argument == "spend" for table in tables) > 1
    for table in tables:
        before = {"conversions": "conversion_", "spend": "spend_"}.get(table.argument, "")
        for role, column in _decided(table).items():
            called = f"{before}{role}" if f"{before}{role}" in OPTIONS else role
            if table.argument != "spend" or ("spend" in called and not several):
                columns[called] = column
        for name, way in _written(table).items():
            ways[name][table.argument] = way
    decided: dict[str, Any] = {
        name: found or None for name, found in ways.items() if getattr(reading, name) is None
    }
    return replace(reading, columns={**columns, **reading.columns}, **decided)


def _decided(table: OwnTable) -> dict[str, Named]:
    """Return the columns by role, apart from those that were made.

    Of known exports, which are recognised again, they are those that touchpoints would decide otherwise.
    """
    roles = OPTIONS if table.format is None else ("user", "device", "date")
    return {
        role: column
        for role, column in table.columns.items()
        if role in roles and {*names_of(column)} <= table.header
    }


def _written(table: OwnTable) -> dict[str, Any]:
    """Return what values show of how the columns in use are written: ``dayfirst`` and ``decimal``."""
    used = table.used()
    orders = {each.order for name, each in table.instants.read.items() if name in used and each.order}
    marks = {each.mark for name, each in table.amounts.read.items() if name in used and each.mark}
    ways: dict[str, Any] = {}
    if len(orders) == 1:
        ways["dayfirst"] = orders == {"dmy"}
    if len(marks) == 1:
        ways["decimal"] = marks.pop()
    return ways


def _read_touchpoints(
    table: OwnTable, of_conversions: OwnTable, named: Mapping[str, Named], conversions: object
) -> tuple[pa.Table, pd.DataFrame]:
    """Select the columns of both tables that tell people apart, and read the touchpoints."""
    node, date = split_ends(table) if not {"node", "date"} & {*named} else ([], [])
    if "node" not in named:
        split_pairs(table)
    of_touchpoints, of_others = user_columns((table, of_conversions), named)
    read_phones((table, of_conversions), (of_touchpoints[0], of_others[0]))
    if conversions is not None and not {"node", "value", "conversion"} & {*named}:
        checks.check_swapped(table, of_conversions)
    take_user(table, *of_touchpoints)
    take_user(of_conversions, *of_others, optional=conversions is not None)
    views = None if node else find_views(table, named)
    if views is None:
        take_node(table, node or find_node(table, named))
    else:
        take_views(table, *views)
    take_date(table, date or find_date(table, named))
    take_word(table, "touch", find_column(table, "touch", named, required=False))
    take_groups(table)
    take_zone(table)
    take_days(table, are_ends=False)
    if views is None and "node" not in named and not node:
        warn_of_unused(table)
    are_views = None if views is None else rows_of_kind(table, evidence.WORDS["view"]) or has_address(table)
    bought = checks.purchases_in(table, named) if conversions is None and views is None else None
    unseen = f"({checks.unseen_in(table)}) IS NOT TRUE"
    visits = are_views or (f"({bought}) IS NOT TRUE" if bought else "true")
    points, rejected = table.read(where=f"({visits}) AND {unseen}")
    checks.warn_of_copies(table)
    checks.check_rounded_ids(table)
    return points, rejected


def _with_spend(
    files: FrameOrPath | Sequence[FrameOrPath] | None,
    options: Mapping[str, Any],
    journeys: journey_tables.Journeys,
) -> journey_tables.Journeys:
    """Return the journeys with the spend in files, a frame or several, and their rejected rows."""
    if files is None:
        return journeys
    nodes = dict(zip(journeys.nodes["_id"], journeys.nodes["type"], strict=True))
    spend, rejected = own_spend.read_all(files, nodes, **options)
    rejected = pd.concat([journeys.rejected, rejected], ignore_index=True)
    return replace(journeys, spend=spend, rejected=rejected)


#: Rows of a preview.
_FIRST_ROWS: Final = 5


class Found(NamedTuple):
    """What is found in a file before it is read: its columns, those of each role, its first rows and choices.

    Attributes
    ----------
    statuses : dict of str to tuple
        Number of rows of each status of orders, and whether they count.
    has_sources : bool
        Whether orders carry their own source.
    """

    columns: tuple[str, ...]
    by_role: dict[str, list[str]]
    first: pd.DataFrame
    note: str
    statuses: dict[str, tuple[int, bool]]
    has_sources: bool


def find_columns(rows: object, file: File, roles: Collection[str], reading: Reading) -> Found:
    """Return what is found in a file or frame."""
    table = OwnTable(scratch.open_database(), rows, file, reading.formats(file))
    found: dict[str, list[str]] = {}
    for role in roles:
        if role == "node":
            found[role] = find_node(table, {}, required=False)
            if not found[role] and file == "touchpoints":
                found[role] = [column for column in [left_over(table)] if column is not None]
        elif role == "date":
            found[role] = find_date(table, {}, required=False)
        else:
            found[role] = [
                column for column in [find_column(table, role, {}, required=False)] if column is not None
            ]
    found["user"] = found.get("user") or table.emails()[:1]
    if found.get("device") == found.get("user"):
        # The only id of a table is that of its users.
        found.pop("device", None)
    first = table.connection.execute(f"SELECT * FROM {table.relation} LIMIT {_FIRST_ROWS}").df()
    found = {role: columns for role, columns in found.items() if columns}
    statuses, has_sources = {}, False
    if "conversion" in roles and table.format is None:
        read = rows_of.Rows(table.connection, table.source, [*chain(*found.values())])
        read.are_ends = rows_of.name_ends(found.get("date", []))
        statuses = read.choices()
        has_sources = own_sources.OwnSource(table).count > 0
    first = first[list(table.source.columns)]
    return Found(table.source.columns, found, first, table.note, statuses, has_sources)


def _check_same(touchpoints: object, conversions: object) -> None:
    """Refuse one table as both, since each touchpoint would be a conversion; sheets may differ."""
    if is_same(touchpoints, conversions) and workbook_of(touchpoints) is None:
        raise InvalidRequest(
            "conversions: the same as the touchpoints, so that each touchpoint would be a conversion; leave "
            "out conversions if a column of flags, such as converted, says which rows are some"
        )


def with_sheets(touchpoints: object, conversions: object, reading: Reading) -> Reading:
    """Return a reading with the sheets of one workbook that has both tables, and say them.

    Raises
    ------
    InvalidRequest
        If both are one sheet, since each touchpoint would be a conversion.
    """
    book = workbook_of(touchpoints)
    if book is None or not is_same(touchpoints, conversions):
        return reading
    sheets = written_files.sheet_columns(book)
    # A sheet of notes has no rows of data.
    names = [name for name, columns in sheets.items() if len(columns) > 1]
    if len(names) == 2 and reading.sheet is reading.conversion_sheet is None:
        roles = ("conversion", "value")
        bought = [sum(evidence.weight(r, c) > 0 for r in roles for c in sheets[name]) for name in names]
        if bought[0] != bought[1]:
            names.sort(key=dict(zip(names, bought, strict=True)).__getitem__)
            warn(f"{book.name}: the touchpoints are the sheet {names[0]!r}, the conversions {names[1]!r}")
            return replace(reading, sheet=names[0], conversion_sheet=names[1])
    first = next(iter(sheets))
    read = reading.sheet if reading.sheet is not None else first
    own = reading.conversion_sheet if reading.conversion_sheet is not None else first
    if len(sheets) > 1 and read == own:
        raise InvalidRequest(
            f"conversion_sheet: touchpoints and conversions are both the sheet {read!r} of "
            f"{book.name!r}; pass another one; sheets: {', '.join(sheets)}"
        )
    return reading


def _create_visits(connection: duckdb.DuckDBPyConnection, points: pa.Table, table: str = "visits") -> None:
    """Create the table ``visits``, or another one of its columns, from touchpoints."""
    connection.register("points", points)
    # Identical touchpoints are distinct visits.
    named = [field.name for field in fields(Traffic) if field.name in points.column_names]
    person = _person(points)
    order = f"row_number() OVER (PARTITION BY {person}, {', '.join(named)}, date ORDER BY row)"
    of_fields = ", ".join(f"coalesce({name}, '')" for name in named)
    key = f"'as ' || concat_ws(chr(31), {person}, {of_fields}, epoch_us(date), {order})"
    visit = "'id ' || touch" if "touch" in points.column_names else key
    columns = {"visit_key": visit, "account": '"user"', "started": "date", "ended": "date"}
    if "country" in points.column_names:
        # A project has codes of countries, not names.
        columns["country"] = "CASE WHEN regexp_full_match(country, '[A-Za-z]{2}') THEN upper(country) END"
    if "referrer" in points.column_names:
        columns["came_from"] = "referrer"
    if "landing" in points.column_names:
        columns |= {"page": "nullif(landing, '')", "referrer": "came_from"}
    journey_tables.create_table(connection, table, journey_tables.VISITS, columns, "FROM points")
    # A user may sign in during a visit.
    connection.execute(f"CREATE TABLE IF NOT EXISTS seen AS SELECT DISTINCT device, account FROM {table}")
    if "landing" in points.column_names:
        journey_tables.split_views(connection, table)
    elif "referrer" in points.column_names:
        journey_tables.resolve_sources(connection, table)


def _say_visits(table: OwnTable, views: int) -> None:
    """Say how many visits page views are."""
    count = table.connection.execute("SELECT count(*) FROM visits").fetchall()[0][0]
    name, more = (table.name, "") if table.format is None else (table.format.name, table.format.note)
    table.note = f"{name}: {counted(count, 'visits')} from {counted(views, 'page views')}{more}"


def _create_conversions(connection: duckdb.DuckDBPyConnection, events: pa.Table, reference: str) -> None:
    """Create the table ``conversions``."""
    connection.register("events", events)
    columns = {
        "source_id": _conversion_id(events),
        "kind": sources.literal(reference),
        "account": '"user"',
        "occurred": occurred(events),
        "amount": "value" if "value" in events.column_names else "NULL",
    }
    journey_tables.create_table(connection, "conversions", journey_tables.CONVERSIONS, columns, "FROM events")


def _conversion_id(events: pa.Table) -> str:
    """Return SQL for the id of a conversion: that of its file, else its person and date."""
    if "conversion" in events.column_names:
        return "conversion"
    person = _person(events)
    order = f"row_number() OVER (PARTITION BY {person}, date ORDER BY row)"
    return f"concat_ws(' ', {person}, strftime(date, '%Y-%m-%dT%H:%M:%S.%fZ'), nullif({order}, 1))"


def _groups_of(
    connection: duckdb.DuckDBPyConnection, points: pa.Table, events: pa.Table
) -> pd.DataFrame | None:
    """Return the groups of the conversions: their own, else those of their person's last touchpoint."""
    of_points, of_events = (
        [name for name in GROUPS if name in each.column_names] for each in (points, events)
    )
    if not of_points and not of_events:
        return None
    last = [f"arg_max({name}, (date, row)) AS last_{name}" for name in of_points]
    visitors = f"SELECT {', '.join([f'{_person(points)} AS visitor', *last])} FROM points GROUP BY 1"
    groups = {
        name: [*([name] if name in of_events else []), *([f"last_{name}"] if name in of_points else [])]
        for name in GROUPS
    }
    columns = [f"coalesce({', '.join(found)}) AS {name}" for name, found in groups.items() if found]
    return to_pandas(
        sql_results.read_arrow(
            connection,
            f"SELECT CAST({_conversion_id(events)} AS VARCHAR) AS event_id, {', '.join(columns)} FROM events "
            f"LEFT JOIN ({visitors}) ON visitor = {_person(events)}",
        )
    )


def _person(rows: pa.Table) -> str:
    """Return SQL for the user, or else the device."""
    return "coalesce(\"user\", 'device ' || device)" if "device" in rows.column_names else '"user"'


def _join_people(connection: duckdb.DuckDBPyConnection) -> None:
    """Make one user of those that stand in one cell, such as the contacts of a deal.

    Warns
    -----
    InputWarning
        With the number of conversions.
    """
    cells: list[tuple[str, set[str]]] = []
    for own, other in (("conversions", "visits"), ("visits", "conversions")):
        several = connection.execute(
            f"SELECT DISTINCT account FROM {own} ANTI JOIN {other} USING (account) "
            "WHERE regexp_matches(account, '[^;,|/&][;,|/&][^;,|/&]') ORDER BY account"
        ).fetchall()
        if several:
            known = {account for (account,) in connection.execute(f"SELECT account FROM {other}").fetchall()}
            cells += [(cell, known) for (cell,) in several]
    owner: dict[str, str] = {}

    def owner_of(person: str) -> str:
        while owner.setdefault(person, person) != person:
            person = owner[person]
        return person

    joined = []
    for cell, known in cells:
        people = [person.strip() for person in re.split("[;,|/&]", cell) if person.strip()]
        if not known.isdisjoint(people):
            joined.append(cell)
            for person in people:
                owner[owner_of(person)] = owner_of(people[0])
            owner[cell] = owner_of(people[0])
    if not joined:
        return
    names = pa.table({"person": [*owner], "one": [owner_of(person) for person in owner]})
    connection.register("owners", names)
    for table in ("visits", "conversions", "sightings"):
        connection.execute(f"UPDATE {table} SET account = one FROM owners WHERE account = person")
    count = len(joined)
    warn(
        f"{count:,} {'cell has' if count == 1 else 'cells have'} several users, such as {joined[0]!r}: the "
        "touchpoints of all of them lead to the conversion, and they count as one user"
    )


def _warn_of_conversions_without_users(table: OwnTable, events: pa.Table) -> None:
    """Warn of conversions without a user, which are unattributed."""
    people = [name for name in ("user", "device") if name in events.column_names]
    lost = events.filter(reduce(pc.and_, [pc.is_null(events[name]) for name in people]))
    if lost.num_rows:
        said = worth((row.get("currency"), row.get("value")) for row in lost.to_pylist())
        named = " and ".join(repr(table.columns.get(name, "any column")) for name in people)
        warn(
            f"{table.name} has {counted(lost.num_rows, 'conversions')} without a user in {named}{said} "
            f"which {'is' if lost.num_rows == 1 else 'are'} unattributed"
        )


def _warn_of_doubts(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, Mapping[str, Named]]
) -> None:
    """Warn of conversions that are all before the touchpoints, and of users without any."""
    person = "SELECT regexp_replace(owner, '^[a-z]+ ', '') AS user_id"
    conversions, touchpoints = (
        ibis.memtable(sql_results.read_arrow(connection, f"{person}, {instants}"))
        for instants in (
            "source_id AS event_id, occurred AS event_date FROM user_conversions",
            "visit_key AS event_id, started AS date FROM user_visits",
        )
    )
    # Orders alone have no other table.
    used = " and ".join(repr(of_kind.get("user", of_kind.get("device"))) for of_kind in columns.values())
    advice = (
        f"write users alike in {used}, or choose other columns "
        "with reading=Reading(columns={'user': COLUMN, 'conversion_user': COLUMN})"
    )
    for doubt in doubts_of(conversions, touchpoints, advice=advice):
        warn(doubt)
