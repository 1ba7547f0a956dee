"""Sends the rows of a frame, each with a nonce, and returns a frame with the outcome of each row."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import date, datetime
from typing import Any, Final

import numpy as np
import pandas as pd

from attrib_ds import display, errors, instants
from attrib_ds.contract import OPERATIONS, Answer, Request, build
from attrib_ds.contract.json_values import Refused, encode
from attrib_ds.project import Project
from attrib_ds.records.frames import TEXT

#: Status, id and error of one row.
Outcome = tuple[str, str | None, str | None]
#: Takes the positions of the rows of one request.
Send = Callable[[Sequence[int]], Sequence[Outcome | errors.AttribError]]

#: Concurrent requests; the service commits those that arrive together with one flush of its file.
_MAX_WORKERS: Final = 128
#: How long Ctrl-C may go unnoticed.
_POLL_SECONDS: Final = 0.5
_UNSENT: Final = ("unsent", None, None)
_NOT_STORED: Final = frozenset({"unsent", "rejected", "failed"})
#: Errors about one row, and not about the service or the account.
_ROW_ERRORS: Final = (errors.InvalidRequest, errors.NotFound, errors.Conflict)


class Delivery:
    """Rows of a frame on their way to a project, each as the one request built of it.

    Parameters
    ----------
    project : Project
        Receives the rows.
    operation : str
        Operation that sends one row.
    index : Index
        Of the frame.
    arguments : iterable of mapping
        Arguments of the operation, per row.

    Attributes
    ----------
    requests : list of Request or InvalidRequest
        One per row; the error of a row that is not valid.
    """

    def __init__(
        self, project: Project, operation: str, index: pd.Index[Any], arguments: Iterable[Mapping[str, Any]]
    ) -> None:
        self.project, self.operation, self.index = project, operation, index
        self.requests: list[Request | errors.InvalidRequest] = []
        for row in arguments:
            try:
                request = build(OPERATIONS[operation], project_id=project.project_id, **row)
                self.requests.append(request)
            except errors.InvalidRequest as error:
                self.requests.append(error)

    def request(self, position: int) -> Request:
        """Return the request of a row; raises if the row is invalid."""
        request = self.requests[position]
        if isinstance(request, errors.InvalidRequest):
            raise request
        return request

    def send_row(self, position: int, operation: str | None = None) -> Answer:
        """Send one row, by another operation with the same request if one is named."""
        declared = OPERATIONS[operation or self.operation]
        return self.project.transport.send(declared, self.request(position))

    def check(self, find_problem: Callable[[int], str | None] | None = None) -> pd.DataFrame:
        """Validate each row and send none.

        Parameters
        ----------
        find_problem : callable, optional
            Takes the position of a row with a valid request; returns a further problem, if there is one.

        Returns
        -------
        DataFrame
            As from :func:`send_rows`, with the statuses ``valid`` and ``rejected``.
        """

        def check_row(positions: Sequence[int]) -> list[Outcome]:
            (position,) = positions
            self.request(position)
            problem = find_problem(position) if find_problem else None
            return [("valid" if problem is None else "rejected", None, problem)]

        # Only a further check asks the service, and waits.
        return self.send(check_row, keys=range(len(self.index)) if find_problem else None)

    def send(self, send: Send, **ways: Any) -> pd.DataFrame:
        """Send the rows with a progress bar; ``ways`` are those of :func:`send_rows`."""
        with display.progress("rows", len(self.index)) as advance:
            return send_rows(self.index, send, **ways, advance=advance)


def send_rows(
    index: pd.Index[Any],
    send: Send,
    *,
    keys: Sequence[Hashable] | None = None,
    size: int = 1,
    find: Callable[[int], Outcome | None] | None = None,
    advance: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Send rows and return the outcome of each.

    Parameters
    ----------
    index : Index
        Of the result, one entry per row.
    send : callable
        Takes the positions of the rows of one request; returns the status, the id and the error of each, or
        an exception in their place; or raises one for all of them.
    keys : sequence, optional
        One per row: rows with equal keys are sent one after the other, in their order; rows with different
        keys concurrently, from several threads. By default all rows are sent in their order.
    size : int, default 1
        Maximum number of rows per request.
    find : callable, optional
        Takes the position of a row, where each has a request of its own, and returns its outcome if it need
        not be sent.
    advance : callable, optional
        Takes the number of rows that are finished.

    Returns
    -------
    DataFrame
        One row per row, on ``index``: ``status``, ``id`` and ``error`` (str). A row that the service
        refuses is ``rejected``. If the service itself fails, the error is raised if nothing was stored
        before, with the frame as its ``partial``; otherwise such a row is ``failed``, or ``unknown`` if it
        may have been stored, and those that were not sent are ``unsent``. An interrupt waits for requests in
        flight and sends no others.

    Examples
    --------
    >>> amounts = pd.Series([5, 0], index=["x", "y"])
    >>> def send(positions):
    ...     if not amounts.iloc[positions[0]]:
    ...         raise errors.InvalidRequest("amount: is missing")
    ...     return [("created", "a1", None)]
    >>> send_rows(amounts.index, send)
         status   id               error
    x   created   a1                 NaN
    y  rejected  NaN  amount: is missing
    """
    outcomes: list[Outcome] = [_UNSENT] * len(index)
    failures: list[errors.AttribError] = []
    stop = threading.Event()

    def work(positions: Sequence[int]) -> None:
        for start in range(0, len(positions), size):
            if stop.is_set():
                return
            batch = positions[start : start + size]
            results: Sequence[Outcome | errors.AttribError]
            try:
                found = find(batch[0]) if find else None
                results = [found] if found else send(batch)
            except errors.AttribError as error:
                results = [error] * len(batch)
            for position, result in zip(batch, results, strict=True):
                if not isinstance(result, errors.AttribError):
                    outcomes[position] = result
                elif isinstance(result, _ROW_ERRORS):
                    outcomes[position] = ("rejected", None, str(result))
                else:
                    outcomes[position] = ("unknown" if result.is_unknown else "failed", None, str(result))
                    failures.append(result)
                    stop.set()
            if advance:
                advance(len(batch))

    try:
        if keys is None:
            work(range(len(index)))
        else:
            by_key: defaultdict[Hashable, list[int]] = defaultdict(list)
            for position, key in enumerate(keys):
                by_key[key].append(position)
            _work_concurrently(work, list(by_key.values()), stop)
    except KeyboardInterrupt as interrupt:
        answered = sum(outcome != _UNSENT for outcome in outcomes)
        interrupt.add_note(
            f"attrib-ds: {answered:,} of {len(outcomes):,} rows were answered; the same call sends the rest"
        )
        raise
    results = pd.DataFrame(outcomes, index=index, columns=["status", "id", "error"], dtype=TEXT)
    if failures and all(status in _NOT_STORED for status, _, _ in outcomes):
        failures[0].partial = results
        raise failures[0]
    return results


