"""Read touchpoints and conversions from users' own files, whose columns are matched by common names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from itertools import chain, product
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
from attrib_ds.importers import exports, own_checks, own_paths, own_sources, own_spend, own_table
from attrib_ds.importers import journeys as journey_tables
from attrib_ds.importers.aliases import Aliases
from attrib_ds.importers.columns import COMMON_NAMES, GROUPS, OPTIONS, Named, folded
from attrib_ds.importers.content import evidence
from attrib_ds.importers.content import rows as rows_of
from attrib_ds.importers.reading import File, Reading, telling_readings
from attrib_ds.records import sources, written_files
from attrib_ds.records.frames import Frame, FrameOrPath, to_pandas
from attrib_ds.traffic.sources import Traffic

_DEVICES: Final = frozenset(map(folded, COMMON_NAMES["device"]))
#: A session is a user only if nothing else is known.
_SESSION: Final = "sessionid"
#: Advice for repeated rows.
_REPEATED: Final = (
    "; rows that occur twice because files overlap are to be dropped first, since aggregate=True adds them up"
)


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
        orders that carry their own source, such as UTM parameters: it is the last touchpoint of each.
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


@dataclass(frozen=True)
class Asked:
    """What is asked of files, whatever is in them: arguments of :func:`read_journeys`."""

    event_type: str = "conversion"
    currency: str | None = None
    channels: Frame | None = None
    conversion_page: str | None = None
    spend: FrameOrPath | Sequence[FrameOrPath] | None = None
    aliases: Mapping[str, str] | None = None
    statuses: Mapping[str, bool] = field(default_factory=dict)


@telling_readings()
def read_tables(
    touchpoints: FrameOrPath,
    conversions: FrameOrPath | Sequence[FrameOrPath] | None,
    reading: Reading,
    asked: Asked,
    tables: list[own_table.OwnTable],
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
    single = own = None
    if conversions is None and asked.conversion_page is None:
        single, own = own_sources.alone(connection, touchpoints, reading)
    formats = reading.formats("touchpoints")
    touch_table = own.table if own else None
    touch_table = touch_table or own_table.OwnTable(
        connection, touchpoints, "touchpoints", formats, is_alone=conversions is None
    )
    tables.append(touch_table)
    if single is not None and own is None and single.format is touch_table.format is None:
        # A file may have a list of each.
        conversions = touchpoints if single.header != touch_table.header else None
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
    tables: list[own_table.OwnTable],
    single: own_table.OwnTable | None,
) -> tuple[pa.Table, pa.Table, pd.DataFrame]:
    """Create the table ``visits``; return the touchpoints, the conversions and the rejected rows."""
    touch_table, connection = tables[0], tables[0].connection
    formats = reading.formats("conversions")
    if isinstance(conversions, list | tuple):
        conversions = own_checks.together(connection, conversions, encoding=formats.encoding)
    if conversions is None:
        formats = reading.formats("touchpoints")
    table = single or own_table.OwnTable(
        connection, touchpoints if conversions is None else conversions, "conversions", formats
    )
    tables.append(table)
    if touch_table.header == table.header:
        # Other lists of the same file are other rows.
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
        rejected = pd.concat([rejected, rejected_conversions], ignore_index=True)
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
    table.take_sql("user", "CAST(NULL AS VARCHAR)")
    with nullcontext() if "user" in named else suppress(InvalidRequest):
        table.take_user(*_user_columns((table, table), named)[1], optional=True)
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
    points = sql_results.read_arrow(connection, own.of_rows(_occurred(events)))
    return events, own_paths.merge_case(points, name=own.table.name) if reading.ignore_case else points


def reading_of(reading: Reading, tables: Sequence[own_table.OwnTable]) -> Reading:
    """Return a reading with what the values of the tables decided."""
    columns: dict[str, Named] = {}
    ways: dict[str, dict[str, Any]] = {"dayfirst": {}, "decimal": {}}
    # Several files of spend may have different columns.
    several = sum(table.argument == "spend" for table in tables) > 1
    for table in tables:
        before = {"conversions": "conversion_", "spend": "spend_"}.get(table.argument, "")
        for role, column in table.decided().items():
            called = f"{before}{role}" if f"{before}{role}" in OPTIONS else role
            if table.argument != "spend" or ("spend" in called and not several):
                columns[called] = column
        for name, way in table.written().items():
            ways[name][table.argument] = way
    decided: dict[str, Any] = {
        name: found or None for name, found in ways.items() if getattr(reading, name) is None
    }
    return replace(reading, columns={**columns, **reading.columns}, **decided)


def _read_touchpoints(
    table: own_table.OwnTable,
    of_conversions: own_table.OwnTable,
    named: Mapping[str, Named],
    conversions: object,
) -> tuple[pa.Table, pd.DataFrame]:
    """Select the columns of both tables that tell people apart, and read the touchpoints."""
    if "node" not in named:
        table.split_pairs()
    of_touchpoints, of_others = _user_columns((table, of_conversions), named)
    _read_phones((table, of_conversions), (of_touchpoints[0], of_others[0]))
    if conversions is not None and not {"node", "value", "conversion"} & {*named}:
        own_checks.check_swapped(table, of_conversions)
    table.take_user(*of_touchpoints)
    of_conversions.take_user(*of_others, optional=conversions is not None)
    views = table.find_views(named)
    if views is None:
        table.take_node(table.find_node(named))
    else:
        table.take_views(*views)
    table.take_date(table.find_date(named))
    table.take_word("touch", table.find("touch", named, required=False))
    table.take_groups()
    table.take_zone()
    if views is None and "node" not in named:
        table.warn_of_unused()
    are_views = None if views is None else table.rows_of_kind(evidence.WORDS["view"])
    bought = own_checks.purchases_in(table, named) if conversions is None and views is None else None
    points, rejected = table.read(where=are_views or (f"({bought}) IS NOT TRUE" if bought else "true"))
    own_checks.warn_of_copies(table)
    own_checks.check_rounded_ids(table)
    return points, rejected


@telling_readings()
def read_conversions(
    table: own_table.OwnTable, reading: Reading, asked: Asked, *, has_own: bool, has_views: bool
) -> tuple[pa.Table, pd.DataFrame]:
    """Return the conversions of a table, and the rejected rows."""
    where, is_among = _conversions_in(table, reading.columns, asked, has_own=has_own, has_views=has_views)
    return _read_conversions(
        table,
        reading.columns,
        where,
        has_own_table=has_own,
        is_among=is_among,
        currency=asked.currency,
        aggregate=reading.aggregate,
        statuses=asked.statuses,
    )


def _conversions_in(
    table: own_table.OwnTable, named: Mapping[str, Named], asked: Asked, *, has_own: bool, has_views: bool
) -> tuple[str, bool]:
    """Return SQL for the rows of a table that are conversions, and whether they are some of page views."""
    if asked.conversion_page is not None:
        return own_checks.views_of(table, asked.conversion_page), False
    if has_own:
        return "true", False
    if table.format is not None and table.format.visit:
        raise InvalidRequest(
            f"conversions: {table.name} has views of pages; pass the path of the page that tells "
            "of a conversion, such as conversion_page='/thank-you', or a table of conversions"
        )
    if (bought := own_checks.purchases_in(table, named)) is not None:
        return bought, True
    if has_views and not table.common("flag"):
        raise own_checks.without_purchases(table)
    if table.format is None:
        table.columns["flag"] = flag = str(table.find("flag", named))
        return table.flag(flag), False
    return "true", False


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
    table = own_table.OwnTable(scratch.open_database(), rows, file, reading.formats(file))
    found: dict[str, list[str]] = {}
    for role in roles:
        if role == "node":
            found[role] = table.find_node({}, required=False)
        elif role == "date":
            found[role] = table.find_date({}, required=False)
        else:
            found[role] = [column for column in [table.find(role, {}, required=False)] if column is not None]
    found["user"] = found.get("user") or table.emails()[:1]
    if found.get("device") == found.get("user"):
        # The only id of a table is that of its users.
        found.pop("device", None)
    first = table.connection.execute(f"SELECT * FROM {table.source.relation} LIMIT {_FIRST_ROWS}").df()
    found = {role: columns for role, columns in found.items() if columns}
    statuses, has_sources = {}, False
    if "conversion" in roles and table.format is None:
        statuses = rows_of.Rows(table.connection, table.source, [*chain(*found.values())]).choices()
        has_sources = own_sources.OwnSource(table).count > 0
    first = first[list(table.source.columns)]
    return Found(table.source.columns, found, first, table.note, statuses, has_sources)


def _user_columns(
    tables: tuple[own_table.OwnTable, own_table.OwnTable], named: Mapping[str, Named]
) -> list[tuple[str | None, str | None]]:
    """Return the columns of the user and of the device in both tables, preferring names that they share.

    The id of a device stands beside that of a user in at least one of the tables; otherwise it is the user.
    """
    called = ("user", "conversion_user")
    if {*called, "device"} & set(named):
        return _named_users(tables, named)
    users = [_filled(table, is_device=False) for table in tables]
    devices = [_filled(table, is_device=True) for table in tables]
    emails = [table.emails() for table in tables]
    chosen: list[tuple[str | None, str | None]]
    has_guests = all(emails) and any(
        table.has_guests(own[0], email[0])
        for table, own, email in zip(tables, users, emails, strict=True)
        if own
    )
    if all(emails) and (has_guests or not any(_shared(columns) for columns in (users, devices))):
        chosen = [(columns[0], None) for columns in emails]
    elif not any(user and device for user, device in zip(users, devices, strict=True)):
        chosen = [(column, None) for column in _preferred([_filled(table) for table in tables])]
    else:
        chosen = [
            (device, None) if user is None and not _shared(devices) else (user, device)
            for user, device in zip(_preferred(users), _preferred(devices), strict=True)
        ]
    share = _meeting(tables, [user or device for user, device in chosen]) if all(map(any, chosen)) else 0
    if share < _LEAST_SHARE:
        met = _people_by_values(tables)
        is_better = met is not None and (not share or _meeting(tables, met) > share + _LEAST_SHARE)
        chosen = [(column, None) for column in met or ()] if is_better else chosen
    # If one table has addresses and the other has nobody, the other one lacks them.
    for each in sorted(range(2), key=lambda each: bool(emails[each])):
        if not any(chosen[each]):
            column = next(iter(emails[each]), None) or tables[each].find("user", named, called=called[each])
            chosen[each] = (column, None)
    return chosen


#: Distinct people of the conversions that are looked for among the touchpoints.
_PEOPLE: Final = 2_000
#: Columns of a table in which people are looked for.
_MOST_COLUMNS: Final = 10
#: How much two columns must have in common, and more than any others.
_LEAST_SHARE, _MARGIN = 0.2, 0.05


def _meeting(tables: tuple[own_table.OwnTable, own_table.OwnTable], columns: Sequence[str | None]) -> float:
    """Return the share of the people in a column of the conversions who are in one of the touchpoints."""
    pair = [(table, str(column)) for table, column in zip(tables, columns, strict=True)]
    is_phone = _are_phones(tables, columns)
    seen, own = ((table.identity(name, is_phone=is_phone), table.source.relation) for table, name in pair)
    people = "(SELECT {} AS person FROM {})".format
    query = (
        f"WITH known AS MATERIALIZED (SELECT DISTINCT person FROM {people(*own)} WHERE person IS NOT NULL "
        f"ORDER BY person LIMIT {_PEOPLE}) SELECT coalesce((SELECT count(DISTINCT person) FROM "
        f"{people(*seen)} SEMI JOIN known USING (person)) / (SELECT count(*) FROM known), 0)"
    )
    ((share,),) = tables[0].connection.execute(query).fetchall()
    return float(share)


def _are_phones(tables: Sequence[own_table.OwnTable], columns: Sequence[str | None]) -> bool:
    """Return whether two columns have numbers of telephones, in one of them written as such."""
    held = [table.profile.get(str(column)) for table, column in zip(tables, columns, strict=True)]
    return any(each is not None and each.holds("phone") for each in held) and all(
        each is not None and (each.holds("phone") or each.holds("float")) for each in held
    )


def _read_phones(tables: Sequence[own_table.OwnTable], columns: Sequence[str | None]) -> None:
    """Let two columns of numbers of telephones have the code of a country in each number."""
    if not _are_phones(tables, columns):
        return
    found = set().union(*(table.phones(str(name)) for table, name in zip(tables, columns, strict=True)))
    whole = {each.removeprefix("+") for each in found if each[:1] != "0"}
    at_home = {each.lstrip("0") for each in found if each[:1] != "+"}
    codes = sorted({each[:size] for each in whole for size in (1, 2, 3)})
    met = {code: [f"{code}{each}" for each in at_home if f"{code}{each}" in whole] for code in codes}
    best = max(codes, key=lambda code: len(met[code]), default="")
    with_code = met.get(best, [])
    for table, column in zip(tables, columns, strict=True):
        table.country_codes[str(column)] = (best if with_code else "", {*map(len, with_code)})


def people_in_common(tables: Sequence[own_table.OwnTable]) -> str:
    """Return in words how many people of the conversions are among those of the touchpoints."""
    people = [table.columns.get("user", table.columns.get("device")) for table in tables[:2]]
    if len(people) < 2 or not all(isinstance(column, str) for column in people):
        return ""
    share = _meeting((tables[0], tables[1]), [str(column) for column in people])
    return f"{share:.0%} of the people of the conversions have touchpoints"


def _people_by_values(tables: tuple[own_table.OwnTable, own_table.OwnTable]) -> tuple[str, str] | None:
    """Return the pair of columns whose values meet most; names decide between pairs that meet alike.

    Raises
    ------
    InvalidRequest
        If two pairs meet alike and no name tells which has the people.
    """
    pairs = []
    for first, second in product(*(table.people()[:_MOST_COLUMNS] for table in tables)):
        share = _meeting(tables, (first.name, second.name))
        if share >= _LEAST_SHARE:
            is_sure = first.holds("email") or first.holds("code")
            points = [max(0, evidence.weight("user", each.name)) for each in (first, second)]
            is_alike = evidence.words_of(first.name) == evidence.words_of(second.name)
            if not (is_sure or is_alike or any(points) or (first.holds("long") and second.holds("long"))):
                # Small numbers meet by chance.
                continue
            pairs.append((share + is_sure + sum(points) / 10, first.name, second.name))
    pairs.sort(reverse=True)
    if (
        len(pairs) > 1
        and pairs[0][0] - pairs[1][0] < _MARGIN
        and (pairs[0][0] < 1 + _MARGIN or _differ(tables, pairs))
    ):
        either = " or ".join(f"{first!r} with {second!r}" for _, first, second in pairs[:2])
        ways = " or ".join(
            f"columns={{'user': {first!r}, 'conversion_user': {second!r}}}" for _, first, second in pairs[:2]
        )
        raise InvalidRequest(
            f"touchpoints: the people may be those of {either}; say which with {ways}",
            field="user",
        )
    return pairs[0][1:] if pairs else None


def _differ(
    tables: tuple[own_table.OwnTable, own_table.OwnTable], pairs: Sequence[tuple[float, str, str]]
) -> bool:
    """Return whether the columns of the two best pairs have other people in some rows."""
    return any(
        table.scalar(f"bool_or({table.identity(first)} IS DISTINCT FROM {table.identity(second)})")
        for table, first, second in zip(tables, pairs[0][1:], pairs[1][1:], strict=True)
        if first != second and (pairs[0][1] == pairs[1][1] or pairs[0][2] == pairs[1][2])
    )


def _named_users(
    tables: tuple[own_table.OwnTable, own_table.OwnTable], named: Mapping[str, Named]
) -> list[tuple[str | None, str | None]]:
    device = named.get("device")
    if device is not None and not any(device in table.source.columns for table in tables):
        tables[0].find("device", named)
    of_conversions = {} if "user" not in named else {"user": named["user"]}
    if "conversion_user" in named:
        of_conversions["user"] = named["conversion_user"]
    chosen: list[tuple[str | None, str | None]] = []
    for table, names, role in zip(tables, (named, of_conversions), ("user", "conversion_user"), strict=True):
        own = device if isinstance(device, str) and device in table.source.columns else None
        user = table.find("user", names, required=own is None, called=role)
        chosen.append((None if user == device else user, own))
    return chosen


def _shared(columns: list[list[str]]) -> bool:
    """Return whether two tables have a column of the same name."""
    return bool({*map(folded, columns[0])} & {*map(folded, columns[1])})


def _filled(table: own_table.OwnTable, *, is_device: bool | None = None) -> list[str]:
    """Return the columns with values whose names are common for users, for devices, or for both."""
    if table.format is not None and "device" in table.format.roles:
        roles = ("user", "device") if is_device is None else ("device" if is_device else "user",)
        return [column for role in roles for column in table.common(role) if table.is_filled(column)]
    return [
        column
        for column in table.common("user")
        if is_device is None or (folded(column) != _SESSION and (folded(column) in _DEVICES) == is_device)
        if table.is_filled(column)
    ]


def _preferred(columns: list[list[str]]) -> list[str | None]:
    """Return a column for each table: the first name that both have, else the first of each."""
    first, second = ({folded(column): column for column in of_table} for of_table in columns)
    for name, column in first.items():
        if name in second:
            return [column, second[name]]
    return [next(iter(of_table), None) for of_table in columns]


def _check_same(touchpoints: object, conversions: object) -> None:
    """Refuse one table as both, since each touchpoint would be a conversion; sheets may differ."""
    if own_table.is_same(touchpoints, conversions) and own_table.workbook_of(touchpoints) is None:
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
    book = own_table.workbook_of(touchpoints)
    if book is None or not own_table.is_same(touchpoints, conversions):
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


def _read_conversions(
    table: own_table.OwnTable,
    named: Mapping[str, Named],
    where: str,
    *,
    has_own_table: bool,
    is_among: bool,
    currency: str | None,
    aggregate: bool,
    statuses: Mapping[str, bool] | None = None,
) -> tuple[pa.Table, pd.DataFrame]:
    called = "conversion_date" if has_own_table else "date"
    if "conversion_date" in named:
        named = {**named, "date": named["conversion_date"]}
    table.take_date(table.find_date(named, called=called))
    if has_own_table:
        table.take_zone()
        table.take_days()
    identity = None
    if has_own_table or is_among or "conversion" in named or table.format is not None:
        identity = table.find("conversion", named, required=False)
        if has_own_table and identity is None:
            own_checks.say_repeating(table)
    value = table.find_value(named, has_own_table=has_own_table)
    if has_own_table and identity is None and table.format is None:
        table.columns |= {} if value is None else {"value": value}
        identity = table.code_of_rows()
    if has_own_table and identity is not None and table.format is None and "conversion" not in named:
        identity = own_checks.shared_with_refunds(table, identity, value)
    table.take_word("conversion", identity)
    counted_rows = rows_of.Counted()
    if has_own_table and table.format is None:
        counted_rows = own_checks.count_rows(table, identity, value, statuses or {})
        where = " AND ".join([where, *(f"({gone}) IS NOT TRUE" for gone in counted_rows.left_out.values())])
    if has_own_table:
        if not counted_rows.kind:
            own_checks.leave_out_lines(table, value, identity)
        if value is None:
            own_checks.warn_of_amounts(table)
    quantity = table.find_quantity(named, value)
    unit = table.find_currency(named, value)
    table.know_currencies(unit, currency)
    if has_own_table and value is not None:
        table.find_minor_units(value, unit, currency)
    if value is not None and quantity is not None:
        table.take_product(value, quantity)
    else:
        table.take_number("value", value, optional_if="true")
    if value is not None:
        table.take_rest(value)
        table.take_less(named)
    if counted_rows.kind:
        table.take_sql("kind", counted_rows.kind)
    if identity is not None and has_own_table and table.format is None:
        table.take_references(identity)
    table.take_currency(unit, currency)
    own_checks.check_rounded_ids(table)
    if has_own_table and not {"date", "conversion_date"} & {*named}:
        table.say_other_dates()
    table.take_groups()
    events, rejected = table.read(where=where, may_be_empty=True)
    if "value" in events.column_names:
        events = own_checks.net_of_refunds(table, events, adds_up=aggregate)
    if has_own_table and table.format is None and not aggregate:
        events, aggregate = own_checks.once_each(table, events)
    own_checks.warn_of_negative(table, events)
    own_checks.warn_of_nothing(table, events)
    if aggregate:
        return _add_up(table, events, rejected, where)
    if "conversion" in events.column_names:
        duplicates = events.num_rows - pc.count_distinct(events["conversion"]).as_py()
        if duplicates:
            cells = events.drop_columns("row")
            is_repeated = cells.num_rows - cells.group_by(cells.column_names).aggregate([]).num_rows
            raise InvalidRequest(
                f"conversion: {table.name} has {counted(duplicates, 'rows')} more than distinct values of "
                f"{table.columns['conversion']!r}; aggregate the rows of a conversion with aggregate=True, "
                "or name the column with unique ids of conversions with columns={'conversion': COLUMN}"
                + (_REPEATED if is_repeated else ""),
                field="conversion",
            )
    else:
        _warn_of_repeated(table, where)
    return events, rejected


def _warn_of_repeated(table: own_table.OwnTable, where: str) -> None:
    """Warn of rows that repeat another one; without an id they may be two conversions or one read twice."""
    count = table.count_repeated(where)
    if count:
        warn(
            f"{table.name} has {counted(count, 'rows')} without an id that "
            f"{'repeats' if count == 1 else 'repeat'} another one exactly, and counts each of them. If rows "
            "were exported or pasted twice, drop them; otherwise name a column of ids with "
            "reading=Reading(columns={'conversion': COLUMN})",
        )


def _warn_of_totals(table: own_table.OwnTable) -> None:
    """Warn if all rows of each conversion have the same value, which may be that of the whole."""
    ((several, alike, example),) = table.connection.execute(
        "SELECT count(*), count(*) FILTER (least = most AND most <> 0), min(conversion) FROM "
        "(SELECT conversion, min(value) AS least, max(value) AS most FROM lines GROUP BY conversion "
        "HAVING count(*) > 1)"
    ).fetchall()
    value = str(table.columns["value"])
    if several == alike and several > (0 if "total" in folded(value) else 1):
        warn(
            f"in {table.name}, {value!r} is the same in all rows of each conversion, such as {example!r}, "
            "and is added up: if it is the total of the conversion, it counts several times. Name the column "
            "with the value of a row with reading=Reading(columns={'value': COLUMN}), or leave one row of "
            "each",
        )


def _add_up(
    table: own_table.OwnTable, events: pa.Table, rejected: pd.DataFrame, where: str
) -> tuple[pa.Table, pd.DataFrame]:
    """Return one row per conversion: the sum of the values of its rows, at the earliest date.

    A conversion of which a row was rejected is rejected as a whole, because its sum would be too small.
    """
    if "conversion" not in events.column_names:
        raise InvalidRequest(
            f"aggregate: {table.name} has no column that looks like the conversion; name the "
            "column with their ids with columns={'conversion': COLUMN}",
            field="conversion",
        )
    connection = table.connection
    connection.register("lines", events)
    if count := table.count_repeated(where):
        repeated = (
            "repeats another one exactly, which is" if count == 1 else "repeat others exactly, which are"
        )
        warn(
            f"{table.name} has {counted(count, 'rows')} that {repeated} added up too. Drop them if rows were "
            "exported or pasted twice"
        )
    names = [name for name in ("currency", "user", "device") if name in events.column_names]
    mixed = " OR ".join(f'count(DISTINCT "{name}") > 1' for name in names)
    broken = connection.execute(
        f"SELECT conversion FROM lines GROUP BY conversion HAVING {mixed} ORDER BY conversion LIMIT 1"
    ).fetchall()
    if broken:
        raise InvalidRequest(
            f"aggregate: the rows of conversion {broken[0][0]!r} are of several users or in several "
            "currencies; allowed: one of each",
            field="conversion",
        )
    if "value" in events.column_names:
        _warn_of_totals(table)
    word = table.source.word(str(table.columns["conversion"]))
    rows = ", ".join(map(str, rejected["row"].dropna() - table.source.first)) or "NULL"
    is_partial = (
        f"conversion IN (SELECT {word} FROM {table.source.relation} "
        f"WHERE {sources.quoted(sources.ROW)} IN ({rows}) AND {word} IS NOT NULL)"
    )
    columns = [
        f"min(row) AS row, arg_min(date, {_occurred(events)}) AS date, conversion",
        *(f'min("{name}") AS "{name}"' for name in [*names, *GROUPS] if name in events.column_names),
    ]
    columns += [f"arg_min(is_day, {_occurred(events)}) AS is_day"] if "is_day" in events.column_names else []
    columns += ["round(fsum(value), 6) AS value"] if "value" in events.column_names else []
    summed = sql_results.read_arrow(
        connection,
        f"SELECT {', '.join(columns)} FROM lines WHERE NOT {is_partial} GROUP BY conversion ORDER BY row",
    )
    left_out = sql_results.read_arrow(
        connection,
        f"SELECT {sources.literal(table.name)} AS file, row + {table.source.first} AS row, "
        "'another row of the conversion ' || conversion || ' cannot be read' AS reason "
        f"FROM lines WHERE {is_partial} ORDER BY row",
    )
    return summed, pd.concat([rejected, to_pandas(left_out)], ignore_index=True)


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


def _say_visits(table: own_table.OwnTable, views: int) -> None:
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
        "occurred": _occurred(events),
        "amount": "value" if "value" in events.column_names else "NULL",
    }
    journey_tables.create_table(connection, "conversions", journey_tables.CONVERSIONS, columns, "FROM events")


def _occurred(events: pa.Table) -> str:
    """Return SQL for instants of conversions: the end of a day, so that touchpoints of that day count."""
    if "is_day" not in events.column_names:
        return "date"
    is_day = "is_day AND date = date_trunc('day', date)"
    return f"CASE WHEN {is_day} THEN date + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND ELSE date END"


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
        "touchpoints of all of them lead to the conversion, and they count as one user",
    )


def _warn_of_conversions_without_users(table: own_table.OwnTable, events: pa.Table) -> None:
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
