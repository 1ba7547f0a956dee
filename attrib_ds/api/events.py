"""Events: sent, read, and their states and statistics updated, as DataFrames."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds import instants
from attrib_ds.contract import OPERATIONS, Request, build
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import AttribError, InvalidRequest, NotFound, NotSupported
from attrib_ds.records.frames import to_pandas, to_record
from attrib_ds.sending.delivery import Delivery
from attrib_ds.sending.nonces import check_nonce_columns, nonces_of_columns, nonces_of_content, refuse
from attrib_ds.sending.rows import read_rows, send_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from attrib_ds.project import Project
    from attrib_ds.sending.delivery import Earlier
    from attrib_ds.sending.journal import Outcome

#: Rows of one request; fewer than a service takes, so that the answer comes before anyone's patience ends.
_LARGEST_BATCH: Final = 500
#: What takes one row, by the function that takes a frame.
_UPDATES: Final = {"update_states": "update_event_state", "update_statistics": "update_event_statistic"}
_ENVELOPE: Final = ("eventType", "eventDate", "trackerId", "nonce")


def send_events(
    project: Project,
    events: pd.DataFrame,
    *,
    event_type: str | None = None,
    wait: bool = True,
    nonce_columns: Sequence[str] | None = None,
    dry_run: bool = False,
    journal: str | Path | None = None,
) -> pd.DataFrame:
    """Send events, one per row.

    Calling it again with the same rows stores nothing twice, since the service keeps one event per nonce:
    whatever ended a run, the same call with the whole frame sends the rest. A part of the frame must have
    nonces of its own for that (``nonce`` or ``nonce_columns``), since the default counts rows that are the
    same.

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
    nonce_columns : sequence of str, optional
        Columns that tell the rows of an event type apart, such as ``["data.orderId"]``; the nonce is a hash
        of them. A column that is named here and is no property of events is not sent.
    dry_run : bool, default False
        Whether to check the rows only, each against its event type too where the service can do that; nothing
        is stored, and a journal is neither read nor written.
    journal : str or Path, optional
        File that remembers each row before it is sent, and what became of it, so that another run with it
        sends only what is left and tells the same. An event that was on its way when a run ended is sent
        again, and kept once.

    Returns
    -------
    DataFrame
        One row per row of ``events``, with its index: ``status``, ``id`` of the event, ``error`` (str).
        ``processed``: the event is there. ``accepted``: it will be processed. ``trashed``: it is not valid
        and was kept as such. ``rejected``: nothing was stored, or the nonce belongs to another event. Where
        the service fails half-way, rows are ``failed`` and those that were not sent ``unsent``. In a dry run
        ``valid`` or ``rejected``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown, a row has neither nonce nor date, or ``nonce_columns`` are missing
        in a row or the same in two (``details`` tells of each row), or the journal is for something else;
        nothing is sent then.
    Unavailable
        If another run uses the journal.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

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
    return deliver_events(
        project,
        events,
        event_type=event_type,
        wait=wait,
        nonce_columns=nonce_columns,
        dry_run=dry_run,
        journal=journal,
    )


def deliver_events(
    project: Project,
    events: pd.DataFrame,
    *,
    event_type: str | None,
    wait: bool,
    nonce_columns: Sequence[str] | None,
    journal: str | Path | None,
    dry_run: bool = False,
    earlier: Earlier | None = None,
) -> pd.DataFrame:
    """Send events as :func:`send_events` does; of an earlier run only what failed."""
    sent, problems = _with_nonces(events, event_type, nonce_columns)
    delivery = Delivery(
        project=project,
        function="send_events",
        operation="create_event",
        index=events.index,
        arguments=sent.__getitem__,
        key=lambda event: [event.nonce],
        rows=sent,
        manner={
            "event_type": event_type,
            "wait": wait,
            "nonce_columns": None if nonce_columns is None else list(nonce_columns),
        },
        earlier=earlier,
    )
    if dry_run:
        return _check(delivery, sent, problems)
    refuse(problems, events.index.tolist(), by_columns=nonce_columns is not None)
    sender = _Sender(project, sent, wait=wait)
    # Accepted is no end where it was asked to wait for one.
    with delivery.begun(journal, asked_again=frozenset({"accepted"} if wait else ())) as run:
        try:
            return run.send(sender.send_batch, size=_LARGEST_BATCH)
        except _NoBatches:
            # Rows of one nonce are sent in their order: the first of them is the event.
            return run.send(sender.send_one, keys=[each["nonce"] for each in sent])


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


