"""Events and their types: send, validate and read events, update their states and statistics."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import numpy as np
import pandas as pd

from attrib_ds import instants
from attrib_ds.api.results import given, page, with_event_columns
from attrib_ds.contract.json_values import EncodedObject, Refused, encode
from attrib_ds.errors import AttribError, InvalidRequest, NotFound, NotSupported, warn
from attrib_ds.filters import Predicate
from attrib_ds.project import Project, takes_project
from attrib_ds.records.frames import TEXT, Frame, read_frame, read_rows, to_record
from attrib_ds.sending.conversion_cells import explained, with_instants
from attrib_ds.sending.delivery import (
    Delivery,
    Outcome,
    check_nonce_columns,
    nonces_of_columns,
    nonces_of_content,
    refuse,
    send_rows,
)

#: Events per request; fewer than a service accepts, so that it answers before a timeout.
_BATCH_SIZE: Final = 500
_ENVELOPE: Final = ("eventType", "eventDate", "trackerId", "nonce")
#: Nonce of events that are only validated.
_PLACEHOLDER: Final = "none"


@takes_project
def send_events(
    project: Project,
    events: Frame,
    *,
    event_type: str | None = None,
    wait: bool = True,
    nonce_columns: Sequence[str] | None = None,
    dry_run: bool = False,
) -> pd.DataFrame:
    """Send events, one per row.

    Sending the same rows again stores nothing twice, since the service keeps one event per nonce. After a
    failure or an interrupt repeat the call with the whole frame. To send only a part of a frame again, rows
    need a ``nonce`` or ``nonce_columns``: the default nonce counts equal rows from the start of the frame.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    events : DataFrame
        ``eventType`` (reference of an event type), unless ``event_type`` is given; ``eventDate`` (datetime or
        str, UTC without an offset; by default the time of reception; a day without a time stands for its end
        in the project's time zone); ``trackerId`` (of the browser, which links the event to its
        interactions); ``nonce``; and the data of the event, by the ``ingestionKey`` of its event type:
        ``data.email``, ``data.turnover``, ``data.turnover.amount``. A missing cell is a property that is not
        given. Without the column ``nonce``, a nonce is made from the content of the row, which then needs a
        date.
    event_type : str, optional
        Event type of all rows.
    wait : bool, default True
        Wait until each event is processed, and report the errors of invalid ones. Otherwise the service
        processes them later; :func:`attrib_ds.list_trashed_events` lists those that were invalid. The
        specification leaves open what a service answers to an invalid event, which may be ``processed`` too.
    nonce_columns : sequence of str, optional
        Columns that identify the rows of an event type, such as ``["data.orderId"]``; the nonce is a hash of
        them. A column named here that is not a property of events is not sent.
    dry_run : bool, default False
        Only validate the rows, also against their event types if the service offers that; nothing is stored.

    Returns
    -------
    DataFrame
        One row per row of ``events``, with its index: ``status``, ``id`` of the event, ``error`` (str).
        ``processed``: the event is stored. ``accepted``: it will be processed. ``trashed``: it is invalid,
        and was kept as such. ``rejected``: nothing was stored, or the nonce belongs to another event. If the
        service fails half-way, rows are ``failed``, and those that were not sent ``unsent``. In a dry run
        ``valid`` or ``rejected``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown, a row has neither nonce nor date, or ``nonce_columns`` are missing
        in a row or equal in two (``details`` lists the rows); nothing is sent then.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> email = {"type": "email", "entity": "user", "storageKey": "email"}
    >>> orders = pd.DataFrame(
    ...     {
    ...         "eventDate": ["2025-01-31T12:00:00Z", "2025-01-31T12:05:00Z"],
    ...         "nonce": ["order-1", "order-2"],
    ...         "data.email": ["anna@example.com", "nobody"],
    ...     }
    ... )
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order", fields=[email])
    ...     at.send_events(shop, orders, event_type="order")["status"].tolist()
    ['processed', 'trashed']
    """
    events = read_frame("events", events)
    events = with_instants(events, "eventDate", project.timezone, at_end=True)
    rows = _read_cells(events, event_type, nonce_columns)
    arguments = [_arguments(row, event_type) for row in rows]
    if nonce_columns is None:
        nonces, problems = nonces_of_content(arguments)
    else:
        nonces, problems = nonces_of_columns(rows, arguments, nonce_columns, events.index.tolist())
    if not dry_run:
        refuse(problems, events.index.tolist(), by_columns=nonce_columns is not None)
    for event, nonce in zip(arguments, nonces, strict=True):
        # A dry run checks rows without a nonce for other problems too.
        event["nonce"] = _PLACEHOLDER if nonce is None else nonce
    delivery = Delivery(project, "create_event", events.index, arguments)
    if dry_run:
        return _check(delivery, problems)
    sender = _Sender(delivery, wait=wait)
    try:
        return delivery.send(sender.send_batch, size=_BATCH_SIZE)
    except _BatchesNotSupported:
        # Rows with one nonce are sent in their order: the first of them is the event.
        return delivery.send(sender.send_one, keys=[event["nonce"] for event in arguments])


@takes_project
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
        (whether its user had an eligible interaction in the 30 days before) and so on; and for each key that
        event types of the project declare:

        - ``event.<key>`` and ``user.<key>``: the normalised value of a field. Type ``number`` is ``float64``,
          ``boolean`` ``boolean``, ``date`` ``datetime64[us, UTC]``, all others ``str`` (a location is its
          address), also if event types declare different types;
        - ``statistics.<key>``: a number (``float64``). An amount of money is ``statistics.<key>.amount``
          (``float64``) and ``statistics.<key>.currency`` (``str``);
        - ``states.<key>``: 0 or 1 (``Int64``), and ``states.<key>.date``.

        ``event``, ``user`` and ``metrics`` are the JSON text of what these columns do not hold: undeclared
        keys, values of another type, and the parts of locations; missing if nothing is left. Without the
        scope ``event-types:read``, they hold everything.

    Raises
    ------
    NotFound
        If there is no such event, or it was trashed.

    See Also
    --------
    get_raw_event : The event as it was sent.
    list_user_metrics : States and statistics with their dates.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> minutes = {"type": "number", "entity": "event", "storageKey": "minutes"}
    >>> calls = pd.DataFrame({"eventDate": ["2025-01-31T12:00:00Z"], "data.minutes": [7.5]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "call", name="Call", fields=[minutes])
    ...     sent = at.send_events(shop, calls, event_type="call")
    ...     call = at.get_event(shop, sent["id"].item())
    >>> call["statistics.minutes"]
    7.5
    """
    event = project.send("get_event", id=id).read()
    return to_record(with_event_columns(project, event))


