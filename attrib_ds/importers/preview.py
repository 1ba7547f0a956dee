"""Shows how users' files are understood before anything is credited."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.importers import own_journeys, own_table
from attrib_ds.importers.columns import OPTIONS, names_of
from attrib_ds.importers.content import evidence
from attrib_ds.importers.reading import Reading
from attrib_ds.records.frames import TEXT, FrameOrPath

_COLUMNS: Final = ("file", "column", "role", "read_as", "evidence", "before", "after", "alternative")
#: Words for what a column holds that has no role.
_HELD: Final = {
    "instant": "dates", "moment": "dates", "email": "email addresses", "address": "web addresses",
    "currency": "currencies", "clock": "times of day", "code": "codes", "flag": "0 and 1",
    "amount": "numbers", "medium": "media", "source": "sources",
}  # fmt: skip
_AS: Final = {
    "user": "person", "device": "device", "node": "node", "touch": "id of the touchpoint",
    "conversion": "id of the conversion", "page": "page", "referrer": "referrer", "currency": "currency",
}  # fmt: skip
#: What shows the order of day and month in most countries only.
_WITH_DOTS: Final = "written with dots"
_SHOWN: Final = 3
_READING: Final = re.compile(r"Reading\([^)]*\)")


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
    tables: list[own_table.OwnTable] = []
    chosen = Reading.of(reading)
    asked = own_journeys.Asked(spend=spend, currency=currency, conversion_page=conversion_page)
    doubts: list[str] = []
    try:
        own_journeys.read_tables(touchpoints, conversions, chosen, asked, tables)
    except InvalidRequest as error:
        if len(tables) < (1 if conversions is None else 2):
            raise
        doubts = [error.message, *_doubts_of_conversions(tables, chosen, asked, conversions is not None)]
    shared = own_journeys.people_in_common(tables)
    rows = [
        _row(tables, table, column, chosen.columns, shared)
        for table in tables
        for column in table.source.columns
    ]
    unclear = [_doubt(tables, doubt) for doubt in dict.fromkeys(doubts)]
    asked_about = {(row.get("file"), row.get("column")) for row in unclear}
    rows = [row for row in rows if (row["file"], row["column"]) not in asked_about] + unclear
    frame = pd.DataFrame(rows, columns=list(_COLUMNS), dtype=TEXT).fillna("")
    frame.attrs["reading"] = own_journeys.reading_of(chosen, tables)
    return frame


def _doubts_of_conversions(
    tables: Sequence[own_table.OwnTable], chosen: Reading, asked: own_journeys.Asked, has_own: bool
) -> list[str]:
    """Look at conversions that were not reached, and return what is not clear in them."""
    if not has_own or "date" in tables[1].columns:
        return []
    try:
        own_journeys.read_conversions(tables[1], chosen, asked, has_own=True, has_views=False)
    except InvalidRequest as error:
        return [error.message]
    return []


def _doubt(tables: Sequence[own_table.OwnTable], message: str) -> dict[str, str]:
    """Return the row of a question: its column, if the message names one, and the readings that answer it."""
    readings = list(dict.fromkeys(_READING.findall(message)))
    row = {"read_as": "not clear", "evidence": message, "alternative": " or ".join(readings)}
    for table in tables:
        for role, named in table.columns.items():
            for column in names_of(named):
                if table.name in message and f" {column} is not " in message:
                    if any("dayfirst" in each.written() for each in tables if each is not table):
                        # The other file is clear, and may have another order.
                        of_file = rf"dayfirst={{{table.argument!r}: \1}}"
                        row["alternative"] = re.sub(r"dayfirst=(\w+)", of_file, row["alternative"])
                    return row | {"file": table.name, "column": column, "role": role}
    return row


def _row(
    tables: Sequence[own_table.OwnTable],
    table: own_table.OwnTable,
    column: str,
    named: Mapping[str, Any],
    shared: str,
) -> dict[str, str]:
    roles = [role for role, of_role in table.columns.items() if column in names_of(of_role)]
    row = {"file": table.name, "column": column, "role": ", ".join(roles)}
    before, after = table.samples(column, roles, _SHOWN)
    row |= {"before": "; ".join(before), "after": "; ".join(after) if roles else ""}
    if not roles:
        held = next((words for kind, words in _HELD.items() if table.profile[column].holds(kind)), "text")
        return row | {"evidence": held if table.profile[column].filled else "empty"}
    read_as, _, proof = table.way_of(column, roles[0]).partition(": ")
    row |= {"read_as": read_as or _AS.get(roles[0], roles[0]), "evidence": proof}
    if roles[0] in {"user", "device"}:
        row["evidence"] = shared
    if table.format is not None:
        row["evidence"] = f"export of {table.format.name}"
    if any(column in names_of(named.get(each, ())) for each in (*roles, f"conversion_{roles[0]}")):
        row["evidence"] = "as chosen"
    return row | {"alternative": _alternative(tables, table, column, roles[0])}


def _alternative(
    tables: Sequence[own_table.OwnTable], table: own_table.OwnTable, column: str, role: str
) -> str:
    """Return the reading in which another column has a role, and that of the other file stays."""
    if role not in {"user", "date", "value", "conversion"} or table.format is not None:
        return ""
    if role == "date" and column != names_of(table.columns["date"])[0]:
        return ""
    if role == "date" and table.way_of(column, role).endswith(_WITH_DOTS):
        return f"Reading(dayfirst={{{table.argument!r}: False}})"
    candidates = [each.name for each in table.people()] if role == "user" else table.common(role)
    if role == "user":
        candidates = [name for name in candidates if evidence.weight("user", name) > 0]
    used = table.used()
    others = [
        name
        for name in candidates
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
