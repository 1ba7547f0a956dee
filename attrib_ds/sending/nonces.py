"""Gives events nonces, by which a service keeps each of them once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds import instants
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import Refused
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

_MOST_SHOWN: Final = 5
_UNDATED: Final = "events: the row has neither nonce nor eventDate"


def check_nonce_columns(nonce_columns: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns that cannot make nonces; whether they are there is checked with the others.

    Raises
    ------
    InvalidRequest
        If they are no list of names, or there is a column of nonces too.
    """
    named = [] if isinstance(nonce_columns, str) else list(nonce_columns)
    if not named or not all(isinstance(name, str) and name for name in named):
        raise InvalidRequest(
            f"nonce_columns: {nonce_columns!r} is not allowed; allowed: a list of one or more columns",
            field="nonce_columns",
        )
    if "nonce" in columns:
        raise InvalidRequest(
            "nonce_columns: excludes the column 'nonce'; leave one of them out", field="nonce_columns"
        )


def nonces_of_columns(
    rows: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    nonce_columns: Sequence[str],
    labels: Sequence[Hashable],
) -> tuple[list[str | None], list[str | None]]:
    """Return a nonce per row, made of what its key columns hold, and what is wrong with it.

    A nonce depends on the event type and the text of the cells, in the order of the columns, and on nothing
    else: 17 and "17" are the same.

    Parameters
    ----------
    rows, events : sequence of mapping
        What the frame holds, and the events made of it.
    nonce_columns : sequence of str
        Columns of the frame.
    labels : sequence
        Of the rows, by which one row is told of the other.

    Returns
    -------
    tuple of list
        Nonces, None where a cell is missing; problems, None where there is none.
    """
    nonces: list[str | None] = []
    problems: list[str | None] = []
    first: dict[str, Hashable] = {}
    for row, event, label in zip(rows, events, labels, strict=True):
        cells = [_cell(row, name) for name in nonce_columns]
        missing = [name for name, cell in zip(nonce_columns, cells, strict=True) if cell is None]
        if missing:
            nonces.append(None)
            problems.append(f"nonce_columns: {', '.join(map(repr, missing))} is missing")
            continue
        text = json.dumps([str(event["event_type"]), *(_text(cell) for cell in cells)])
        nonce = hashlib.sha256(text.encode()).hexdigest()
        nonces.append(nonce)
        problems.append(f"nonce_columns: holds the key of row {first[nonce]!r}" if nonce in first else None)
        first.setdefault(nonce, label)
    return nonces, problems


def nonces_of_content(
    events: Sequence[Mapping[str, Any]],
) -> tuple[list[str | None], list[str | None]]:
    """Return a nonce per row that has none, made of its content, and what is wrong with it.

    Rows that are the same are events of their own: a frame of them can be sent again as a whole.

    Parameters
    ----------
    events : sequence of mapping
        The events.

    Returns
    -------
    tuple of list
        Nonces, None where there is no date or the row holds what no event can hold; problems, None where
        there is none.
    """
    nonces: list[str | None] = []
    problems: list[str | None] = []
    seen: Counter[str] = Counter()
    for event in events:
        if event["nonce"] is not None or event["event_date"] is None:
            nonces.append(event["nonce"])
            problems.append(_UNDATED if event["nonce"] is None else None)
            continue
        content = {**event, "event_date": _date_text(event["event_date"])}
        try:
            text = encode(dict(sorted(content.items())))
        except Refused as refusal:
            nonces.append(None)
            problems.append(f"events: a row {refusal.problem}")
            continue
        seen[text] += 1
        nonces.append(hashlib.sha256(f"{seen[text]} {text}".encode()).hexdigest())
        problems.append(None)
    return nonces, problems


def refuse(problems: Sequence[str | None], labels: Sequence[Hashable], *, by_columns: bool) -> None:
    """Refuse a frame whose rows could not be told apart in another run.

    Raises
    ------
    InvalidRequest
        If there is a problem; its ``details`` tell each, by the label of its row.
    """
    found = [
        {"row": label, "problem": problem}
        for label, problem in zip(labels, problems, strict=True)
        if problem is not None
    ]
    if not found:
        return
    if not by_columns:
        for each in found:
            if each["problem"] != _UNDATED:
                raise InvalidRequest(str(each["problem"]), field="events", details=found)
        raise InvalidRequest(
            f"events: {len(found):,} rows have neither nonce nor eventDate, so that sending them again "
            "would store them twice or not at all; give the column 'nonce', or 'eventDate'",
            field="events",
            details=found,
        )
    shown = [f"row {each['row']!r}: {str(each['problem']).partition(': ')[2]}" for each in found]
    more = [f"… ({len(found):,} rows in all; dry_run=True tells each)"] if len(found) > _MOST_SHOWN else []
    raise InvalidRequest(
        f"nonce_columns: nothing was sent, since rows have no key of their own: "
        f"{'; '.join([*shown[:_MOST_SHOWN], *more])}",
        field="nonce_columns",
        details=found,
    )


def _cell(row: Mapping[str, Any], name: str) -> Any:
    outer, dot, inner = name.partition(".")
    return row["data"].get(inner) if dot and outer == "data" else row.get(name)


def _text(cell: Any) -> str:
    if isinstance(cell, datetime | np.datetime64):
        return instants.format(instants.parse(cell, argument="nonce_columns"))
    if isinstance(cell, float) and cell.is_integer():
        # A column of whole numbers beside a fraction; another run may hold it without the fraction.
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def _date_text(value: Any) -> Any:
    try:
        return instants.format(instants.parse(value, argument="eventDate"))
    except InvalidRequest:
        return str(value)
