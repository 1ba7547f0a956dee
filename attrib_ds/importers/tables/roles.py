"""The column of a role: the one that is named, else the best candidate."""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from attrib_ds import display, errors
from attrib_ds.importers.columns import COMMON_NAMES, GROUPS, Named, folded
from attrib_ds.importers.content import evidence, rows
from attrib_ds.importers.reading import SHEETS
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.table import ten
from attrib_ds.records import sources, written_files

#: Roles of required columns, by the argument of their file.
_REQUIRED: Final = {
    "touchpoints": ("user", "node part_of_node", "date"),
    "conversions": ("user", "date"),
    "paths": ("path", "conversions"),
    "spend": ("node part_of_node", "spend"),
}
#: How to write instants.
AS_TEXT: Final = "; write dates as '2025-01-31' or '2025-01-31T12:00:00Z'"
_HEADER_ROWS: Final = 20
#: Public files of paths write "conv" and "null".
_YES: Final = (*rows.YES, "conv")


def find_column(
    table: OwnTable,
    role: str,
    named: Mapping[str, Named],
    *,
    required: bool = True,
    called: str | None = None,
) -> str | None:
    """Return the column of a role: the one named, else the first with a common name.

    Messages advise to name the column as the role ``called``, if another one is only for this table.
    """
    called = called or role
    if (name := named.get(role)) is not None:
        return checked(table, role, name, called)
    column = table.best(candidates(table, role))
    if f"{column}.1" in table.source.columns:
        raise errors.InvalidRequest(
            f"{table.argument}: {table.name} has two columns {column!r} with other values; say which with "
            f"columns={{{called!r}: {column!r}}} or columns={{{called!r}: {f'{column}.1'!r}}}",
            field=role,
        )
    is_id = role in {"user", "conversion"}
    if is_id and column is not None and table.source.rows and not table.is_filled(column):
        column = None
    if column is None and required:
        raise errors.InvalidRequest(f"{table.argument}: {_missing(table, role, called)}", field=role)
    return column


def checked(table: OwnTable, role: str, name: Named, called: str) -> str:
    """Return the column that is named for a role, if the table has it."""
    if not isinstance(name, str):
        raise errors.InvalidRequest(f"{role}: {name!r} is not allowed; allowed: one column")
    if name not in table.source.columns:
        nearest = max(table.source.columns, key=lambda each: _likeness(each, [name]))
        advice = f"; {_how_to_name(called).replace('COLUMN', repr(nearest))}"
        raise errors.InvalidRequest(
            f"{role}: {table.name} has no column {name!r}{errors.closest(name, table.source.columns)}; "
            f"columns: {ten(sorted(table.source.columns, key=lambda each: -_likeness(each, [name])))}{advice}"
        )
    return name


def sums_of(table: OwnTable) -> list[str]:
    """Return the columns of sums of a table without people: by name, or with a row for each day and word."""
    named = table.with_names(COMMON_NAMES["sum"])
    if candidates(table, "user"):
        return []
    if named:
        return named
    filled = [each for each in table.profile.values() if each.filled]
    days = [each.name for each in filled if each.holds("instant")]
    amounts = [each for each in filled if each.holds("amount") and each.name not in days]
    words = [each.name for each in filled if each not in amounts and each.name not in days]
    # Ids of orders are numbers, too.
    sums = [
        each.name
        for each in amounts
        if evidence.weight("conversion", each.name) <= 0 or each.distinct < each.filled
    ]
    if len(days) != 1 or not words or len(sums) < 2 or len(sums) < len(amounts):
        return []
    at = table.instants.moment(days[0])
    row = ", ".join([at, *map(table.word, words)])
    count, rows, total = table.scalar(f"[count(DISTINCT {at}), count(DISTINCT ({row})), count(*)]")
    return sums if count > 1 and 3 * count <= 2 * rows == 2 * total else []


def _missing(table: OwnTable, role: str, called: str) -> str:
    """Describe why a table has no column for a role, and what to do about it."""
    sums = sums_of(table) if role == "user" else []
    columns = table.profile.values()
    dated = [each for each in columns if each.filled and evidence.weight("date", each.name) > 0]
    dated.sort(key=lambda each: (each.holds("amount"), -evidence.weight("date", each.name)))
    like = sorted(table.source.columns, key=lambda column: -_likeness(column, COMMON_NAMES[role]))
    problem = f"{table.name} has no column that looks like the {role}; columns: {ten(like)}"
    way = _how_to_name(called)
    if sums:
        problem = f"{table.name} is a summary: it has sums ({ten(sums)}) and no column of people"
        way = (
            "paths need one row per visit or contact, with an id of the person; export those, and pass a "
            f"summary with costs as the spend; if a column has people, {way}"
        )
    elif role == "date" and dated:
        example = display.printable(repr(table.values(dated[0].name)[0]))
        problem = f"{example} in the column {dated[0].name!r} of {table.name} cannot be read as a date"
        way = f"{AS_TEXT.removeprefix('; ')}, or {way}"
    elif role == "flag":
        is_orders = any(candidates(table, each) for each in ("conversion", "value"))
        source = "name the source of these orders with columns={'node': COLUMN}, " if is_orders else ""
        way = f"{source}pass the conversions in a file of their own, or {way}"
    if sheets := _other_sheets(table):
        return f"{problem}; {sheets}"
    if (header := _header_row(table)) is not None:
        way = f"row {header + table.source.first} looks like the header; begin the table with it"
    elif values := [name for name in table.source.columns if re.fullmatch(r"[\d.,:/T -]*\d", name)]:
        way = f"{values[0]!r} looks like a value; if the header is missing, add a row of names"
    return f"{problem}; {way}"