@takes_project
def search_events(
    project: Project,
    *,
    event_type: str | Sequence[str] | Predicate | None = None,
    user_ids: Sequence[str] | pd.Series[str] | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    changed_since: datetime | date | str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """Search the events of a project, newest first.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    event_type : str, sequence of str or Predicate, optional
        References of event types, or a predicate on ``event("eventType")``; all types by default.
    user_ids : sequence of str, optional
        Users whose events to return, 10,000 at most; the id of a merged user stands for the user it was
        merged into. All users by default.
    since, until : datetime, date or str, optional
        Bounds of ``eventDate``, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    changed_since : datetime, date or str, optional
        Only events whose ``updatedAt`` is at this instant or later; read like ``since``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per event, with the columns of :func:`get_event`. Columns and dtypes do not depend on the
        rows. :func:`attrib_ds.load` reads such a frame. ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotFound
        If a remote service does not have this operation; :func:`attrib_ds.list_user_events` reads the events
        of one user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> orders = at.search_events(shop, event_type="order", since="2025-01-01", limit=3)
    >>> orders["eventType"].tolist()
    ['order', 'order', 'order']
    """
    event_type = [event_type] if isinstance(event_type, str) else event_type
    user_ids = None if user_ids is None else list(user_ids)
    answer = project.send("search_events", **given(locals()))
    return page(answer, with_event_columns(project, answer.read()))


@takes_project
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
    >>> import attrib_ds as at
    >>> calls = pd.DataFrame({"nonce": ["call-1"], "data.phone": ["06 12 34 56 78"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     sent = at.send_events(shop, calls, event_type="call", wait=False)
    ...     at.get_raw_event(shop, sent["id"].item())["data"]
    '{"phone":"06 12 34 56 78"}'
    """
    return to_record(project.send("get_raw_event", id=id).read())


@takes_project
def list_trashed_events(
    project: Project,
    *,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the events that could not be processed, with their errors.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    since, until : datetime, date or str, optional
        Bounds of ``processingDate``, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

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
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.send_events(shop, pd.DataFrame({"nonce": ["call-1"]}), event_type="unheard-of")
    ...     trashed = at.list_trashed_events(shop)
    >>> json.loads(trashed["errors"].item())[0]["type"]
    'unknown-event-type'
    """
    return page(project.send("list_trashed_events", since=since, until=until, limit=limit, offset=offset))


@takes_project
def validate_events(project: Project, events: Frame, *, event_type: str | None = None) -> pd.DataFrame:
    """Validate events, one per row, without storing any.

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
        One row per row of ``events``, with its index: ``status`` (``valid``; ``invalid``: it would be
        trashed; ``rejected``: it would not be stored), ``error`` (str; the first error) and ``errors`` (JSON
        text: a list of ``type``, ``field`` and ``value``, as of a trashed event).

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> email = {"type": "email", "entity": "user", "storageKey": "email"}
    >>> orders = pd.DataFrame({"data.email": ["anna@example.com", "nobody"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order", fields=[email])
    ...     at.admin.validate_events(shop, orders, event_type="order")["error"].tolist()
    [nan, "data.email: expected an email address, got text 'nobody'"]
    """
    events = read_frame("events", events)
    events = with_instants(events, "eventDate", project.timezone, at_end=True)
    arguments = [
        {**event, "nonce": _PLACEHOLDER if event["nonce"] is None else event["nonce"]}
        for event in (_arguments(row, event_type) for row in _read_cells(events, event_type))
    ]
    all_errors: list[str | None] = [None] * len(arguments)

    def validate(positions: Sequence[int]) -> list[Outcome]:
        (position,) = positions
        errors = project.send("validate_event", **arguments[position]).value
        all_errors[position] = encode(errors)
        return [("invalid" if errors else "valid", None, _first(errors))]

    results = send_rows(events.index, validate, keys=range(len(arguments)))
    return results.assign(errors=pd.Series(all_errors, index=events.index, dtype=TEXT)).drop(columns="id")


@takes_project
def replay_events(project: Project, ids: Sequence[str] | pd.Series[str]) -> pd.DataFrame:
    """Process trashed events again, as they were sent.

    They are validated against their current event types, and keep their ids and dates.

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
        event is stored, and no longer in the trash. ``trashed``: it is still invalid. ``rejected``: there is
        no such trashed event.

    Raises
    ------
    ServiceFailure
        If the service fails before anything was processed.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.send_events(shop, pd.DataFrame({"nonce": ["call-1"]}), event_type="call")
    ...     _ = at.create_event_type(shop, "call", name="Call")
    ...     at.admin.replay_events(shop, at.list_trashed_events(shop)["_id"])["status"].tolist()
    ['processed']
    """
    series = pd.Series(ids, dtype="object")
    event_ids = series.tolist()

    def replay(positions: Sequence[int]) -> list[Outcome | AttribError]:
        try:
            return [("processed", str(project.send("replay_event", id=event_ids[positions[0]]).value), None)]
        except AttribError as error:
            return [_trashed(error) or error]

    return send_rows(series.index, replay, keys=[str(id) for id in event_ids])


@takes_project
def update_states(project: Project, updates: Frame, *, dry_run: bool = False) -> pd.DataFrame:
    """Set states of events, one per row.

    Sending the same rows again sets the same values. After a failure or an interrupt repeat the call.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    updates : DataFrame
        ``id`` (of the event), ``storageKey`` (of the state), ``value`` (0 or 1) and optionally ``date`` (when
        the state changed; by default the time of reception). Rows of one event are sent in their order: the
        last one counts, whatever its date.
    dry_run : bool, default False
        Only validate the rows, and send nothing. It cannot check that the events and their states exist.

    Returns
    -------
    DataFrame
        One row per row of ``updates``, with its index: ``status`` (``updated`` or ``rejected``; in a dry run
        ``valid`` or ``rejected``), ``id`` of the event, ``error`` (str). If the service fails half-way, rows
        are ``failed``, and those that were not sent ``unsent``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown; nothing is sent then.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> won = {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None}
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "lead", name="Lead", fields=[won])
    ...     leads = at.send_events(shop, pd.DataFrame({"nonce": ["lead-1"]}), event_type="lead")
    ...     reached = pd.DataFrame({"id": leads["id"], "storageKey": "won", "value": 1})
    ...     at.update_states(shop, reached)["status"].tolist()
    ['updated']
    """
    return _send_updates(project, "update_event_state", updates, dry_run=dry_run)


@takes_project
def update_statistics(project: Project, updates: Frame, *, dry_run: bool = False) -> pd.DataFrame:
    """Set statistics of events, one per row.

    Sending the same rows again sets the same values. After a failure or an interrupt repeat the call.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    updates : DataFrame
        ``id`` (of the event), ``storageKey`` (of the statistic), ``value`` (a number; an amount keeps its
        currency, the project's if the event had none) and optionally ``date``.
        Rows of one event are sent in their order.
    dry_run : bool, default False
        As for :func:`attrib_ds.update_states`.

    Returns
    -------
    DataFrame
        As for :func:`attrib_ds.update_states`.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown; nothing is sent then.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> turnover = {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True}
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "lead", name="Lead", fields=[turnover])
    ...     leads = at.send_events(shop, pd.DataFrame({"nonce": ["lead-1"]}), event_type="lead")
    ...     worth = pd.DataFrame({"id": leads["id"], "storageKey": "turnover", "value": 90.5})
    ...     at.update_statistics(shop, worth)["status"].tolist()
    ['updated']
    """
    return _send_updates(project, "update_event_statistic", updates, dry_run=dry_run)


def _send_updates(project: Project, operation: str, updates: Frame, *, dry_run: bool) -> pd.DataFrame:
    """Send updates by an operation that takes one row."""
    updates = read_frame("updates", updates)
    rows = read_rows(updates, required=("id", "storageKey", "value"), optional=("date",), argument="updates")
    columns = {"id": "id", "storage_key": "storageKey", "value": "value", "date": "date"}
    arguments = [{argument: row.get(column) for argument, column in columns.items()} for row in rows]
    delivery = Delivery(project, operation, updates.index, arguments)

    def send(positions: Sequence[int]) -> list[Outcome]:
        delivery.send_row(positions[0])
        request: Any = delivery.request(positions[0])
        return [("updated", request.id, None)]

    if dry_run:
        return delivery.check()
    # Updates of one event are sent in their order.
    return delivery.send(send, keys=[str(row.get("id")) for row in rows])


class _BatchesNotSupported(Exception):
    """The service does not accept several events in one request, which is an extension."""


class _Sender:
    """Sends events, many in one request if the service accepts that."""

    def __init__(self, delivery: Delivery, *, wait: bool) -> None:
        self._delivery = delivery
        self._wait = wait
        self._supports_batches = False

    def send_batch(self, positions: Sequence[int]) -> list[Outcome | AttribError]:
        """Send the valid ones of these rows in one request."""
        requests = [self._delivery.requests[position] for position in positions]
        valid = [request for request in requests if not isinstance(request, InvalidRequest)]
        if not valid:
            return [request for request in requests if isinstance(request, InvalidRequest)]
        project = self._delivery.project
        try:
            response = project.send("create_events", events=valid, wait=self._wait).value
        except (InvalidRequest, NotFound, NotSupported):
            if not self._supports_batches:
                raise _BatchesNotSupported from None
            # Together they are too much for one request.
            return [outcome for position in positions for outcome in self.send_one([position])]
        self._supports_batches = True
        results = iter(response)
        return [
            request if isinstance(request, InvalidRequest) else self._outcome(next(results))
            for request in requests
        ]

    def send_one(self, positions: Sequence[int]) -> list[Outcome | AttribError]:
        """Send one row."""
        operation = "create_event_sync" if self._wait else "create_event"
        try:
            return [self._outcome(self._delivery.send_row(positions[0], operation).value)]
        except AttribError as error:
            return [self._outcome(error)]

    def _outcome(self, result: Any) -> Outcome | AttribError:
        if isinstance(result, AttribError):
            return _trashed(result) or result
        return "processed" if self._wait else "accepted", result, None


def _trashed(error: AttribError) -> Outcome | None:
    """Return the outcome of an event that is in the trash; None if it was not stored at all."""
    if isinstance(error, InvalidRequest) and error.details and "eventId" in error.details[0]:
        return "trashed", error.details[0]["eventId"], str(error)
    return None


def _first(errors: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the first problem of an event as text."""
    return explained(errors[0]) if errors else None


def _read_cells(
    events: pd.DataFrame, event_type: str | None, nonce_columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    if nonce_columns is not None:
        check_nonce_columns(nonce_columns, [str(name) for name in events.columns])
    required = dict.fromkeys([*(() if event_type is not None else ("eventType",)), *(nonce_columns or ())])
    optional = [name for name in _ENVELOPE if name not in required and name != "eventType"]
    return read_rows(
        events, required=tuple(required), optional=optional, objects=("data",), argument="events"
    )


def _check(delivery: Delivery, problems: Sequence[str | None]) -> pd.DataFrame:
    """Check events and send none; against their types if the service offers that."""
    is_offered = threading.Event()
    is_offered.set()

    def find_problem(position: int) -> str | None:
        errors: Any = ()
        if is_offered.is_set():
            try:
                errors = delivery.send_row(position, "validate_event").value
            except (NotFound, NotSupported):
                is_offered.clear()
        return _first(errors) or problems[position]

    return delivery.check(find_problem)


def _arguments(row: Mapping[str, Any], event_type: str | None) -> dict[str, Any]:
    """Return the arguments of a row's event."""
    return {
        "event_type": event_type if event_type is not None else row.get("eventType"),
        "event_date": row.get("eventDate"),
        "tracker_id": row.get("trackerId"),
        "nonce": row.get("nonce"),
        "data": _encoded(_nested(row["data"])),
    }


def _encoded(data: dict[str, Any]) -> Mapping[str, Any]:
    """Encode the data of an event, once for all that follows."""
    try:
        return EncodedObject(data)
    except Refused:
        # The request of the row names the problem.
        return data


def _nested(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object whose members have dotted names as nested objects."""
    data: dict[str, Any] = {}
    for name, value in cells.items():
        *outer, last = name.split(".")
        holder: Any = data
        for part in outer:
            holder = holder.setdefault(part, {}) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or last in holder:
            raise InvalidRequest(
                f"events: the column 'data.{name}' conflicts with another column in the same row"
            )
        holder[last] = _json_value(value)
    return data


def _json_value(value: Any) -> Any:
    """Return a cell as JSON can hold it."""
    if isinstance(value, datetime | np.datetime64):
        return instants.format(instants.parse_exact(value, argument="events"))
    if isinstance(value, date):
        return value.isoformat()
    return [_json_value(element) for element in value.tolist()] if isinstance(value, np.ndarray) else value


@takes_project
def list_event_types(
    project: Project,
    *,
    search: str | None = None,
    archived: bool | None = None,
    storage_key: str | None = None,
    reference: str | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the event types of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    search : str, optional
        Only event types whose name or reference contains this text; case does not matter.
    archived : bool, optional
        True: only archived event types; by default only the others.
    storage_key : str, optional
        Only event types with a field of this storage key.
    reference : str, optional
        Only the event type of this reference.
    sort : str or sequence of str, optional
        Columns to sort by, with ``-`` in front for descending: ``["-createdAt", "name"]``. By default
        ``"reference"``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per event type: ``_id``, ``createdAt``, ``updatedAt``, ``archivedAt``, ``projectId``,
        ``reference``, ``name``, ``fields``, ``metadata`` and ``phoneParsingConfig`` (JSON text), and
        ``expirationPolicy.retentionDurationInDays`` and ``expirationPolicy.piiFields`` (missing where the
        project's settings apply). ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     at.list_event_types(shop)["reference"].tolist()
    ['order']
    """
    return page(project.send("list_event_types", **given(locals())))


@takes_project
def get_event_type(project: Project, reference: str) -> pd.Series[Any]:
    """Get one event type by its reference.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.

    Returns
    -------
    Series
        One entry per property, as in :func:`attrib_ds.list_event_types`; also of archived event types.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     at.get_event_type(shop, "order")["name"]
    'Order'
    """
    return to_record(project.send("get_event_type", reference=reference).read())


@takes_project
def create_event_type(
    project: Project,
    reference: str,
    *,
    name: str,
    fields: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    phone_parsing_config: Sequence[Mapping[str, Any]] | None = None,
    expiration_policy: Mapping[str, Any] | None = None,
) -> pd.Series[Any]:
    """Create an event type; the service accepts its events at once.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        Its name in events and filters: 1 to 64 lower-case letters and digits with single ``-`` or ``_``
        between them; unique in the project, archived event types included.
    name : str
        Display name.
    fields : sequence of mapping
        One per field: ``type`` (``string``, ``message``, ``email``, ``phone``, ``location``, ``number``,
        ``boolean``, ``date``, ``url``, ``country``, ``state``, ``currency``), ``entity`` (``user`` or
        ``event``), ``storageKey``, and optionally ``ingestionKey`` (the key in the data of events, by default
        the storage key; None: only updates set the field), ``optional``, ``discriminant``, ``isPii`` and
        ``isMostProbableLocation`` (all False by default). Fields of entity ``event`` and type ``state`` are
        states; those of type ``number`` and ``currency`` are statistics.
    metadata : mapping, optional
        Your own properties of the event type; empty by default.
    phone_parsing_config : sequence of mapping
        Countries whose national phone numbers are recognised: ``{"order": 1, "countryCode": "FR"}``.
    expiration_policy : mapping, optional
        ``{"retentionDurationInDays": 365, "piiFields": ["email"]}``: the number of days after an event for
        which its personal values are kept (0: no limit), and their storage keys. An omitted property comes
        from :func:`attrib_ds.admin.update_settings`.

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.
    Conflict
        If the reference is taken.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     order = at.create_event_type(
    ...         shop,
    ...         "order",
    ...         name="Order",
    ...         fields=[
    ...             {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True},
    ...             {"type": "currency", "entity": "event", "storageKey": "turnover"},
    ...             {"type": "state", "entity": "event", "storageKey": "confirmed", "ingestionKey": None},
    ...         ],
    ...     )
    >>> order["reference"]
    'order'
    """
    created = to_record(project.send("create_event_type", **given(locals())).read())
    countries, days = created["phoneParsingConfig"], (expiration_policy or {}).get("retentionDurationInDays")
    lost = {
        "phone_parsing_config": phone_parsing_config and (pd.isna(countries) or countries == "[]"),
        "expiration_policy": days and pd.isna(created["expirationPolicy.retentionDurationInDays"]),
    }
    if any(lost.values()) and pd.notna(created["_id"]):
        names = ", ".join(name for name, is_lost in lost.items() if is_lost)
        warn(f"create_event_type: the service created the event type without {names}")
    return created


@takes_project
def update_event_type(
    project: Project,
    reference: str,
    *,
    name: str | None = None,
    fields: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    phone_parsing_config: Sequence[Mapping[str, Any]] | None = None,
    expiration_policy: Mapping[str, Any] | None = None,
) -> pd.Series[Any]:
    """Change an event type; omitted properties keep their values.

    Stored events are not validated again, and have no value of a new state or statistic.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.
    name : str, optional
        New display name.
    fields : sequence of mapping
        As for :func:`attrib_ds.create_event_type`. A field with an existing storage key replaces that field,
        and must have the same ``type`` and ``entity``; the others are added.
    metadata : mapping, optional
        Replaces the previous metadata.
    phone_parsing_config : sequence of mapping, optional
        As for :func:`attrib_ds.create_event_type`; replaces the previous list.
    expiration_policy : mapping, optional
        As for :func:`attrib_ds.create_event_type`; replaces the previous policy. ``{}`` stands for the
        project's settings. Stored events keep their policy.

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.
    NotFound
        If there is no such event type.
    Conflict
        If a storage key would change its type or entity.

    Examples
    --------
    >>> import json
    >>> import attrib_ds as at
    >>> paid = {"type": "state", "entity": "event", "storageKey": "paid", "ingestionKey": None}
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     order = at.admin.update_event_type(shop, "order", fields=[paid])
    >>> [field["storageKey"] for field in json.loads(order["fields"])]
    ['paid']
    """
    return to_record(project.send("update_event_type", **given(locals())).read())


@takes_project
def archive_event_type(project: Project, reference: str) -> pd.Series[Any]:
    """Archive an event type: the service trashes its new events.

    Stored events stay and can be updated.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     _ = at.admin.archive_event_type(shop, "order")
    ...     [len(at.list_event_types(shop, archived=archived)) for archived in (False, True)]
    [0, 1]
    """
    return to_record(project.send("archive_event_type", reference=reference).read())


@takes_project
def restore_event_type(project: Project, reference: str) -> pd.Series[Any]:
    """Restore an archived event type: the service accepts its events again.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     _ = at.admin.archive_event_type(shop, "order")
    ...     pd.isna(at.admin.restore_event_type(shop, "order")["archivedAt"])
    True
    """
    return to_record(project.send("restore_event_type", reference=reference).read())
