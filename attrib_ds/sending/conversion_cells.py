"""Reads the cells of a file of conversions, and names problems by the columns and rows that were sent."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from attrib_ds import errors, instants
from attrib_ds.contract import identifiers, json_values
from attrib_ds.contract.values import EARLIEST, MAX_AHEAD, Amount
from attrib_ds.records import person_ids
from attrib_ds.records.written_values import moments, plain_numbers
from attrib_ds.sending.delivery import MAX_SHOWN, details_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

_AMOUNT: Final = TypeAdapter(Amount)
_NUMBER: Final = "a number"
#: What the text of an instant has, and that of a day has not.
_CLOCK: Final = ":"
#: Days as databases and files write them; as many characters name the day.
_MIDNIGHT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]00:00(:00([.]0+)?)?)?")
_DAY_LENGTH: Final = 10
#: What a field of each type holds, where it is not called so.
_EXPECTED: Final = {
    "string": "text",
    "message": "text",
    "email": "an email address",
    "phone": "a phone number",
    "boolean": "true or false",
    "url": "a URL",
    "state": "0 or 1",
    "currency": "an amount of money",
}


class Unfit(ValueError):
    """The cell has another type than its property; the message says what is expected."""


class Cells:
    """The cells of a frame, column by column.

    Parameters
    ----------
    rows : sequence of mapping
        The rows by column, without missing cells.
    labels : sequence
        Label of each row, for messages.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[Hashable]) -> None:
        self._rows = rows
        self._labels = labels
        #: The first problem of each row.
        self.problems: list[str | None] = [None] * len(rows)

    def read(self, column: str, convert: Callable[[Any], Any], *, required: bool = False) -> list[Any]:
        """Return the converted cells of a column, None where they are missing or invalid."""
        values: list[Any] = []
        for position, row in enumerate(self._rows):
            cell = row.get(column)
            is_missing = cell is None or (isinstance(cell, str) and not cell.strip())
            try:
                if is_missing and required:
                    raise Unfit("a value")
                values.append(None if is_missing else convert(cell))
            except Unfit as unfit:
                values.append(None)
                found = described(None if is_missing else cell)
                self.report(position, column, f"expected {unfit}, got {found}")
        return values

    def report(self, position: int, column: str, problem: str) -> None:
        """Note a problem of a row, unless it has one."""
        if self.problems[position] is None:
            self.problems[position] = f"{self._place(position, column)}: {problem}"

    def report_repeated(self, column: str, ids: Sequence[str | None]) -> None:
        """Note ids that an earlier row has."""
        first: dict[str, int] = {}
        for position, id in enumerate(ids):
            if id is not None and first.setdefault(id, position) != position:
                self.report(position, column, f"{id!r} is also in row {self._labels[first[id]]}")

    def refuse_problems(self) -> None:
        """Refuse all rows if some are not identified: sending them again would store them twice.

        Raises
        ------
        InvalidRequest
            If there is a problem; ``details`` has the row and the problem of each.
        """
        details = details_of(self.problems, self._labels)
        if not details:
            return
        shown_problems = "; ".join(str(detail["problem"]) for detail in details[:MAX_SHOWN])
        more = f"; … ({len(details):,} rows in all; dry_run=True lists them)"
        raise errors.InvalidRequest(
            f"{shown_problems}{more if len(details) > MAX_SHOWN else ''}; nothing was sent, since each row "
            "is one conversion with an id of its own",
            field="id",
            details=details,
        )

    def in_words(self, position: int, error: str, columns: Mapping[str, str]) -> str:
        """Return an error of the service with the column of the file in place of that of the event."""
        argument, _, problem = error.partition(": ")
        if argument not in columns:
            return error
        if argument == "nonce":
            problem = "was sent before with other values, which are kept; update_statistics corrects them"
        return f"{self._place(position, columns[argument])}: {problem}"

    def _place(self, position: int, column: str) -> str:
        return f"{column} in row {self._labels[position]}"


