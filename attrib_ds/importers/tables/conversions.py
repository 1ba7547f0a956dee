"""The conversions of a table: its rows that count, less their refunds, one for each id."""

import re
from collections.abc import Mapping
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import sql_results
from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, warn
from attrib_ds.importers.columns import GROUPS, Named, folded
from attrib_ds.importers.content import evidence
from attrib_ds.importers.content import rows as rows_of
from attrib_ds.importers.reading import Asked, Reading, telling_readings
from attrib_ds.importers.tables import checks, refunds
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.dates import find_date, say_other_dates, take_date, take_days, take_zone
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import find_column, flag_sql, take_groups, take_word
from attrib_ds.importers.tables.values import find_value, take_currency, take_values
from attrib_ds.records import sources
from attrib_ds.records.frames import to_pandas

#: Codes of orders have a digit and are short.
_CODE: Final = re.compile(r"(?=.*\d)[^@]{1,24}")
_MOSTLY, _MOST_RIVALS = 0.9, 6
#: Advice for repeated rows.
_REPEATED: Final = (
    "; rows that occur twice because files overlap are to be dropped first, since aggregate=True adds them up"
)


@telling_readings()
def read_conversions(
    table: OwnTable, reading: Reading, asked: Asked, *, has_own: bool, has_views: bool
) -> tuple[pa.Table, pd.DataFrame]:
    """Return the conversions of a table, and the rejected rows."""
    named, table.adds_up = reading.columns, reading.aggregate
    where, is_among = _conversions_in(table, named, asked, has_own=has_own, has_views=has_views)
    by_content = has_own and table.format is None
    called = "conversion_date" if has_own else "date"
    if "conversion_date" in named:
        named = {**named, "date": named["conversion_date"]}
    take_date(table, find_date(table, named, called=called))
    if has_own:
        take_zone(table)
        take_days(table, are_ends=True)
    identity = None
    if has_own or is_among or "conversion" in named or table.format is not None:
        identity = find_column(table, "conversion", named, required=False)
        if has_own and identity is None:
            checks.say_repeating(table)
    value = find_value(table, named, has_own_table=has_own)
    if by_content and "conversion" not in named:
        table.columns |= {} if value is None else {"value": value}
        identity = code_of_rows(table, None if identity == value else identity)
    if by_content and identity is not None and "conversion" not in named:
        identity = refunds.shared_id(table, identity, value)
    take_word(table, "conversion", identity)
    counted_rows = rows_of.Counted()
    if by_content:
        counted_rows = checks.count_rows(table, identity, value, asked.statuses)
        where = " AND ".join([where, *(f"({gone}) IS NOT TRUE" for gone in counted_rows.left_out.values())])
    if has_own and not counted_rows.kind:
        checks.leave_out_lines(table, value, identity)
    if has_own and value is None:
        checks.warn_of_amounts(table)
    unit = take_values(table, named, value, asked.currency, may_be_minor=has_own)
    if (
        by_content
        and not counted_rows.kind
        and (count := table.scalar(f"count(*) FILTER ({table.given_back})"))
    ):
        table.say(f"{count:,} refunded in whole left out")
        where = f"({where}) AND NOT {table.given_back}"
    if counted_rows.kind:
        table.select["kind"] = counted_rows.kind
    if by_content and identity is not None:
        refunds.take_references(table, identity)
    take_currency(table, unit, asked.currency)
    checks.check_rounded_ids(table)
    if has_own and not {"date", "conversion_date"} & {*named}:
        say_other_dates(table)
    take_groups(table)
    events, rejected = table.read(where=where, may_be_empty=True)
    if "value" in events.column_names:
        events = refunds.net_of_refunds(table, events, adds_up=reading.aggregate)
    adds_up = reading.aggregate
    if by_content and not adds_up:
        events, adds_up = checks.once_each(table, events)
    checks.warn_of_negative(table, events)
    checks.warn_of_nothing(table, events)
    if adds_up:
        return _add_up(table, events, rejected, where)
    if "conversion" in events.column_names:
        _check_unique(table, events)
    else:
        _warn_of_repeated(table, where)
    return events, rejected


def _check_unique(table: OwnTable, events: pa.Table) -> None:
    """Refuse several rows of one conversion."""
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


