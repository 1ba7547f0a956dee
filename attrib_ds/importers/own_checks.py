"""Check conversions of users' files: lines of orders, values that are not known, statuses and pages."""

import re
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import contract, display, errors
from attrib_ds.importers import columns, formats, own_table
from attrib_ds.queries import page_views
from attrib_ds.records import sources, text_files

#: Names of numbers that are no amounts of money.
_NO_AMOUNT: Final = re.compile(
    r"^(?!.*incl?[^a-z]).*(id|ids|nr|no|number|code|zip|plz|phone|fax|quantity|qty|count|items|year|month|day|hour|lat|lon|sku|age"
    r"|vat|tax|shipping|discount|rate|percent|time|date|timestamp|ts|units)$"
)
#: Statuses of conversions that did not take place.
_FAILED: Final = (
    "void|fail|refunded|declin|cancel|expired|abandon|charge ?back|disputed|(^|[^a-z])lost|reversed|denied"
    "|unpaid|not paid|rejected|storn|erstattet|verloren"
)
#: Statuses of those that did; beside one of them, or a failed one, others are named too.
_TOOK_PLACE: Final = (
    "(partially )?paid|completed?|(closed ?)?won|success(ful)?|succeeded|fulfilled|shipped|delivered|ok|done"
    "|processing|captured|settled|approved|confirmed|accepted|active|true|yes|1|bezahlt|abgeschlossen"
    "|gewonnen|versandt|geliefert"
)
#: Numbers that a spreadsheet shows with an exponent.
_ROUNDED: Final = r"[0-9]([.,][0-9]+[eE][+]?|[eE][+])[0-9]{2}"
_NO_REFUND: Final = "[^1-9a-z]*|false|f|no?|nein|none|null|nan"
_AMOUNT: Final = r"[^\d\s]{0,3}\s?-?[\d., ]*\d\s?[^\d\s]{0,3}"


def views_of(table: own_table.OwnTable, page: str) -> str:
    """Return SQL for the rows that are the first view of a page in a visit."""
    contract.build(contract.OPERATIONS["page_conversions"], project_id="journeys", conversion_page=page)
    column = table.find("page", {}, required=False)
    if column is None:
        raise errors.InvalidRequest(
            f"conversion_page: {table.name} has no column of pages; columns: "
            f"{own_table.ten(table.source.columns)}"
        )
    word, row = table.source.word(column), sources.quoted(sources.ROW)
    path = page_views.page_of(
        word, lambda text, *rule: f"regexp_replace({text}, '{rule[0]}', '{rule[1]}', 'g')"
    )
    wanted = sources.literal(page_views.pattern_of(page))
    visit = formats.matching("" if table.format is None else table.format.visit, table.source.columns)
    group = ", ".join(map(sources.quoted, visit)) or row
    views = f"FROM {table.source.relation} WHERE regexp_matches({path}, {wanted})"
    rows = f"SELECT min({row}) {views} GROUP BY {group}"
    ((count,),) = table.connection.execute(f"SELECT count(*) FROM ({rows})").fetchall()
    kind = "visits with a view of" if visit else "views of"
    name, conversions = table.format or table, display.counted(count, "conversions")
    table.note = f"{name.name}: {conversions}, {kind} {page}"
    return f"{row} IN ({rows})"


#: Names, folded, of events that are conversions.
_PURCHASES: Final = (
    "purchase", "purchased", "ordercompleted", "ordercomplete", "completedorder", "orderplaced",
    "placedorder", "checkoutcompleted", "transaction",
)  # fmt: skip


