"""Check conversions of users' files: lines of orders, values that are not known, statuses and pages."""

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import contract, display, errors, sql_results
from attrib_ds.importers import columns, formats
from attrib_ds.importers.content import evidence, files, rows
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.dates import instant_of_changes
from attrib_ds.importers.tables.nodes import find_node
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.refunds import BELOW
from attrib_ds.importers.tables.roles import find_column, rows_of_kind
from attrib_ds.importers.tables.table import ten
from attrib_ds.importers.tables.values import NO_AMOUNT, refund_columns
from attrib_ds.queries import page_views
from attrib_ds.records import person_ids, sources
from attrib_ds.records.frames import FrameOrPath

_MOSTLY: Final = 0.9


def views_of(table: OwnTable, page: str) -> str:
    """Return SQL for the rows that are the first view of a page in a visit."""
    contract.build(contract.OPERATIONS["page_conversions"], project_id="journeys", conversion_page=page)
    column = find_column(table, "page", {}, required=False)
    if column is None:
        raise errors.InvalidRequest(
            f"conversion_page: {table.name} has no column of pages; columns: {ten(table.source.columns)}"
        )
    word, row = table.word(column), sources.quoted(sources.ROW)
    path = page_views.page_of(
        word, lambda text, *rule: f"regexp_replace({text}, '{rule[0]}', '{rule[1]}', 'g')"
    )
    wanted = sources.literal(page_views.pattern_of(page))
    visit = formats.matching("" if table.format is None else table.format.visit, table.source.columns)
    group = ", ".join(map(sources.quoted, visit)) or row
    views = f"FROM {table.relation} WHERE regexp_matches({path}, {wanted})"
    rows = f"SELECT min({row}) {views} GROUP BY {group}"
    ((count,),) = table.connection.execute(f"SELECT count(*) FROM ({rows})").fetchall()
    kind = "visits with a view of" if visit else "views of"
    name, conversions = table.format or table, display.counted(count, "conversions")
    table.note = f"{name.name}: {conversions}, {kind} {page}"
    return f"{row} IN ({rows})"


def purchases_in(table: OwnTable, named: Mapping[str, columns.Named]) -> str | None:
    """Return SQL for the rows that are events of purchases, unless a flag tells which are conversions."""
    return (
        None
        if "flag" in named or candidates(table, "flag")
        else rows_of_kind(table, evidence.WORDS["purchase"])
    )


def unseen_in(table: OwnTable) -> str:
    """Return SQL for the events of mails that nobody saw, such as sent beside clicked, and say them."""
    read = rows.Rows(table.connection, table.source, table.used())
    named = read.named("kind")
    for column in read.columns:
        if unseen := rows.unseen_of(read.few_words(column), is_named=column in named):
            table.say(f"events of mails that nobody saw left out: {', '.join(unseen)}")
            return f"{table.word(column)} IN ({', '.join(map(sources.literal, unseen))})"
    return "false"


def without_purchases(table: OwnTable) -> errors.InvalidRequest:
    """Return the error for page views without an event of a purchase, with the names of the events."""
    kinds = list(filter(table.is_filled, table.with_names(columns.COMMON_NAMES["kind"])))
    names: list[str | None] = [] if not kinds else table.scalar(f"list(DISTINCT {table.word(kinds[0])})")
    listed = ten(sorted(filter(None, names)))
    seen = f"; names of events: {listed}" if listed else ""
    return errors.InvalidRequest(
        f"conversions: {table.name} has page views and no event named purchase or order completed"
        f"{seen}; pass a table of conversions, the page that tells of one (conversion_page='/thank-you'), or "
        "the column of a flag with columns={'flag': COLUMN}"
    )


def say_repeating(table: OwnTable) -> None:
    """Say which columns that may have ids are not used, since their values repeat."""
    kept = candidates(table, "conversion")
    ids = table.with_names([*columns.COMMON_NAMES["conversion"], "opportunity_name", "deal_name"])
    names = [name for name in ids if name not in kept and table.is_filled(name)]
    if names:
        table.say(f"rows count without an id, as {ten(names)} repeats")


