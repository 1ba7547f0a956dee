"""Makes nonces, by which a service stores each event once however often it is sent."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds import instants
from attrib_ds.contract.json_values import Refused, encode
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

_MAX_SHOWN: Final = 5
_UNDATED: Final = "events: nonce or eventDate is required"


def check_nonce_columns(nonce_columns: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns that cannot make nonces; that they exist is checked with the other columns.

    Raises
    ------
    InvalidRequest
        If they are not a list of names, or there is a column of nonces too.
    """
    names = [] if isinstance(nonce_columns, str) else list(nonce_columns)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidRequest(
            f"nonce_columns: {nonce_columns!r} is not allowed; allowed: a list of one or more columns",
            field="nonce_columns",
        )
    if "nonce" in columns:
        raise InvalidRequest(
            "nonce_columns: cannot be combined with the column 'nonce'; leave one of them out",
            field="nonce_columns",
        )


def nonces_of_columns(
    rows: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    nonce_columns: Sequence[str],
    labels: Sequence[Hashable],
) -> tuple[list[str | None], list[str | None]]:
    """Return a nonce per row, made of its key columns, and the problem of each row.

    A nonce depends on the event type and on the cells as text, in the order of the columns: 17 and "17" are
    the same.

    Parameters
    ----------
    rows, events : sequence of mapping
        Rows of the frame, and the arguments of the events made of them.
    nonce_columns : sequence of str
        Columns of the frame.
    labels : sequence
        Label of each row, for messages.

    Returns
    -------
    tuple of list
        Nonces, None where a cell is missing; problems, None where there is none.
    """
    nonces: list[str | None] = []
    problems: list[str | None] = []
    owners: dict[str, Hashable] = {}
    for row, event, label in zip(rows, events, labels, strict=True):
        cells = [_cell(row, name) for name in nonce_columns]
        missing = [name for name, cell in zip(nonce_columns, cells, strict=True) if cell is None]
        if missing:
            nonces.append(None)
            problems.append(f"nonce_columns: {', '.join(map(repr, missing))} is required")
            continue
        key = json.dumps([str(event["event_type"]), *(_cell_text(cell) for cell in cells)])
        nonce = hashlib.sha256(key.encode()).hexdigest()
        nonces.append(nonce)
        problems.append(f"nonce_columns: duplicates row {owners[nonce]!r}" if nonce in owners else None)
        owners.setdefault(nonce, label)
    return nonces, problems


def nonces_of_content(
    events: Sequence[Mapping[str, Any]],
) -> tuple[list[str | None], list[str | None]]:
    """Return the nonce of each row, made of its content where it has none, and the problem of each row.

    Equal rows are different events: the first, the second and so on of their content. So a frame can be sent
    again, but only as a whole.

    Parameters
    ----------
    events : sequence of mapping
        Arguments of the events.

    Returns
    -------
    tuple of list
        Nonces, None where the date is missing or JSON cannot hold the row; problems, None where there is
        none.
    """
    nonces: list[str | None] = []
    problems: list[str | None] = []
    occurrences: Counter[str] = Counter()
    for event in events:
        if event["nonce"] is not None or event["event_date"] is None:
            nonces.append(event["nonce"])
            problems.append(_UNDATED if event["nonce"] is None else None)
            continue
        try:
            content = encode({**dict(sorted(event.items())), "event_date": _date_text(event["event_date"])})
        except Refused as refusal:
            nonces.append(None)
            problems.append(f"events: a row {refusal.problem}")
            continue
        occurrences[content] += 1
        nonces.append(hashlib.sha256(f"{occurrences[content]} {content}".encode()).hexdigest())
        problems.append(None)
    return nonces, problems


def refuse(problems: Sequence[str | None], labels: Sequence[Hashable], *, by_columns: bool) -> None:
    """Refuse a frame if another run could not recognise some of its rows.

    Raises
    ------
    InvalidRequest
        If there is a problem; ``details`` has the label and the problem of each row concerned.
    """
    details = [
        {"row": label, "problem": problem}
        for label, problem in zip(labels, problems, strict=True)
        if problem is not None
    ]
    if not details:
        return
    if not by_columns:
        for detail in details:
            if detail["problem"] != _UNDATED:
                raise InvalidRequest(str(detail["problem"]), field="events", details=details)
        raise InvalidRequest(
            f"{_UNDATED}; {len(details):,} rows have neither, so sending them again would store them "
            "twice or not at all",
            field="events",
            details=details,
        )
    shown = [
        f"row {detail['row']!r}: {str(detail['problem']).partition(': ')[2]}"
        for detail in details[:_MAX_SHOWN]
    ]
    more = [f"… ({len(details):,} rows in all; dry_run=True lists them)"] if len(details) > _MAX_SHOWN else []
    raise InvalidRequest(
        f"nonce_columns: must identify each row, so nothing was sent: {'; '.join([*shown, *more])}",
        field="nonce_columns",
        details=details,
    )


def _cell(row: Mapping[str, Any], name: str) -> Any:
    outer, dot, inner = name.partition(".")
    return row["data"].get(inner) if dot and outer == "data" else row.get(name)


def _cell_text(cell: Any) -> str:
    if isinstance(cell, datetime | np.datetime64):
        return instants.format(instants.parse_exact(cell, argument="nonce_columns"))
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def _date_text(value: Any) -> Any:
    try:
        return instants.format(instants.parse_exact(value, argument="eventDate"))
    except InvalidRequest:
        return str(value)