def conversions_among(table: own_table.OwnTable) -> str:
    """Return SQL for the rows of page views that are purchases.

    Raises
    ------
    InvalidRequest
        If there are none; with the names of the events.
    """
    if (where := table.rows_of_kind(_PURCHASES)) is not None:
        return where
    kinds = list(filter(table.is_filled, table.with_names(columns.COMMON_NAMES["kind"])))
    names: list[str | None] = (
        [] if not kinds else table.scalar(f"list(DISTINCT {table.source.word(kinds[0])})")
    )
    listed = own_table.ten(sorted(filter(None, names)))
    seen = f"; names of events: {listed}" if listed else ""
    raise errors.InvalidRequest(
        f"conversions: {table.name} has page views and no event named purchase or order completed"
        f"{seen}; pass a table of conversions, the page that tells of one (conversion_page='/thank-you'), or "
        "the column of a flag with columns={'flag': COLUMN}"
    )


def numbered(table: own_table.OwnTable) -> list[str]:
    """Return a column ``Name`` whose values have digits, such as #1001: it has the ids of orders."""
    return [
        name
        for name in table.with_names(["name"])
        if table.scalar(f"coalesce(bool_and(regexp_matches({table.source.word(name)}, '[0-9]')), false)")
    ]


def warn_of_copies(table: own_table.OwnTable) -> None:
    """Warn if every row occurs more than once, as in a file that was exported or pasted twice."""
    rows = f"SELECT * EXCLUDE ({sources.quoted(sources.ROW)}) FROM {table.source.relation}"
    ((least, distinct, once),) = table.connection.execute(
        "SELECT min(n) FILTER (n > 1), count(*) FILTER (n > 1), count(*) FILTER (n = 1) FROM "
        f"(SELECT count(*) AS n FROM ({rows}) AS each GROUP BY hash(each))"
    ).fetchall()
    # Between the copies may be a header, and below them a total.
    if distinct > 2 and once <= min(2, distinct // 6):
        few = f" but {once}" if once else ""
        errors.warn(
            f"every row of {table.name}{few} occurs {least:,} times or more, and each counts. Leave out "
            "the copies"
        )


def warn_of_negative(table: own_table.OwnTable, events: pa.Table) -> None:
    """Warn of amounts below zero: refunds in rows of their own count as conversions, others are too high."""
    count = pc.sum(pc.less(events["value"], 0)).as_py() if "value" in events.column_names else 0
    if count and "refund" in table.columns:
        errors.warn(
            f"{table.name} has {display.counted(count, 'rows')} whose refunds ({table.columns['refund']}) "
            f"are above the amount ({table.columns['value']}), which is then below 0. Check both columns"
        )
    elif count:
        errors.warn(
            f"{table.name} has {display.counted(count, 'rows')} with an amount below 0 "
            f"({table.columns['value']}), and each counts as a conversion. If they are refunds, leave them "
            "out and pass them to the paths as adjustments"
        )


def warn_of_rounded_ids(table: own_table.OwnTable) -> None:
    """Warn of ids that a spreadsheet has rounded, such as 1.23E+12: several of them may be one."""
    for column in filter(None, map(table.columns.get, ("user", "device", "conversion", "touch"))):
        is_rounded = f"regexp_full_match({table.source.word(str(column))}, '{_ROUNDED}')"
        if count := table.scalar(f"count(*) FILTER ({is_rounded})"):
            errors.warn(
                f"{table.name} has {display.counted(count, 'rows')} with an id such as 1.23E+12 in "
                f"{column!r}: a spreadsheet has rounded it, so that different ids may be one. Export the "
                "file anew, or open it with that column as text"
            )


def warn_of_refunds(table: own_table.OwnTable) -> None:
    """Warn of amounts or flags of refunds that are not subtracted."""
    if "refund" in table.columns:
        return
    for column in table.with_names(columns.COMMON_NAMES["refund"]):
        refunded = f"NOT regexp_full_match(lower({table.source.word(column)}), '{_NO_REFUND}')"
        if count := table.scalar(f"count(*) FILTER ({refunded})"):
            advice = "Leave them out if they are no conversions"
            if _is_numeric(table, column):
                advice = f"If the value includes them, name them with columns={{'refund': {column!r}}}"
            errors.warn(
                f"{table.name} has {display.counted(count, 'rows')} with a refund in {column!r}, which is "
                f"not subtracted. {advice}"
            )


def check_swapped(touchpoints: own_table.OwnTable, conversions: own_table.OwnTable) -> None:
    """Refuse touchpoints that look like conversions beside conversions that look like touchpoints."""
    tables = (touchpoints, conversions)
    node, own = (table.find_node({}, required=False) for table in (conversions, touchpoints))
    ids, values = (
        [list(filter(table.is_filled, table.common(role)))[:1] for table in tables]
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


def leave_out_lines(table: own_table.OwnTable, value: str | None, conversion: str | None) -> None:
    """Leave out rows without an amount beside one of the same conversion with it: they are its lines."""
    if conversion is None or value is None:
        return
    identity, amount = table.source.word(conversion), table.source.word(value)
    is_line = f"{identity} IN (SELECT {identity} FROM {table.source.relation} WHERE {amount} IS NOT NULL)"
    query = f"FROM {table.source.relation} WHERE {amount} IS NOT NULL OR ({is_line}) IS NOT TRUE"
    ((count,),) = table.connection.execute(f"SELECT count(*) {query}").fetchall()
    if count < table.source.rows:
        conversions = display.counted(count, "conversions")
        table.note = (
            f"{table.name}: {conversions} from {table.source.rows:,} rows; those with an id of "
            f"another row ({conversion}) and no amount ({value}) are its lines"
        )
        relation = text_files.replace_table(table.connection, table.source.relation, f"SELECT * {query}")
        table.source = replace(table.source, relation=relation, rows=count)


def warn_of_amounts(table: own_table.OwnTable) -> None:
    """Warn if no column of values is known and columns of numbers are left."""
    used = {
        name for named in table.columns.values() for name in ([named] if isinstance(named, str) else named)
    }
    others = [
        name for name in table.source.columns if name not in used and not _NO_AMOUNT.match(name.casefold())
    ]
    left = [name for name in others if table.is_filled(name) and _is_numeric(table, name)]
    if left:
        errors.warn(
            f"no column of {table.name} is known as the value, so that conversions have none; columns of "
            f"numbers: {own_table.ten(left)}. Name the value with columns={{'value': {left[0]!r}}}"
        )


def _is_numeric(table: own_table.OwnTable, column: str) -> bool:
    return bool(table.scalar(f"bool_and(regexp_full_match({table.source.word(column)}, '{_AMOUNT}'))"))


def warn_of_statuses(table: own_table.OwnTable) -> None:
    """Warn of rows that no status calls paid, complete or won, and of several kinds of events.

    Those of known formats are left out.
    """
    kinds, statuses = (table.with_names(columns.COMMON_NAMES[role]) for role in ("kind", "status"))
    for column in [] if table.format is not None else [*statuses, *kinds]:
        word = f"regexp_replace(lower({table.source.word(column)}), '[_-]', ' ', 'g')"
        found = table.connection.execute(
            f"SELECT {word}, count(*), regexp_matches({word}, {sources.literal(_FAILED)}), "
            f"regexp_full_match({word}, {sources.literal(_TOOK_PLACE)}) FROM {table.source.relation} "
            f"WHERE {word} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
        ).fetchall()
        # A column of other words, such as the states of a country, has no statuses.
        is_known = any(failed or took_place for _, _, failed, took_place in found)
        counts = [(name, count) for name, count, failed, took_place in found if failed or not took_place]
        if column in kinds:
            is_known, counts = len(found) > 1, [(name, count) for name, count, *_ in found]
        if is_known and counts:
            errors.warn(
                f"{table.name} has rows whose {column} is "
                f"{own_table.ten([f'{name} ({count:,})' for name, count in counts])}, "
                "and they count as conversions. Leave them out of the file if they are none"
            )
