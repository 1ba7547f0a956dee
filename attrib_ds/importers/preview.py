"""Shows how users' files are understood before anything is credited."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers import own_journeys
from attrib_ds.importers.columns import OPTIONS, names_of
from attrib_ds.importers.content import evidence
from attrib_ds.importers.reading import Asked, Reading
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.nodes import level_of
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.table import ten
from attrib_ds.importers.tables.users import people_in_common
from attrib_ds.records.frames import TEXT, FrameOrPath

_COLUMNS: Final = ("file", "column", "role", "read_as", "evidence", "before", "after", "alternative")
#: Words for what a column holds that has no role.
_HELD: Final = {
    "instant": "dates", "moment": "dates", "email": "email addresses", "address": "web addresses",
    "currency": "currencies", "clock": "times of day", "code": "codes", "flag": "0 and 1",
    "amount": "numbers", "medium": "media", "source": "sources",
}  # fmt: skip
_AS: Final = {"user": "person", "touch": "id of the touchpoint", "conversion": "id of the conversion"}
#: What shows the order of day and month in most countries only.
_WITH_DOTS: Final = "written with dots"
_SHOWN: Final = 3
_READING: Final = re.compile(r"Reading\((?:'[^']*'|\"[^\"]*\"|[^()'\"])*\)")
#: Kinds of values of the columns that may have a role, and questions that are asked at once.
_FITTING: Final = {"date": ("instant", "moment"), "value": ("amount",), "spend": ("amount",)}
_MOST_DOUBTS: Final = 6


def preview_files(
    touchpoints: FrameOrPath,
    conversions: FrameOrPath | Sequence[FrameOrPath] | None = None,
    *,
    spend: FrameOrPath | Sequence[FrameOrPath] | None = None,
    reading: Reading | None = None,
    currency: str | None = None,
    conversion_page: str | None = None,
) -> pd.DataFrame:
    """Show how files are read: what each column is, how it is written, and why.

    Parameters
    ----------
    touchpoints, conversions, spend, reading, currency, conversion_page
        As for :func:`attrib_ds.read_journeys`.

    Returns
    -------
    DataFrame
        One row per column of the files, in their order: ``file``, ``column``, ``role`` (empty for columns
        that are not used), ``read_as``, ``evidence`` (what shows it), ``before`` and ``after`` (up to three
        values as they stand in the file and as they are read), ``alternative`` (what else it may be, as the
        :class:`Reading` that says so); all str. What is not clear has a row with the question as its
        ``evidence``. ``attrs["reading"]`` is the whole :class:`Reading`, which can be changed and used for
        other files of the same kind.

    Raises
    ------
    InvalidRequest
        If a file cannot be opened, or the reading names what no file has.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> clicks = pd.DataFrame({"Kunde": ["u", "v"], "Quelle": ["google", "bing"],
    ...                        "Datum": ["24/03/2025", "01/04/2025"]})
    >>> orders = pd.DataFrame({"Kunde": ["u"], "Bestelldatum": ["2025-04-03"], "Summe": ["1.020,00"]})
    >>> preview = at.preview_files(clicks, orders).set_index("column")
    >>> preview.loc["Datum", ["role", "read_as", "evidence"]].tolist()
    ['date', 'day first', '24/03/2025']
    >>> preview.loc["Summe", ["role", "read_as", "before", "after"]].tolist()
    ['value', 'decimal comma', '1.020,00', '1020.0']
    """
    chosen = Reading.of(reading)
    asked = Asked(spend=spend, currency=currency, conversion_page=conversion_page)
    assumed, found = chosen, chosen
    unclear: list[dict[str, str]] = []
    for number in range(_MOST_DOUBTS):
        tables: list[OwnTable] = []
        try:
            with warnings.catch_warnings():
                if number:
                    warnings.simplefilter("ignore")
                own_journeys.read_tables(touchpoints, conversions, assumed, asked, tables)
            doubt = None
        except InvalidRequest as error:
            if not unclear and len(tables) < (1 if conversions is None else 2):
                raise
            doubt = _doubt(tables, error)
        found = found if number else own_journeys.reading_of(chosen, tables)
        if doubt is None or doubt in unclear:
            break
        unclear.append(doubt)
        # The first answer is tried, so that the other columns and questions are shown as well.
        answered = _answered(assumed, doubt["alternative"])
        if answered is None:
            break
        assumed = answered
    shared = people_in_common(tables)
    guesses = {name for named in assumed.columns.values() for name in names_of(named)}
    guesses -= {name for named in chosen.columns.values() for name in names_of(named)}
    rows = [
        _row(tables, table, column, chosen.columns, shared, {} if column in guesses else table.columns)
        for table in tables
        for column in table.source.columns
    ]
    is_one = conversions is None
    rows = [row for row in rows if row["role"] or not (is_one and row["argument"] == "conversions")]
    asked_about = {(row.get("file"), row.get("column")) for row in unclear}
    rows = unclear + [row for row in rows if (row["file"], row["column"]) not in asked_about]
    said = {table.name: table.note.removeprefix(f"{table.name}: ") for table in tables if table.note}
    rows += [{"file": name, "read_as": "file", "evidence": note} for name, note in said.items()]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS), dtype=TEXT).fillna("")
    frame.attrs["reading"] = found
    return frame


def _answered(reading: Reading, alternatives: str) -> Reading | None:
    """Return a reading with the first of the alternatives of a question; None if it has none."""
    for text in _READING.findall(alternatives)[:1]:
        call = ast.parse(text, mode="eval").body
        answer = {each.arg: ast.literal_eval(each.value) for each in getattr(call, "keywords", [])}
        for name, way in answer.items():
            before = getattr(reading, name)
            answer[name] = {**before, **way} if isinstance(before, dict) and isinstance(way, dict) else way
        return replace(reading, **answer)
    return None


def _doubt(tables: Sequence[OwnTable], error: InvalidRequest) -> dict[str, str]:
    """Return the row of a question: its column, if the message names one, and the readings that answer it."""
    message = error.message
    row = {"read_as": "not clear", "evidence": message, "role": error.field or ""}
    named = [table for table in tables if table.name in message] or tables[-1:]
    table = next((each for each in named if f"{each.argument}:" in message), named[0])
    row["file"] = table.name
    columns = [
        name for name in table.source.columns if f" {name} is not " in message or f"{name!r}" in message
    ]
    if len(columns) == 1:
        row["column"] = columns[0]
        roles = [role for role, of_role in table.columns.items() if columns[0] in names_of(of_role)]
        row["role"] = next(iter(roles), row["role"])
    readings = [each for text in _READING.findall(message) for each in _filled(text, table)]
    row["alternative"] = " or ".join(dict.fromkeys(readings))
    # Another file may have another order.
    of_file = rf"dayfirst={{{table.argument!r}: \1}}"
    row["alternative"] = re.sub(r"dayfirst=(True|False)", of_file, row["alternative"])
    return row


def _filled(reading: str, table: OwnTable) -> list[str]:
    """Return a reading, or one for each column that may stand for its word COLUMN."""
    role = re.search(r"'(?:conversion_|spend_)?(\w+)': COLUMN", reading)
    if role is None:
        return [reading]
    kinds = _FITTING.get(role[1])
    fitting = [
        each.name
        for each in table.unused()
        if each.filled
        if (any(map(each.holds, kinds)) if kinds else each.may_be_id())
    ]
    fitting.sort(key=lambda name: -evidence.weight(role[1], name))
    return [reading.replace("COLUMN", repr(name), 1) for name in fitting[:_SHOWN] if "COLUMN" in reading]


def _row(
    tables: Sequence[OwnTable],
    table: OwnTable,
    column: str,
    named: Mapping[str, Any],
    shared: str,
    found: Mapping[str, Any],
) -> dict[str, str]:
    roles = [role for role, of_role in found.items() if column in names_of(of_role)]
    row = {
        "file": table.name, "argument": table.argument, "column": column, "role": ", ".join(roles),
    }  # fmt: skip
    before, after = table.samples(column, roles, _SHOWN)
    row |= {"before": "; ".join(before), "after": "; ".join(after) if roles else ""}
    if not roles and column in table.counted:
        return row | {"role": "status", "read_as": "which rows count", "evidence": table.counted[column]}
    if not roles:
        held = next((words for kind, words in _HELD.items() if table.profile[column].holds(kind)), "text")
        return row | {"evidence": held if table.profile[column].filled else "empty"}
    read_as, _, proof = _way_of(table, column, roles[0]).partition(": ")
    row |= {"read_as": read_as or _AS.get(roles[0], "text"), "evidence": proof}
    if roles[0] in {"user", "device"}:
        row["evidence"] = shared
    elif roles[0] in {"conversion", "touch", "node"} and not proof:
        row["evidence"] = counted(table.scalar(f"count(DISTINCT {table.word(column)})"), "different values")
    if table.format is not None:
        row["evidence"] = f"export of {table.format.name}"
    if any(column in names_of(named.get(each, ())) for each in (*roles, f"conversion_{roles[0]}")):
        row["evidence"] = "as chosen"
    return row | {"alternative": _alternative(tables, table, column, roles[0])}


def _alternative(tables: Sequence[OwnTable], table: OwnTable, column: str, role: str) -> str:
    """Return the reading in which another column has a role, and that of the other file stays."""
    if role not in {"user", "date", "value", "conversion"} or table.format is not None:
        return ""
    if role == "date" and column != names_of(table.columns["date"])[0]:
        return ""
    if role == "date" and _way_of(table, column, role).endswith(_WITH_DOTS):
        return f"Reading(dayfirst={{{table.argument!r}: False}})"
    found = (
        candidates(table, role)
        if role != "user"
        else [each.name for each in table.people.candidates() if evidence.weight("user", each.name) > 0]
    )
    used = table.used()
    others = [
        name
        for name in found
        if name not in used and table.is_filled(name) and not table.profile[name].holds("clock")
    ]
    if not others:
        return ""
    of_conversions = f"conversion_{role}"
    columns: dict[str, Any] = {role: others[0]}
    if of_conversions in OPTIONS and table.argument == "conversions":
        columns = {of_conversions: others[0]}
    elif of_conversions in OPTIONS and len(tables) > 1 and role in tables[1].columns:
        columns[of_conversions] = tables[1].columns[role]
    return f"Reading(columns={columns!r})"


def _way_of(table: OwnTable, column: str, role: str) -> str:
    """Return how a column with a role is written, and what shows it after a colon."""
    if role == "date":
        if table.profile[column].holds("clock"):
            return "time of day"
        if column in table.instants.read:
            return table.instants.read[column].said
        return "day" if table.types[column] == "DATE" else "instant"
    if role in {"value", "refund", "quantity", "spend"}:
        amounts = table.amounts.read.get(column)
        way, proof = "number", None
        if amounts is not None and amounts.mark is not None:
            way, proof = f"decimal {'comma' if amounts.mark == ',' else 'point'}", amounts.proof
        product = " × quantity" if role == "value" and "quantity" in table.columns else ""
        proofs = [proof, table.amounts.divided.get(column), *_currency_of(table, role)]
        return f"{way}{product}: {', '.join(filter(None, proofs))}"
    if role == "currency":
        return f"currency: {ten(table.values(column))}"
    if role == "node" and _levels_of(table, column):
        return f"{_levels_of(table, column)}: {ten(table.values(column))}"
    return ""


def _currency_of(table: OwnTable, role: str) -> list[str]:
    """Return the currency that the signs or the name of a column of amounts tell."""
    if role not in {"value", "spend"} or "currency" in table.columns or "currency" not in table.select:
        return []
    found = table.scalar(f"list(DISTINCT {table.select['currency']})") or []
    return [f"currency {ten(sorted(filter(None, found)))}"] if any(found) else []


def _levels_of(table: OwnTable, column: str) -> str | None:
    return table.levels.get(column) or level_of(column)