def validate_events(project: Project, events: pd.DataFrame, *, event_type: str | None = None) -> pd.DataFrame:
    """Check events, one per row, without storing any.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    events : DataFrame
        As for :func:`attrib_ds.send_events`; neither ``nonce`` nor ``eventDate`` is needed.
    event_type : str, optional
        Event type of all rows.

    Returns
    -------
    DataFrame
        One row per row of ``events``, with its index: ``status`` (``valid``; ``invalid``: sent, it would be
        trashed; ``rejected``: sent, nothing would be stored), ``error`` (str; the first thing that is wrong)
        and ``errors`` (JSON text: a list of ``type``, ``field`` and ``value``, as of a trashed event).

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, validate_events
    >>> email = {"type": "email", "entity": "user", "storageKey": "email"}
    >>> orders = pd.DataFrame({"data.email": ["anna@example.com", "nobody"]})
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order", fields=[email])
    ...     validate_events(shop, orders, event_type="order")["error"].tolist()
    [nan, 'data/email: invalid-field']
    """
    sent = _read_events(events, event_type)
    errors: list[str | None] = [None] * len(sent)

    def check(positions: Sequence[int]) -> list[Outcome]:
        (position,) = positions
        event = sent[position]
        nonce = event["nonce"] if event["nonce"] is not None else "none"
        found: Any = project.send("validate_event", **{**event, "nonce": nonce}).value
        errors[position] = encode(found)
        return [("invalid" if found else "valid", None, _first(found))]

    told = send_rows(events.index, check, keys=range(len(sent)))
    return told.assign(errors=pd.Series(errors, index=events.index, dtype="str")).drop(columns="id")


def replay_events(project: Project, ids: Sequence[str] | pd.Series[str]) -> pd.DataFrame:
    """Process trashed events again, as they were sent.

    They are checked against their event types as they are now, and keep their ids and dates.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    ids : sequence of str or Series
        ``_id`` of the trashed events, as in :func:`attrib_ds.list_trashed_events`.

    Returns
    -------
    DataFrame
        One row per id, with the index of a Series: ``status``, ``id``, ``error`` (str). ``processed``: the
        event is there, and in the trash no longer. ``trashed``: it is not valid now either. ``rejected``:
        there is no such trashed event.

    Raises
    ------
    ServiceFailure
        If the service fails before anything was processed.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import connect, create_event_type, list_trashed_events, replay_events, send_events
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = send_events(shop, pd.DataFrame({"nonce": ["call-1"]}), event_type="call")
    ...     _ = create_event_type(shop, reference="call", name="Call")
    ...     replay_events(shop, list_trashed_events(shop)["_id"])["status"].tolist()
    ['processed']
    """
    wanted = pd.Series(ids, dtype="object")
    listed = wanted.tolist()

    def send(positions: Sequence[int]) -> list[Outcome | AttribError]:
        try:
            return [("processed", str(project.send("replay_event", id=listed[positions[0]]).value), None)]
        except AttribError as error:
            return [_trashed(error) or error]

    return send_rows(wanted.index, send, keys=[str(each) for each in listed])