def _work_concurrently(
    work: Callable[[Sequence[int]], None], parts: Sequence[Sequence[int]], stop: threading.Event
) -> None:
    """Work on each part in a thread of its own; return when none of them is left, whatever happens."""
    prefix = f"attrib-ds-sending-{id(stop)}-"
    pool = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix=prefix)
    try:
        for future in [pool.submit(work, part) for part in parts]:
            # In short waits: a signal that comes just before a wait begins is seen when it ends.
            while wait([future], timeout=_POLL_SECONDS).not_done:
                pass
            future.result()
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        # An interrupt inside submit() leaves a thread that the pool does not know.
        for thread in threading.enumerate():
            if thread.name.startswith(prefix):
                thread.join()


#: Nonce and problem of a row.
_Identified = tuple[str | None, str | None]
MAX_SHOWN: Final = 5
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
        raise errors.InvalidRequest.value("nonce_columns", nonce_columns, "a list of one or more columns")
    if "nonce" in columns:
        raise errors.InvalidRequest(
            "nonce_columns: cannot be combined with the column 'nonce'; leave one of them out"
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
    owners: dict[str, Hashable] = {}

    def identified(row: Mapping[str, Any], event_type: object, label: Hashable) -> _Identified:
        cells = {name: _cell(row, name) for name in nonce_columns}
        missing = [repr(name) for name, cell in cells.items() if cell is None]
        if missing:
            return None, f"nonce_columns: {', '.join(missing)} is required"
        key = json.dumps([str(event_type), *map(_cell_text, map(cells.__getitem__, nonce_columns))])
        nonce = hashlib.sha256(key.encode()).hexdigest()
        problem = f"nonce_columns: duplicates row {owners[nonce]!r}" if nonce in owners else None
        owners.setdefault(nonce, label)
        return nonce, problem

    pairs = zip(rows, events, labels, strict=True)
    return _in_columns(identified(row, event["event_type"], label) for row, event, label in pairs)


def nonces_of_content(events: Sequence[Mapping[str, Any]]) -> tuple[list[str | None], list[str | None]]:
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
    occurrences: Counter[str] = Counter()

    def identified(event: Mapping[str, Any]) -> _Identified:
        if event["nonce"] is not None or event["event_date"] is None:
            return event["nonce"], _UNDATED if event["nonce"] is None else None
        try:
            content = encode({**dict(sorted(event.items())), "event_date": _date_text(event["event_date"])})
        except Refused as refusal:
            return None, f"events: a row {refusal.problem}"
        occurrences[content] += 1
        return hashlib.sha256(f"{occurrences[content]} {content}".encode()).hexdigest(), None

    return _in_columns(map(identified, events))


def _in_columns(rows: Iterable[_Identified]) -> tuple[list[str | None], list[str | None]]:
    listed = list(rows)
    return [nonce for nonce, _ in listed], [problem for _, problem in listed]


def details_of(problems: Sequence[str | None], labels: Sequence[Hashable]) -> list[dict[str, Any]]:
    """Return the label and the problem of each row that has one."""
    return [
        {"row": label, "problem": problem}
        for label, problem in zip(labels, problems, strict=True)
        if problem is not None
    ]


def refuse(problems: Sequence[str | None], labels: Sequence[Hashable], *, by_columns: bool) -> None:
    """Refuse a frame if another run could not recognise some of its rows.

    Raises
    ------
    InvalidRequest
        If there is a problem; ``details`` has the label and the problem of each row concerned.
    """
    details = details_of(problems, labels)
    if not details:
        return
    if not by_columns:
        for detail in details:
            if detail["problem"] != _UNDATED:
                raise errors.InvalidRequest(str(detail["problem"]), details=details)
        raise errors.InvalidRequest(
            f"{_UNDATED}; {display.counted(len(details), 'rows')} {'lacks' if len(details) == 1 else 'lack'} "
            "both, and would be stored twice or not at all if sent again",
            field="events",
            details=details,
        )
    shown = [
        f"row {detail['row']!r}: {str(detail['problem']).partition(': ')[2]}"
        for detail in details[:MAX_SHOWN]
    ]
    more = [f"… ({len(details):,} rows in all; dry_run=True lists them)"] if len(details) > MAX_SHOWN else []
    raise errors.InvalidRequest(
        f"nonce_columns: must identify each row, so nothing was sent: {'; '.join([*shown, *more])}",
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
    except errors.InvalidRequest:
        return str(value)
