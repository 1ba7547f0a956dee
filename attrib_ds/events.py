"""Events: sent, read, and their states and statistics updated, as DataFrames."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds import instants
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import Refused
from attrib_ds.errors import InvalidRequest
from attrib_ds.frames import to_pandas, to_record
from attrib_ds.sending import read_rows
from attrib_ds.together import send_together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from attrib_ds.project import Project

_ENVELOPE: Final = ("eventType", "eventDate", "trackerId", "nonce")


def send_events(
    project: Project, events: pd.DataFrame, *, event_type: str | None = None, wait: bool = True
) -> pd.DataFrame:
    """Send events, one per row.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    events : DataFrame
        ``eventType`` (reference of an event type), unless ``event_type`` is given; ``eventDate`` (datetime or
        str, without an offset it is UTC; by default the moment of reception); ``trackerId`` (of the browser,
        which links the event to its interactions); ``nonce``; and what the event holds, by the
        ``ingestionKey`` of its event type: ``data.email``, ``data.turnover``, ``data.turnover.amount``. A
        missing cell is a property that is not given. The service keeps one event per nonce, so that rows
        can be sent again; without the column, a nonce is made of what the row holds, for which it needs a
        date.
    event_type : str, optional
        Event type of all rows.
    wait : bool, default True
        Whether to wait until each event is processed, and learn what is wrong with it. Otherwise the service
        processes it later; :func:`attrib_ds.list_trashed_events` tells which were not valid.

    Returns
    -------
    DataFrame
        One row per row of ``events``, with its index: ``status``, ``id`` of the event, ``error`` (str).
        ``processed``: the event is there. ``accepted``: it will be processed. ``trashed``: it is not valid
        and was kept as such. ``rejected``: nothing was stored, or the nonce belongs to another event. Where
        the service fails half-way, rows are ``failed`` and those that were not sent ``unsent``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown, or a row has neither nonce nor date; nothing is sent then.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, send_events
    >>> email = {"type": "email", "entity": "user", "storageKey": "email"}
    >>> orders = pd.DataFrame(
    ...     {
    ...         "eventDate": ["2025-01-31T12:00:00Z", "2025-01-31T12:05:00Z"],
    ...         "nonce": ["order-1", "order-2"],
    ...         "data.email": ["anna@example.com", "nobody"],
    ...     }
    ... )
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order", fields=[email])
    ...     send_events(shop, orders, event_type="order")["status"].tolist()
    ['processed', 'trashed']
    """
    required = () if event_type is not None else ("eventType",)
    optional = [name for name in _ENVELOPE if name not in (required or ("eventType",))]
    rows = read_rows(events, required=required, optional=optional, objects=("data",), argument="events")
    sent = [_event(row, event_type) for row in rows]
    _add_nonces(sent)
    operation, status = ("create_event_sync", "processed") if wait else ("create_event", "accepted")

    def send(position: int) -> tuple[str, str, str | None]:
        try:
            answer = project.send(operation, **sent[position])
        except InvalidRequest as error:
            if error.details and "eventId" in error.details[0]:
                return "trashed", error.details[0]["eventId"], str(error)
            raise
        return status, str(answer.value), None

    # Rows of one nonce are sent in their order: the first of them is the event.
    return send_together(events.index, [each["nonce"] for each in sent], send)


def get_event(project: Project, id: str) -> pd.Series[Any]:
    """Get one computed event.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The event's ``_id``.

    Returns
    -------
    Series
        One entry per property, named by the id: ``userId``, ``eventDate``, ``eventType``, ``attributable``
        (whether its user has an eligible interaction in the 30 days before), ``event``, ``user`` and
        ``metrics`` (JSON text) and the rest.

    Raises
    ------
    NotFound
        If there is no such event, or it was trashed.

    Examples
    --------
    >>> import json
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, get_event, send_events
    >>> calls = pd.DataFrame({"eventDate": ["2025-01-31T12:00:00Z"]})
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="call", name="Call")
    ...     sent = send_events(shop, calls, event_type="call")
    ...     call = get_event(shop, sent["id"].item())
    >>> [metric["key"] for metric in json.loads(call["metrics"])]
    ['event-count']
    """
    return to_record(project.send("get_event", id=id).table)


def get_raw_event(project: Project, id: str) -> pd.Series[Any]:
    """Get one event exactly as it was sent.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The event's ``_id``; trashed events have one too.

    Returns
    -------
    Series
        ``_id``, ``projectId``, ``nonce``, ``eventType``, ``trackerId``, ``createdAt`` and ``data`` (JSON
        text).

    Raises
    ------
    NotFound
        If no such event was sent; events that were loaded were not.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, get_raw_event, send_events
    >>> calls = pd.DataFrame({"nonce": ["call-1"], "data.phone": ["06 12 34 56 78"]})
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     sent = send_events(shop, calls, event_type="call", wait=False)
    ...     get_raw_event(shop, sent["id"].item())["data"]
    '{"phone":"06 12 34 56 78"}'
    """
    return to_record(project.send("get_raw_event", id=id).table)


def list_trashed_events(
    project: Project,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the events that could not be processed, with what is wrong with them.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    since, until : datetime or str, optional
        Bounds of ``processingDate``, both inclusive; without an offset they are UTC.
    limit, offset : int, optional
        At most so many, and how many to skip; all by default.

    Returns
    -------
    DataFrame
        One row per event, the last processed first: ``_id``, ``projectId``, ``errors`` (JSON text: a list of
        ``type``, ``field`` and ``value``), ``eventTypeId``, ``eventTypeRef``, ``processingDate`` and
        ``rawEventDate``. ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import json
    >>> import pandas as pd
    >>> from attrib_ds import connect, list_trashed_events, send_events
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = send_events(shop, pd.DataFrame({"nonce": ["call-1"]}), event_type="unheard-of")
    ...     trashed = list_trashed_events(shop)
    >>> json.loads(trashed["errors"].item())[0]["type"]
    'unknown-event-type'
    """
    answer = project.send("list_trashed_events", since=since, until=until, limit=limit, offset=offset)
    frame = to_pandas(answer.table)
    frame.attrs["total"] = answer.total
    return frame