def _header_row(table: OwnTable) -> int | None:
    """Return the first of the first rows in which two cells are common names of columns."""
    words = ", ".join(map(table.word, table.source.columns))
    rows = table.connection.execute(
        f"SELECT {words} FROM {table.relation} ORDER BY {sources.quoted(sources.ROW)} LIMIT {_HEADER_ROWS}"
    ).fetchall()
    names = {folded(name) for of_role in COMMON_NAMES.values() for name in of_role}
    found = [len({folded(cell) for cell in row if cell} & names) > 1 for row in rows]
    return found.index(True) if True in found else None


def _other_sheets(table: OwnTable) -> str:
    """Return advice that names the sheets of a workbook with columns for all required roles."""
    if table.workbook is None or table.formats.sheet is not None:
        return ""
    called, roles = SHEETS[table.argument], _REQUIRED[table.argument]
    names = [{folded(name) for role in each.split() for name in COMMON_NAMES[role]} for each in roles]
    found = [
        sheet
        for sheet, columns in written_files.sheet_columns(table.workbook).items()
        if all(
            not of_role.isdisjoint(map(folded, columns))
            or any(evidence.weight(role, column) > 0 for role in each.split() for column in columns)
            for of_role, each in zip(names, roles, strict=True)
        )
    ]
    if not found:
        return ""
    listed = ", ".join(map(repr, found))
    sheets = f"the sheet {listed} has" if len(found) == 1 else f"the sheets {listed} have"
    chosen = f"{called}={found[0]!r}"
    return f"{sheets} columns that fit: pass {chosen}"


def rows_of_kind(table: OwnTable, words: Collection[str]) -> str | None:
    """Return SQL for the rows whose event has one of some names; None if no row has."""
    for column in filter(table.is_filled, table.with_names(COMMON_NAMES["kind"])):
        name = f"regexp_replace(lower({table.word(column)}), '[^a-z0-9]', '', 'g')"
        fits = f"{name} IN ({', '.join(map(sources.literal, words))})"
        if table.scalar(f"coalesce(bool_or({fits}), false)"):
            return f"({fits})"
    return None


def flag_sql(table: OwnTable, column: str) -> str:
    """Return SQL for a flag as BOOLEAN; blank and "null" are no.

    Raises
    ------
    InvalidRequest
        If a cell is not a yes or no.
    """
    if table.types[column] == "BOOLEAN":
        return f"coalesce({sources.quoted(column)}, false)"
    word = f"lower({table.word(column)})"
    yes, no = (", ".join(map(sources.literal, words)) for words in (_YES, rows.NO))
    other = table.scalar(f"min({word}) FILTER ({word} NOT IN ({yes}, {no}))")
    if other is not None:
        raise errors.InvalidRequest(
            f"flag: {other!r} in the column {column!r} of {table.name} is not a yes or no; allowed: "
            "yes and no, y and n, true and false, t and f, 1 and 0; name another column with "
            "columns={'flag': COLUMN}"
        )
    return f"coalesce({word} IN ({yes}), false)"


def take_word(table: OwnTable, role: str, column: str | None, *, optional: bool = False) -> None:
    """Select a column of text, which is required in every row unless it is optional."""
    if column is not None:
        table.source.require_exact(table.connection, column, table.argument)
        word = table.people.id_of(column) if role == "user" else table.word(column)
        if role == "user":
            table.people.warn_of_crowds(column)
        table.columns[role] = column
        table.select[role] = word
        if not optional:
            table.reject(f"{word} IS NULL", column, "is a placeholder")


def take_groups(table: OwnTable) -> None:
    """Select the columns that divide conversions into groups, unless they have another role."""
    named = table.used()
    for role in GROUPS:
        column = table.best([name for name in table.with_names(COMMON_NAMES[role]) if name not in named])
        if column is not None:
            table.select[role] = table.word(column)


def _likeness(column: str, names: Sequence[str]) -> float:
    return max(SequenceMatcher(None, folded(column), folded(name)).ratio() for name in names)


def _how_to_name(role: str) -> str:
    return f"name it with columns={{{role!r}: COLUMN}}"