def update_states(
    project: Project, updates: pd.DataFrame, *, dry_run: bool = False, journal: str | Path | None = None
) -> pd.DataFrame:
    """Set states of events, one per row.

    Calling it again with the same rows sets the same values: whatever ended a run, the same call with the
    whole frame sends the rest.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    updates : DataFrame
        ``id`` (of the event), ``storageKey`` (of the state), ``value`` (0 or 1) and, where it is known,
        ``date`` (when the state changed; by default the moment of reception). Rows of one event are sent in
        their order: the last one counts, whatever its date.
    dry_run : bool, default False
        Whether to check the form of the rows only, and send nothing; whether there is such an event and
        such a state, the service alone knows. A journal is neither read nor written.
    journal : str or Path, optional
        File that remembers each row before it is sent, and what became of it, so that another run with it
        sends only what is left and tells the same. A row that was on its way when a run ended is sent
        again, which sets the same value; where it has no ``date``, that is the moment of the second time.
        A row is known by its event, key and date: for another value use another journal.

    Returns
    -------
    DataFrame
        One row per row of ``updates``, with its index: ``status`` (``updated`` or ``rejected``; in a dry run
        ``valid`` or ``rejected``), ``id`` of the event, ``error`` (str). Where the service fails half-way,
        rows are ``failed`` and those that were not sent ``unsent``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown, or the journal is for something else; nothing is sent then.
    Unavailable
        If another run uses the journal.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

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
    return deliver_updates(project, updates, function="update_states", dry_run=dry_run, journal=journal)


def update_statistics(
    project: Project, updates: pd.DataFrame, *, dry_run: bool = False, journal: str | Path | None = None
) -> pd.DataFrame:
    """Set statistics of events, one per row.

    Calling it again with the same rows sets the same values: whatever ended a run, the same call with the
    whole frame sends the rest.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    updates : DataFrame
        ``id`` (of the event), ``storageKey`` (of the statistic), ``value`` (a number; an amount stays in its
        currency, and is in the project's currency where the event had none) and, where it is known, ``date``.
        Rows of one event are sent in their order.
    dry_run : bool, default False
        As for :func:`attrib_ds.update_states`.
    journal : str or Path, optional
        As for :func:`attrib_ds.update_states`.

    Returns
    -------
    DataFrame
        As for :func:`attrib_ds.update_states`.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown, or the journal is for something else; nothing is sent then.
    Unavailable
        If another run uses the journal.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

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
    return deliver_updates(project, updates, function="update_statistics", dry_run=dry_run, journal=journal)


def deliver_updates(
    project: Project,
    updates: pd.DataFrame,
    *,
    function: str,
    journal: str | Path | None,
    dry_run: bool = False,
    earlier: Earlier | None = None,
) -> pd.DataFrame:
    """Send updates as :func:`update_states` and :func:`update_statistics` do; or only what failed."""
    operation = _UPDATES[function]
    rows = read_rows(updates, required=("id", "storageKey", "value"), optional=("date",), argument="updates")

    def arguments(position: int) -> dict[str, Any]:
        row = rows[position]
        named = {"id": "id", "storage_key": "storageKey", "value": "value", "date": "date"}
        return {argument: row.get(column) for argument, column in named.items()}

    def send(positions: Sequence[int]) -> list[Outcome]:
        metric: Any = project.send(operation, **arguments(positions[0])).table
        return [("updated", str(metric["eventId"][0]), None)]

    delivery = Delivery(
        project=project,
        function=function,
        operation=operation,
        index=updates.index,
        arguments=arguments,
        key=lambda update: [update.id, update.storageKey, update.date],
        rows=rows,
        earlier=earlier,
    )
    if dry_run:
        return delivery.check()
    with delivery.begun(journal) as run:
        return run.send(send, keys=[str(row.get("id")) for row in rows])


class _NoBatches(Exception):
    """The service does not take several events in one request, which is an extension of it."""


class _Sender:
    """Sends events, many in one request where the service takes that."""

    def __init__(self, project: Project, events: Sequence[Mapping[str, Any]], *, wait: bool) -> None:
        self.project = project
        self.events = events
        self.wait = wait
        self._has_batches = False

    def send_batch(self, positions: Sequence[int]) -> list[Outcome | AttribError]:
        """Send rows in one request; those that are no events are not sent."""
        built = [self._built(self.events[position]) for position in positions]
        valid = [each for each in built if isinstance(each, Request)]
        if not valid:
            return [each for each in built if isinstance(each, AttribError)]
        try:
            told: Any = self.project.send("create_events", events=valid, wait=self.wait).value
        except (InvalidRequest, NotFound, NotSupported):
            if not self._has_batches:
                raise _NoBatches from None
            # Together they are too much for one request.
            return [outcome for position in positions for outcome in self.send_one([position])]
        self._has_batches = True
        outcomes = iter(told)
        return [each if isinstance(each, AttribError) else self._outcome(next(outcomes)) for each in built]

    def send_one(self, positions: Sequence[int]) -> list[Outcome | AttribError]:
        """Send one row."""
        operation = "create_event_sync" if self.wait else "create_event"
        try:
            return [self._outcome(self.project.send(operation, **self.events[positions[0]]).value)]
        except AttribError as error:
            return [self._outcome(error)]

    def _built(self, event: Mapping[str, Any]) -> Request | InvalidRequest:
        try:
            return build(OPERATIONS["create_event"], project_id=self.project.project_id, **event)
        except InvalidRequest as error:
            return error

    def _outcome(self, told: Any) -> Outcome | AttribError:
        if isinstance(told, AttribError):
            return _trashed(told) or told
        return "processed" if self.wait else "accepted", str(told), None


def _trashed(error: AttribError) -> Outcome | None:
    """Return the outcome of an event that is in the trash; None if it was not stored at all."""
    if isinstance(error, InvalidRequest) and error.details and "eventId" in error.details[0]:
        return "trashed", error.details[0]["eventId"], str(error)
    return None


def _first(errors: Sequence[Mapping[str, Any]]) -> str | None:
    """Tell the first thing that is wrong with an event."""
    if not errors:
        return None
    field, kind = errors[0]["field"], errors[0]["type"]
    return f"data/{field['ingestionKey']}: {kind}" if field else str(kind)


def _read_events(events: pd.DataFrame, event_type: str | None) -> list[dict[str, Any]]:
    return [_event(row, event_type) for row in _read_cells(events, event_type)]


def _read_cells(
    events: pd.DataFrame, event_type: str | None, keys: Sequence[str] = ()
) -> list[dict[str, Any]]:
    required = () if event_type is not None else ("eventType",)
    optional = [name for name in _ENVELOPE if name not in (required or ("eventType",)) and name not in keys]
    return read_rows(
        events,
        required=tuple(dict.fromkeys([*required, *keys])),
        optional=optional,
        objects=("data",),
        argument="events",
    )


def _with_nonces(
    events: pd.DataFrame, event_type: str | None, nonce_columns: Sequence[str] | None
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """Return the events with their nonces, and what is wrong with that of each."""
    if nonce_columns is not None:
        columns = events.columns if isinstance(events, pd.DataFrame) else ()
        check_nonce_columns(nonce_columns, [str(name) for name in columns])
    rows = _read_cells(events, event_type, nonce_columns or ())
    sent = [_event(row, event_type) for row in rows]
    if nonce_columns is None:
        nonces, problems = nonces_of_content(sent)
    else:
        nonces, problems = nonces_of_columns(rows, sent, nonce_columns, events.index.tolist())
    return [{**event, "nonce": nonce} for event, nonce in zip(sent, nonces, strict=True)], problems


def _check(
    delivery: Delivery, events: Sequence[Mapping[str, Any]], problems: Sequence[str | None]
) -> pd.DataFrame:
    """Check events and send none; against their types where the service offers to."""
    is_offered = threading.Event()
    is_offered.set()
    # A row without a nonce is checked for whatever else is wrong with it, and told of that first.
    named = [{**each, "nonce": each["nonce"] or "none"} for each in events]

    def look(position: int) -> str | None:
        found: Any = ()
        if is_offered.is_set():
            try:
                found = delivery.project.send("validate_event", **named[position]).value
            except (NotFound, NotSupported):
                is_offered.clear()
        return _first(found) or problems[position]

    return replace(delivery, arguments=named.__getitem__).check(look)


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
