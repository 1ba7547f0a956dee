"""Sends the rows of a frame and tells what became of each."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from attrib_ds.sending.journal import Outcome, Recording

    Row = dict[str, Any]
    #: Takes the positions of the rows of one request.
    Send = Callable[[Sequence[int]], Sequence[Outcome | AttribError]]

#: A service writes what arrives together with one flush of its file.
_AT_ONCE: Final = 128
#: How long Ctrl-C may go unnoticed.
_SECONDS_TO_NOTICE: Final = 0.5
_UNSENT: Final = ("unsent", None, None)
_NOT_SENT: Final = ("unsent", "rejected", "failed")
#: What the service says about one row, and not about itself or the account.
_ABOUT_ROW: Final = (InvalidRequest, NotFound, Conflict)


def read_rows(
    frame: object,
    *,
    required: Sequence[str],
    optional: Sequence[str] = (),
    objects: Sequence[str] = (),
    argument: str = "frame",
) -> list[Row]:
    """Return the rows of a frame as dicts without the missing cells.

    Parameters
    ----------
    frame : DataFrame
        Its columns must be known; it is not changed.
    required, optional : sequence of str
        Columns it must and may have.
    objects : sequence of str
        Objects whose members are dotted columns (``nodeData.vendorId``).
    argument : str, default "frame"
        What the frame is called in an error message.

    Returns
    -------
    list of dict
        In the order of the frame. Each row has all ``objects``, as dicts.

    Raises
    ------
    InvalidRequest
        If it is no frame, or a column is missing, unknown or there twice.

    Examples
    --------
    >>> visits = pd.DataFrame({"date": ["2025-01-31T12:00:00Z"], "userData.email": ["anna@example.com"]})
    >>> read_rows(visits, required=["date"], objects=["userData"])
    [{'userData': {'email': 'anna@example.com'}, 'date': '2025-01-31T12:00:00Z'}]
    """
    if not isinstance(frame, pd.DataFrame):
        raise InvalidRequest(f"{argument}: must be a DataFrame, got {type(frame).__name__}", field=argument)
    columns = [str(name) for name in frame.columns]
    _check_columns(columns, required, optional, objects, argument=argument)
    cells = [_cells(frame.iloc[:, position]) for position in range(len(columns))]
    rows = []
    for values in zip(*cells, strict=True):
        row: Row = {name: {} for name in objects}
        for name, value in zip(columns, values, strict=True):
            outer, dot, inner = name.partition(".")
            if value is not None:
                holder, key = (row[outer], inner) if dot and outer in objects else (row, name)
                holder[key] = value
        rows.append(row)
    return rows


def send_rows(
    index: pd.Index[Any],
    send: Send,
    *,
    keys: Sequence[Hashable] | None = None,
    size: int = 1,
    find: Callable[[int], Outcome | None] | None = None,
    known: Sequence[Outcome | None] | None = None,
    recording: Recording | None = None,
    advance: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Send rows and return what became of each.

    Parameters
    ----------
    index : Index
        Of the result, one entry per row.
    send : callable
        Takes the positions of the rows of one request; returns the status, the id and the error of each, or
        an exception in their place; or raises one for all of them.
    keys : sequence, optional
        One per row: rows of one key are sent one after the other, in their order, and those of several keys
        at the same time, from several threads. By default all rows are sent in their order.
    size : int, default 1
        Most rows of one request.
    find : callable, optional
        Takes the position of a row, where each is a request of its own, and returns what became of it if it
        need not be sent.
    known : sequence, optional
        What became of each row before; None for one that is to be sent, as all are by default.
    recording : Recording, optional
        Is told of the rows that are sent.
    advance : callable, optional
        Is told how many rows are done.

    Returns
    -------
    DataFrame
        One row per row, on ``index``: ``status``, ``id`` and ``error`` (str). A row that the service
        refuses is ``rejected``. What the service cannot do for any row is raised if nothing was stored
        before, with the frame as its ``partial``; otherwise such a row is ``failed`` and those that were not
        sent are ``unsent``. An interrupt lets requests that are on their way come back, and sends no others.

    Examples
    --------
    >>> amounts = pd.Series([5, 0], index=["x", "y"])
    >>> def send(positions):
    ...     if not amounts.iloc[positions[0]]:
    ...         raise InvalidRequest("amount: is missing")
    ...     return [("created", "a1", None)]
    >>> send_rows(amounts.index, send)
         status   id               error
    x   created   a1                 NaN
    y  rejected  NaN  amount: is missing
    """
    known = [None] * len(index) if known is None else known
    outcomes: list[Outcome] = [each or _UNSENT for each in known]
    failures: list[AttribError] = []
    is_over = threading.Event()

    def carry_out(part: Sequence[int]) -> Sequence[Outcome | AttribError]:
        found = find(part[0]) if find else None
        told: Sequence[Outcome | AttribError]
        if recording is None:
            return [found] if found else send(part)
        if found:
            return recording.settle(part, [found])
        recording.begin(part)
        try:
            told = send(part)
        except AttribError as error:
            told = [error] * len(part)
        return recording.settle(part, told)

    def work(positions: Sequence[int]) -> None:
        for start in range(0, len(positions), size):
            if is_over.is_set():
                return
            part = positions[start : start + size]
            told: Sequence[Outcome | AttribError]
            try:
                told = carry_out(part)
            except AttribError as error:
                told = [error] * len(part)
            for position, each in zip(part, told, strict=True):
                if isinstance(each, AttribError):
                    is_refused = isinstance(each, _ABOUT_ROW)
                    outcomes[position] = ("rejected" if is_refused else "failed", None, str(each))
                    if not is_refused:
                        failures.append(each)
                        is_over.set()
                else:
                    outcomes[position] = each
            if advance:
                advance(len(part))

    left = [position for position, outcome in enumerate(known) if outcome is None]
    try:
        if keys is None:
            work(left)
        else:
            by_key: defaultdict[Hashable, list[int]] = defaultdict(list)
            for position in left:
                by_key[keys[position]].append(position)
            _work_together(work, list(by_key.values()), is_over)
    except KeyboardInterrupt as interrupt:
        done = sum(each != _UNSENT for each in outcomes)
        with_journal = " with the same journal" if recording else ""
        interrupt.add_note(
            f"attrib-ds: {done:,} of {len(outcomes):,} rows were answered; the same call{with_journal} sends "
            "the rest"
        )
        raise
    told = pd.DataFrame(outcomes, index=index, columns=["status", "id", "error"], dtype="str")
    if failures and all(status in _NOT_SENT for status, _, _ in outcomes):
        failures[0].partial = told
        raise failures[0]
    return told