def described(cell: Any) -> str:
    """Return a cell with its type in plain words.

    Examples
    --------
    >>> [described(cell) for cell in (900, "n/a", None, True)]
    ['number 900', "text 'n/a'", 'nothing', 'flag True']
    """
    if cell is None:
        return "nothing"
    if isinstance(cell, bool):
        return f"flag {cell}"
    if isinstance(cell, int | float | Decimal):
        return f"number {cell}"
    kind = "text " if isinstance(cell, str) else "date " if isinstance(cell, datetime) else ""
    return f"{kind}{json_values.shown(cell) if isinstance(cell, str) else cell}"


def identifier(cell: Any) -> str:
    """Return an id as text: whole numbers are ids too, and spreadsheets hold ids as numbers."""
    return str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else text(cell).strip()


def text(cell: Any) -> str:
    """Return a cell that holds text."""
    if not isinstance(cell, str):
        raise Unfit("text")
    return cell


def email(cell: Any) -> str | None:
    """Return an email address as users are matched by it, in lower case; None if it stands for nobody.

    Files write one address in several ways, and the last one sent is the address of the user.
    """
    if isinstance(cell, str) and person_ids.is_nobody(cell):
        return None
    try:
        return identifiers.normal_email(cell).lower()
    except (TypeError, ValueError):
        raise Unfit("an email address") from None


def number(cell: Any) -> Any:
    """Return a cell that holds a number, perhaps as text with a decimal point."""
    if isinstance(cell, str):
        try:
            cell = Decimal(cell.strip())
            # The largest float is below 1E+309.
            if cell.adjusted() > _LARGEST_EXPONENT:
                raise Unfit(_NUMBER)
        except InvalidOperation:
            raise Unfit(_NUMBER) from None
        cell = int(cell) if cell.is_finite() and cell == cell.to_integral_value() else float(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal) or not math.isfinite(cell):
        raise Unfit(_NUMBER)
    return cell


def amount(cell: Any) -> Any:
    """Return a cell that holds an amount of money, perhaps as text."""
    found = number(cell)
    try:
        _AMOUNT.validate_python(found)
    except ValidationError:
        raise Unfit("a number with at most 18 digits before and 6 after the decimal point") from None
    return found


def currency(cell: Any) -> str:
    """Return a cell that holds the code of a currency."""
    code = identifiers.code_of(cell)
    if code is None:
        raise Unfit(identifiers.NO_SIGN)
    return code


#: Of the largest float.
_LARGEST_EXPONENT: Final = 307
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {"string": identifier, "message": text, "email": email}
_NUMBERS: Final[Mapping[str, Callable[[Any], Any]]] = {"number": number, "currency": amount}


def reader(kind: str, column: pd.Series[Any], *, decimal: str | None) -> Callable[[Any], Any]:
    """Return the function that reads the cells of a column for a type of field.

    The decimal mark is that of the whole column. Other types are checked by the service.
    """
    if kind not in _NUMBERS:
        return _READERS.get(kind, lambda cell: cell)
    written = plain_numbers(
        _texts(column), decimal=decimal, place=f"the column {column.name!r}", field=str(column.name)
    )
    convert = _NUMBERS[kind]

    def read(cell: Any) -> Any:
        if isinstance(cell, str) and written[cell] is None:
            raise Unfit(_NUMBER)
        return convert(written[cell] if isinstance(cell, str) else cell)

    return read


def _texts(column: pd.Series[Any]) -> set[str]:
    return {cell for cell in column.tolist() if isinstance(cell, str)}