def update_states(project: Project, updates: pd.DataFrame) -> pd.DataFrame:
    """Set states of events, one per row.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    updates : DataFrame
        ``id`` (of the event), ``storageKey`` (of the state), ``value`` (0 or 1) and, where it is known,
        ``date`` (when the state changed; by default the moment of reception). Rows of one event are sent in
        their order: the last one counts, whatever its date.

    Returns
    -------
    DataFrame
        One row per row of ``updates``, with its index: ``status`` (``updated`` or ``rejected``), ``id`` of
        the event, ``error`` (str). Where the service fails half-way, rows are ``failed`` and those that were
        not sent ``unsent``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown; nothing is sent then.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, send_events, update_states
    >>> won = {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None}
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="lead", name="Lead", fields=[won])
    ...     leads = send_events(shop, pd.DataFrame({"nonce": ["lead-1"]}), event_type="lead")
    ...     reached = pd.DataFrame({"id": leads["id"], "storageKey": "won", "value": 1})
    ...     update_states(shop, reached)["status"].tolist()
    ['updated']
    """
    return _update(project, "update_event_state", updates)


def update_statistics(project: Project, updates: pd.DataFrame) -> pd.DataFrame:
    """Set statistics of events, one per row.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    updates : DataFrame
        ``id`` (of the event), ``storageKey`` (of the statistic), ``value`` (a number; an amount stays in its
        currency, and is in the project's currency where the event had none) and, where it is known, ``date``.
        Rows of one event are sent in their order.

    Returns
    -------
    DataFrame
        As for :func:`attrib_ds.update_states`.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown; nothing is sent then.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, send_events, update_statistics
    >>> turnover = {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True}
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="lead", name="Lead", fields=[turnover])
    ...     leads = send_events(shop, pd.DataFrame({"nonce": ["lead-1"]}), event_type="lead")
    ...     worth = pd.DataFrame({"id": leads["id"], "storageKey": "turnover", "value": 90.5})
    ...     update_statistics(shop, worth)["status"].tolist()
    ['updated']
    """
    return _update(project, "update_event_statistic", updates)


def _update(project: Project, operation: str, updates: pd.DataFrame) -> pd.DataFrame:
    rows = read_rows(updates, required=("id", "storageKey", "value"), optional=("date",), argument="updates")

    def send(position: int) -> tuple[str, str, str | None]:
        row = rows[position]
        asked = {"id": row.get("id"), "storage_key": row.get("storageKey"), "value": row.get("value")}
        answer = project.send(operation, **asked, date=row.get("date"))
        return "updated", to_record(answer.table)["eventId"], None

    return send_together(updates.index, [str(row.get("id")) for row in rows], send)


def _event(row: Mapping[str, Any], event_type: str | None) -> dict[str, Any]:
    return {
        "event_type": event_type if event_type is not None else row.get("eventType"),
        "event_date": row.get("eventDate"),
        "tracker_id": row.get("trackerId"),
        "nonce": row.get("nonce"),
        "data": _nested(row["data"]),
    }


def _nested(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object whose members are named by dotted names."""
    data: dict[str, Any] = {}
    for name, value in cells.items():
        *outer, last = name.split(".")
        holder: Any = data
        for part in outer:
            holder = holder.setdefault(part, {}) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or last in holder:
            raise InvalidRequest(
                f"events: the column 'data.{name}' and another one exclude each other in one row",
                field="events",
            )
        holder[last] = _value(value)
    return data


def _value(value: Any) -> Any:
    """Return what JSON can hold in place of a cell."""
    if isinstance(value, datetime | np.datetime64):
        return instants.format(instants.parse(value, argument="events"))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.ndarray):
        return [_value(each) for each in value.tolist()]
    return value


def _add_nonces(events: Sequence[dict[str, Any]]) -> None:
    """Give each event without a nonce one that is made of its content, so that a re-run sends it once."""
    seen: Counter[str] = Counter()
    undated = 0
    for event in events:
        if event["nonce"] is not None:
            continue
        if event["event_date"] is None:
            undated += 1
            continue
        content = {**event, "event_date": _date_text(event["event_date"])}
        try:
            text = encode(dict(sorted(content.items())))
        except Refused as refusal:
            raise InvalidRequest(f"events: a row {refusal.problem}", field="events") from None
        # Rows that are the same are events of their own: a frame of them can be sent again as a whole.
        seen[text] += 1
        event["nonce"] = hashlib.sha256(f"{seen[text]} {text}".encode()).hexdigest()
    if undated:
        raise InvalidRequest(
            f"events: {undated:,} rows have neither nonce nor eventDate, so that sending them again "
            "would store them twice or not at all; give the column 'nonce', or 'eventDate'",
            field="events",
        )


def _date_text(value: Any) -> Any:
    try:
        return instants.format(instants.parse(value, argument="eventDate"))
    except InvalidRequest:
        return str(value)