def warn_of_copies(table: OwnTable) -> None:
    """Warn if every row occurs more than once, as in a file that was exported or pasted twice."""
    rows = f"SELECT * EXCLUDE ({sources.quoted(sources.ROW)}) FROM {table.relation}"
    ((least, distinct, once),) = table.connection.execute(
        "SELECT min(n) FILTER (n > 1), count(*) FILTER (n > 1), count(*) FILTER (n = 1) FROM "
        f"(SELECT count(*) AS n FROM ({rows}) AS each GROUP BY hash(each))"
    ).fetchall()
    # One of the copies may have a few rows more.
    if distinct > 2 and once <= min(2, distinct // 6):
        few = f" but {once}" if once else ""
        errors.warn(
            f"every row of {table.name}{few} occurs {least:,} times or more, and each counts. Leave out "
            "the copies"
        )


def warn_of_negative(table: OwnTable, events: pa.Table) -> None:
    """Warn of refunds above the value of their row."""
    count = pc.sum(pc.less(events["value"], 0)).as_py() if "value" in events.column_names else 0
    if count:
        amount = f"{table.columns['value']} less {table.less}" if table.less else table.columns["value"]
        errors.warn(
            f"{table.name} has {display.counted(count, 'rows')} with an amount below 0 ({amount}), and each "
            "counts as a conversion. Check refunds above the value: they may be of several orders or in "
            "another currency"
        )


def warn_of_nothing(table: OwnTable, events: pa.Table) -> None:
    """Warn if nearly all conversions have no amount or one of zero."""
    if "value" not in events.column_names or not events.num_rows:
        return
    count = pc.sum(pc.equal(pc.fill_null(events["value"], 0), 0)).as_py()
    if count >= _MOSTLY * events.num_rows and not table.less:
        value = str(table.columns["value"])
        cells, _ = table.samples(value, ["value"], 3)
        shown = ", ".join(map(repr, cells)) or "no value"
        errors.warn(
            f"{count:,} of {display.counted(events.num_rows, 'conversions')} in {table.name} have no amount "
            f"or one of 0 in {value!r} ({shown}). If another column has the amounts, name it with "
            "reading=Reading(columns={'value': COLUMN})"
        )


def check_rounded_ids(table: OwnTable) -> None:
    """Warn of ids that a spreadsheet has rounded, such as 1.23E+12; refuse those beyond 2^53."""
    for column in filter(None, map(table.columns.get, ("user", "device", "conversion", "touch"))):
        word = table.word(str(column))
        is_rounded, is_lost = (
            f"regexp_matches({word}, '{pattern}')" for pattern in (person_ids.ROUNDED, person_ids.LOST)
        )
        if count := table.scalar(f"count(*) FILTER ({is_rounded})"):
            found = table.scalar(f"[min({word}) FILTER ({is_rounded}), min({word}) FILTER ({is_lost})]")
            person_ids.check_rounded(table.name, str(column), count, *found)


def together(
    connection: duckdb.DuckDBPyConnection, parts: Sequence[FrameOrPath], *, encoding: str | None
) -> pa.Table:
    """Return conversions of several files as one table: the latest state of each, rows of two files once."""
    selected = []
    for number, part in enumerate(parts):
        source, _ = files.opened(connection, part, argument="conversions", encoding=encoding)
        texts = [f"{source.text(name)} AS {sources.quoted(name)}" for name in source.columns]
        selected.append(f'SELECT {number} AS "#file", {", ".join(texts)} FROM {source.relation}')
    every = f'SELECT *, count(*) AS "#times" FROM ({" UNION ALL BY NAME ".join(selected)}) GROUP BY ALL'
    most = f'SELECT * EXCLUDE ("#file", "#times"), max("#times") AS "#times" FROM ({every}) GROUP BY ALL'
    query = (
        f'SELECT * EXCLUDE ("#times") FROM ({most}), LATERAL (SELECT unnest(range("#times"))) AS each(one)'
    )
    return sql_results.read_arrow(connection, f"SELECT * EXCLUDE (one) FROM ({query}) ORDER BY ALL")


def count_rows(
    table: OwnTable, identity: str | None, value: str | None, own: Mapping[str, bool]
) -> rows.Counted:
    """Return which rows of conversions count, and say it; states of one record become its latest."""
    counted = rows.Counted()
    refunds = refund_columns(table)
    used = [value or "", *(str(table.columns.get(role)) for role in ("conversion", "user", "device"))]
    read = rows.Rows(table.connection, table.source, used)
    read.are_ends = rows.name_ends(columns.names_of(table.columns["date"]))
    total = table.source.rows
    if identity is not None and value is not None:
        read.find_events(identity, value)
    read.by_kind(counted, has_values=value is not None)
    if counted.kind and refunds:
        given = f"regexp_matches({table.word(refunds[0])}, '[1-9]') AND ({counted.kind}) = 'sale'"
        if table.scalar(f"coalesce(bool_or({given}), false)"):
            counted.left_out[f"refunds, which {refunds[0]} has"] = f"({counted.kind}) = 'refund'"
    at = instant_of_changes(table)
    if identity is not None and (query := read.latest_states(identity, counted, refunds, at)) is not None:
        table.source = read.source = sources.selected(table.connection, table.source, query)
        if at:
            table.select["date"] = rows.FIRST
    read.columns = [name for name in read.columns if name not in counted.columns]
    if value is not None:
        counted.spared = _spared(table, value, refunds, counted.kind)
    read.flagged(counted)
    read.by_status(counted, own)
    gone = [f"({condition})" for condition in counted.left_out.values()]
    if gone or counted.others:
        kept = table.scalar(f"count(*) FILTER (({' OR '.join(gone or ['false'])}) IS NOT TRUE)")
        left = [
            f"{table.scalar(f'count(*) FILTER ({condition})'):,} {said} left out"
            for said, condition in counted.left_out.items()
        ]
        said = ", ".join([*left, *counted.others])
        table.counted = {
            column: ", ".join(
                word
                for word, where in zip(left, counted.left_out.values(), strict=True)
                if sources.quoted(column) in where
            )
            for column in counted.columns
        }
        table.say(f"{display.counted(kept, 'rows')} of {total:,}; {said}")
    return counted


def _spared(table: OwnTable, value: str, refunds: Sequence[str], kind: str) -> str:
    """Return SQL for rows that are refunds, and for those refunded in part."""
    amount = table.word(value)
    conditions = [f"regexp_matches({amount}, '{BELOW}')", *([f"({kind}) = 'refund'"] if kind else [])]
    for refunded in map(table.word, refunds[:1]):
        digits, whole = (rf"regexp_replace({each}, '[.,]00?\D*$|\D', '', 'g')" for each in (refunded, amount))
        conditions.append(f"regexp_matches({refunded}, '[1-9]') AND {digits} <> {whole}")
    return " OR ".join(f"({each})" for each in conditions)


def check_swapped(touchpoints: OwnTable, conversions: OwnTable) -> None:
    """Refuse touchpoints that look like conversions beside conversions that look like touchpoints."""
    tables = (touchpoints, conversions)
    node, own = (find_node(table, {}, required=False) for table in (conversions, touchpoints))
    ids, values = (
        [list(filter(table.is_filled, candidates(table, role)))[:1] for table in tables]
        for role in ("conversion", "value")
    )
    # Touchpoints may have ids of their own.
    marks = values[0] if own else ids[0] + values[0]
    if node and marks and not ids[1] + values[1]:
        raise errors.InvalidRequest(
            f"touchpoints: {touchpoints.name} looks like conversions ({', '.join(ids[0] + values[0])}), "
            f"and {conversions.name} like touchpoints ({', '.join(node)}); pass them the other way round, or "
            "name the columns with columns={'node': COLUMN}"
        )


def leave_out_lines(table: OwnTable, value: str | None, conversion: str | None) -> None:
    """Leave out rows without an amount beside one of the same conversion with it: they are its lines."""
    if conversion is None or value is None:
        return
    identity, amount = table.word(conversion), table.word(value)
    is_line = f"{identity} IN (SELECT {identity} FROM {table.relation} WHERE {amount} IS NOT NULL)"
    query = f"FROM {table.relation} WHERE {amount} IS NOT NULL OR ({is_line}) IS NOT TRUE"
    ((count,),) = table.connection.execute(f"SELECT count(*) {query}").fetchall()
    if count < table.source.rows:
        conversions = display.counted(count, "conversions")
        table.say(
            f"{conversions} from {display.counted(table.source.rows, 'rows')}; those with an id of "
            f"another row ({conversion}) and no amount ({value}) are its lines"
        )
        table.source = sources.selected(table.connection, table.source, f"SELECT * {query}")


def once_each(table: OwnTable, events: pa.Table) -> tuple[pa.Table, bool]:
    """Return conversions in one row each, and whether their rows are lines that are to be added up.

    Rows that are equal in all columns count once. Rows that agree in all that is read, and differ in a column
    of products or of their amounts, repeat the total of their conversion. Rows of one instant, person and
    currency with other amounts, and another product each, are its lines.
    """
    has_both = {"conversion", "value"} <= {*events.column_names}
    if not has_both or pc.count_distinct(events["conversion"]).as_py() == events.num_rows:
        return events, False
    table.connection.register("items", events)
    quoted = sources.quoted
    others = [each for each in table.unused() if each.filled]
    prices = [
        each.name
        for each in others
        if each.holds("amount") and (each.has_decimals or evidence.weight("value", each.name))
    ]
    products = [
        each.name
        for each in others
        if each.name not in prices
        and not table.counted.get(each.name)
        and not any(map(each.holds, ("instant", "flag", "currency")))
    ]
    words = "".join(f", {table.word(name)} AS {quoted(f'of {name}')}" for name in (*prices, *products))
    whole = ", ".join(map(table.source.text, table.source.columns))
    lines = f"SELECT {quoted(sources.ROW)} AS line, hash({whole}) AS whole{words} FROM {table.relation}"
    same = [name for name in ("user", "device", "currency") if name in events.column_names]
    apart = " OR ".join(f"count(DISTINCT {quoted(name)}) > 1" for name in same) or "false"
    have_prices, have_products = (
        " OR ".join(f"2 * count(*) FILTER ({quoted(f'n {name}')} > 1) > count(*)" for name in names)
        or "false"
        for names in (prices, products)
    )
    counts = "".join(
        f", count(DISTINCT {quoted(f'of {name}')}) AS {quoted(f'n {name}')}" for name in (*prices, *products)
    )
    ((several, alike, amounts, are_copies, prices_differ, products_differ, are_apart),) = (
        table.connection.execute(
            "SELECT count(*), count(*) FILTER (least = most), count(DISTINCT most), "
            f"coalesce(bool_and(rows = 1), false), {have_prices}, {have_products}, "
            "coalesce(bool_or(apart), false) FROM (SELECT min(value) AS least, max(value) AS most, "
            f"count(DISTINCT whole) AS rows, ({apart}) OR count(DISTINCT date) FILTER (value >= 0) > 1 AS "
            f"apart{counts} FROM items JOIN ({lines}) ON line = items.row WHERE conversion IS NOT NULL "
            "GROUP BY conversion HAVING count(*) > 1)"
        ).fetchall()
    )
    value = table.columns["value"]
    have_totals = prices_differ or (products_differ and amounts > 2 and 2 * amounts > several)
    # Rows with ids of their own are lines as soon as the amounts of one conversion differ.
    have_ids = any(each.name in products and each.distinct == each.rows for each in others)
    are_lines = products_differ and (alike < several if have_ids else 2 * alike < several)
    are_lines = are_lines or (have_ids and any(_has_prices(table, lines, name) for name in products))
    are_totals = alike == several and have_totals
    if not several or are_apart or not (are_copies or are_totals or are_lines):
        return events, False
    conversions = display.counted(pc.count_distinct(events["conversion"]).as_py(), "conversions")
    said = f"{display.counted(events.num_rows, 'rows')} of {conversions}"
    if not are_copies and not are_totals:
        pieces = [each.name for each in others if evidence.weight("quantity", each.name) > 0]
        if pieces and evidence.weight("price", str(value)) > 0 and "quantity" not in table.columns:
            raise errors.InvalidRequest(
                f"value: {value!r} of {table.name} may be the price of a line or of a piece, beside "
                f"{pieces[0]!r}; name both with columns={{'value': {value!r}, 'quantity': {pieces[0]!r}}}, "
                "or add up the prices with aggregate=True",
                field="quantity",
            )
        table.say(f"{said}, whose lines are added up: each {value} is of another product")
        return events, True
    table.say(f"{said}; the {value} of each counts once")
    kept = (
        "SELECT * FROM items QUALIFY conversion IS NULL OR row_number() OVER "
        "(PARTITION BY conversion ORDER BY row) = 1 ORDER BY row"
    )
    return sql_results.read_arrow(table.connection, kept), False


def _has_prices(table: OwnTable, lines: str, product: str) -> bool:
    """Return whether a product has one value, be it alone in its conversion or one of several rows."""
    name = sources.quoted(f"of {product}")
    rows = (
        f"SELECT {name} AS product, value, count(*) OVER (PARTITION BY conversion) > 1 AS is_one_of "
        f"FROM items JOIN ({lines}) ON line = items.row WHERE conversion IS NOT NULL AND value > 0"
    )
    groups = (
        f"SELECT count(DISTINCT value) AS n, bool_or(is_one_of) AND bool_or(NOT is_one_of) AS is_in_both "
        f"FROM ({rows}) GROUP BY product"
    )
    query = f"SELECT max(n) = 1 AND count(*) FILTER (is_in_both) > 0 AND count(*) > 1 FROM ({groups})"
    return bool(table.connection.execute(query).fetchall()[0][0])


def warn_of_amounts(table: OwnTable) -> None:
    """Warn if no column of values is known and columns of numbers are left."""
    left = [
        each.name
        for each in table.unused()
        if each.holds("amount") and not NO_AMOUNT.match(each.name.casefold())
    ]
    if left:
        errors.warn(
            f"no column of {table.name} was recognized as the value, so conversions have no value; "
            f"columns of numbers: {ten(left)}. Name the value with "
            f"reading=Reading(columns={{'value': {left[0]!r}}})"
        )