def dates(column: pd.Series[Any], zone: ZoneInfo, *, dayfirst: bool | None) -> Callable[[Any], datetime]:
    """Return the function that reads the dates of a column; a day is its last instant in the time zone."""
    holds_days = _holds_days(column)
    latest = instants.now() + MAX_AHEAD
    written = moments(_texts(column), dayfirst=dayfirst)

    def in_service_form(cell: Any) -> datetime:
        day = _day_of(cell, is_day=holds_days, argument="date")
        return instants.parse_exact(cell, argument="date") if day is None else end_of(day)

    def end_of(day: date) -> datetime:
        return instants.truncate(instants.last_instant(day, zone, argument="date"))

    def read(cell: Any) -> datetime:
        try:
            found = in_service_form(cell.strip() if isinstance(cell, str) else cell)
        except errors.InvalidRequest:
            moment, advice = written.get(cell, (None, "")) if isinstance(cell, str) else (None, "")
            if moment is None:
                example = f"a date such as '2025-01-31' or '2025-01-31T12:00:00Z'{advice}"
                raise Unfit(example) from None
            found = moment.replace(tzinfo=UTC) if _CLOCK in cell else end_of(moment.date())
        if not EARLIEST <= found <= latest:
            raise Unfit("a date from 1990 to 24 hours ahead")
        return found

    return read


def _holds_days(column: pd.Series[Any]) -> bool:
    """Return whether all values are midnights without a time zone, as pandas and databases write days."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind == "M":
        return bool((column.dropna().dt.time == time(0)).all())
    cells = column.dropna().tolist()
    return all(isinstance(cell, str) and _MIDNIGHT.fullmatch(cell.strip()) for cell in cells)


def _day_of(cell: Any, *, is_day: bool, argument: str) -> date | None:
    """Return the day that a cell names, as a midnight does in a column of days."""
    if isinstance(cell, str):
        return instants.parse_day(cell.strip()[: _DAY_LENGTH if is_day else None], argument=argument)
    if is_day and isinstance(cell, datetime) and cell == cell:
        return cell.date()
    return instants.parse_day(cell, argument=argument)


def with_instants(
    rows: pd.DataFrame, column: str, timezone: Callable[[], str], *, at_end: bool = False
) -> pd.DataFrame:
    """Return rows whose days are their first instants, or their last ones, as those of conversions are.

    Parameters
    ----------
    rows : DataFrame
        With any columns.
    column : str
        Column of dates; without it, nothing changes.
    timezone : callable
        Returns the IANA name of the zone of the days; it is asked only if there is one.
    at_end : bool, default False
        Whether a day stands for its end.
    """
    if column not in rows.columns:
        return rows
    dates = rows[column]
    are_days = _holds_days(dates)
    if not are_days and isinstance(dates.dtype, np.dtype | pd.DatetimeTZDtype) and dates.dtype.kind == "M":
        return rows

    def day_of(cell: Any) -> date | None:
        try:
            return _day_of(cell, is_day=are_days, argument=column)
        except errors.InvalidRequest:
            return None

    cells = dates.tolist()
    days = [day_of(cell) for cell in cells]
    if not any(days):
        return rows
    zone, bound = ZoneInfo(timezone()), instants.last_instant if at_end else instants.first_instant
    # Columns have values of one type.
    are_texts = any(isinstance(cell, str) for cell in cells)

    def moment_of(day: date) -> Any:
        moment = instants.truncate(bound(day, zone, argument=column))
        return instants.format(moment) if are_texts else moment

    moments = [cell if day is None else moment_of(day) for cell, day in zip(cells, days, strict=True)]
    return rows.assign(**{column: pd.Series(moments, index=dates.index, dtype=object)})


def explained(problem: Mapping[str, Any]) -> str:
    """Return a problem, as in a trashed event, in words.

    Examples
    --------
    >>> field = {"type": "string", "ingestionKey": "deal"}
    >>> explained({"type": "invalid-field", "field": field, "value": 900})
    'data.deal: expected text, got number 900'
    >>> explained({"type": "unknown-event-type", "field": None, "value": "order"})
    'unknown-event-type'
    """
    field = problem["field"]
    if not field:
        return str(problem["type"])
    expected = _EXPECTED.get(field["type"], f"a {field['type']}")
    return f"data.{field['ingestionKey']}: expected {expected}, got {described(problem['value'])}"