def _conversions_in(
    table: OwnTable, named: Mapping[str, Named], asked: Asked, *, has_own: bool, has_views: bool
) -> tuple[str, bool]:
    """Return SQL for the rows of a table that are conversions, and whether they are some of page views."""
    if asked.conversion_page is not None:
        return checks.views_of(table, asked.conversion_page), False
    if has_own:
        return "true", False
    if table.format is not None and table.format.visit:
        raise InvalidRequest(
            f"conversions: {table.name} has views of pages; pass the path of the page that tells "
            "of a conversion, such as conversion_page='/thank-you', or a table of conversions"
        )
    if (bought := checks.purchases_in(table, named)) is not None:
        return bought, True
    if has_views and not candidates(table, "flag"):
        raise checks.without_purchases(table)
    if table.format is None:
        table.columns["flag"] = flag = str(find_column(table, "flag", named))
        return flag_sql(table, flag), False
    return "true", False


def _warn_of_repeated(table: OwnTable, where: str) -> None:
    """Warn of rows that repeat another one; without an id they may be two conversions or one read twice."""
    count = table.count_repeated(where)
    if count:
        warn(
            f"{table.name} has {counted(count, 'rows')} without an id that "
            f"{'repeats' if count == 1 else 'repeat'} another one exactly, and counts each of them. If rows "
            "were exported or pasted twice, drop them; otherwise name a column of ids with "
            "reading=Reading(columns={'conversion': COLUMN})"
        )


def _warn_of_totals(table: OwnTable) -> None:
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
            "each"
        )


def _add_up(
    table: OwnTable, events: pa.Table, rejected: pd.DataFrame, where: str
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
    word = table.word(str(table.columns["conversion"]))
    rows = ", ".join(map(str, rejected["row"].dropna() - table.source.first)) or "NULL"
    is_partial = (
        f"conversion IN (SELECT {word} FROM {table.relation} "
        f"WHERE {sources.quoted(sources.ROW)} IN ({rows}) AND {word} IS NOT NULL)"
    )
    columns = [
        f"min(row) AS row, arg_min(date, {occurred(events)}) AS date, conversion",
        *(f'min("{name}") AS "{name}"' for name in [*names, *GROUPS] if name in events.column_names),
    ]
    columns += [f"arg_min(is_day, {occurred(events)}) AS is_day"] if "is_day" in events.column_names else []
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


def code_of_rows(table: OwnTable, identity: str | None) -> str | None:
    """Return the column of ids, else the first one of codes that tell rows or instants apart or are like #17.

    Ids that only stand in the first line of each order give way to codes in all of its lines.
    """
    at, is_line = table.select["date"], "true"
    if identity is not None:
        if table.scalar(f"count({table.word(identity)}) = count(*)"):
            return identity
        own = table.word(identity)
        is_line = f"bool_and({{0}} IN (SELECT {{0}} FROM {table.relation} WHERE {own} IS NOT NULL))"
    found = [
        each.name
        for each in table.unused()
        if each.filled == each.rows > 1
        and each.may_be_id("email", "phone", "count", "moment", "flag")
        and all(evidence.weight(role, each.name) <= 0 for role in ("user", "quantity", "date"))
        and all(_CODE.fullmatch(value) for value in each.values if value)
    ]
    for name in found[:_MOST_RIVALS]:
        word = table.word(name)
        codes, pairs, instants = (f"count(DISTINCT {each})" for each in (word, f"({word}, {at})", at))
        tells = f"{codes} = {pairs} AND {instants} > 2 AND {instants} >= {_MOSTLY} * {codes}"
        numbered = f"bool_and(regexp_matches({word}, '^#[0-9]+$'))"
        is_code = f"count({word}) = count(*) AND ({numbered} OR {codes} = count(*) OR {tells})"
        if table.scalar(f"{is_code} AND {is_line.format(word)}"):
            return name
    return identity


def occurred(events: pa.Table) -> str:
    """Return SQL for instants of conversions: the end of a day, so that touchpoints of that day count."""
    if "is_day" not in events.column_names:
        return "date"
    is_day = "is_day AND date = date_trunc('day', date)"
    return f"CASE WHEN {is_day} THEN date + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND ELSE date END"
