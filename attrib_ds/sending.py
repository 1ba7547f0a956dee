"""Sends the rows of a frame one by one and tells what became of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Row = dict[str, Any]

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
    index: pd.Index[Any], rows: Iterable[Row], send: Callable[[Row], tuple[str, str]]
) -> pd.DataFrame:
    """Send each row and return what became of it.

    Parameters
    ----------
    index : Index
        Of the result, one entry per row.
    rows : iterable of dict
        From :func:`read_rows`.
    send : callable
        Takes a row; returns the status and the id, or raises.

    Returns
    -------
    DataFrame
        One row per row, on ``index``: ``status``, ``id`` and ``error`` (str). A row that the service
        refuses is ``rejected``. What the service cannot do for any row is raised if nothing was sent
        before; afterwards that row is ``failed`` and those behind it are ``unsent``.

    Examples
    --------
    >>> def send(row):
    ...     if not row["amount"]:
    ...         raise InvalidRequest("amount: is missing")
    ...     return "created", "a1"
    >>> send_rows(pd.RangeIndex(2), [{"amount": 5}, {"amount": 0}], send)
         status   id               error
    0   created   a1                 NaN
    1  rejected  NaN  amount: is missing
    """
    outcomes: list[tuple[str, str | None, str | None]] = []
    waiting = iter(rows)
    for row in waiting:
        try:
            outcomes.append((*send(row), None))
        except _ABOUT_ROW as error:
            outcomes.append(("rejected", None, str(error)))
        except AttribError as error:
            if all(status == "rejected" for status, _, _ in outcomes):
                raise
            outcomes.append(("failed", None, str(error)))
            break
    outcomes += [("unsent", None, None) for _ in waiting]
    return pd.DataFrame(outcomes, index=index, columns=["status", "id", "error"], dtype="str")


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