def _work_together(
    work: Callable[[Sequence[int]], None], parts: Sequence[Sequence[int]], is_over: threading.Event
) -> None:
    """Work on each part in a thread of its own; return when none of them is left, whatever happens."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        for future in [pool.submit(work, part) for part in parts]:
            # In short waits: a signal that comes just before a wait begins is seen when it ends.
            while not future.done():
                wait([future], timeout=_SECONDS_TO_NOTICE)
            future.result()
    except BaseException:
        is_over.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _check_columns(
    columns: Sequence[str],
    required: Sequence[str],
    optional: Sequence[str],
    objects: Sequence[str],
    *,
    argument: str,
) -> None:
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    missing = [name for name in required if name not in columns]
    known = [*required, *optional]
    unknown = [name for name in columns if name not in known and name.partition(".")[0] not in objects]
    unknown += [name for name in columns if name in objects]
    problems = [f"has the column {name!r} twice" for name in repeated]
    problems += [f"has no column {name!r}" for name in missing]
    problems += [f"has an unknown column {name!r}{closest(name, known)}" for name in unknown]
    if problems:
        allowed = ", ".join([*known, *(f"{name}.<key>" for name in objects)])
        raise InvalidRequest(f"{argument}: {'; '.join(problems)}; allowed: {allowed}", field=argument)


def _cells(column: pd.Series[Any]) -> list[Any]:
    """Return Python values, None where a cell is missing."""
    # Whole numbers beside missing cells have become floats; they are whole again here.
    values = column.convert_dtypes() if pd.api.types.is_float_dtype(column.dtype) else column
    return [_cell(value) for value in values.astype(object)]


def _cell(value: Any) -> Any:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
