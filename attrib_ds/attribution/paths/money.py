"""Value of conversions: dated, converted to one currency, and net of later amounts such as refunds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds.attribution.engines.engine import total
from attrib_ds.attribution.paths.project_tables import lazy
from attrib_ds.display import cents, counted
from attrib_ds.errors import InvalidRequest, check_choice, warn
from attrib_ds.records.currencies import checked_code, codes_of_column
from attrib_ds.records.frames import TEXT, Frame, read_frame

#: Column of conversions: the date of the event, if windows end at the date of a state.
OCCURRED = "occurred_date"
#: Column of conversions: their value without later amounts.
ORIGINAL = "original_value"

_LATER_RATES = ("original", "own")
#: Amounts below this are errors of rounding.
_ROUNDING = 1e-6
_FOREVER = pd.Timestamp("9999-12-31")


@dataclass(frozen=True, eq=False)
class Money:
    """The currency to convert amounts to, and the exchange rates.

    Attributes
    ----------
    currency : str or None
        None leaves every amount in its own currency.
    rates : DataFrame
        ``currency``, ``since``, ``until`` (in UTC, without a zone), ``rate``.
    later_rate : str
        ``"original"`` or ``"own"``: the date of the rate of later amounts, the conversion's or their own.
    """

    currency: str | None
    rates: pd.DataFrame
    later_rate: str = "original"

    @classmethod
    def of(cls, currency: str | None, rates: Frame | None, *, later_rate: str = "original") -> Money:
        """Read rates as users write them.

        Parameters
        ----------
        currency : str, optional
            The currency to convert to.
        rates : DataFrame, optional
            ``currency``, ``date`` (from which the rate is valid, until the next date of the currency; UTC
            unless it has an offset) and ``rate`` (worth of one unit in the currency to convert to).
        later_rate : {"original", "own"}
            Whether later amounts have the rate of the conversion's date or their own.

        Raises
        ------
        InvalidRequest
            If an argument or a cell is not allowed.
        """
        check_choice("later_rate", later_rate, _LATER_RATES)
        if currency is None and rates is not None:
            raise InvalidRequest("rates: in_currency is required with rates; pass the currency to convert to")
        if currency is not None:
            currency = checked_code("in_currency", currency)
        checked = pd.DataFrame(columns=["currency", "date", "rate"]) if rates is None else _checked(rates)
        other = checked[checked["currency"] != currency].sort_values(["currency", "date"], ignore_index=True)
        until = other.groupby("currency")["date"].shift(-1).fillna(_FOREVER)
        periods = other.rename(columns={"date": "since"}).assign(until=until)
        return cls(currency, periods.astype({"currency": TEXT, "rate": "float64"}), later_rate)

    def described(self) -> dict[str, str]:
        """Return the settings as text by name; empty if nothing is converted."""
        return {} if self.currency is None else {"in_currency": self.currency, "later_rate": self.later_rate}

    def converted(self, rows: ir.Table, *, date: str, argument: str) -> ir.Table:
        """Convert the ``value`` of rows from their ``currency`` by the rates of a date.

        Parameters
        ----------
        rows : ibis.Table
            With ``value``, ``currency`` and the date; rows without a value stay without one.
        date : str
            Column of the date.
        argument : str
            Name of the rows, for the error.

        Raises
        ------
        InvalidRequest
            If a currency has no rate at a date, or a value has no currency; the message names the first.
        """
        if self.currency is None:
            return rows
        rates = lazy(self.rates.rename(columns={"currency": "of_currency", "rate": "unit_worth"}))
        is_valid = [rows.currency == rates.of_currency, rows[date] >= rates.since, rows[date] < rates.until]
        rated = rows.left_join(rates, is_valid).drop("of_currency", "since", "until")
        worth = ibis.ifelse(rated.currency == self.currency, 1.0, rated.unit_worth)
        rated = rated.mutate(unit_worth=worth)
        # Nothing is worth nothing in every currency.
        missing = rated.filter((rated.value != 0) & rated.unit_worth.isnull())
        first = missing.order_by(missing[date], missing.currency).limit(1)
        for row in first.select("currency", date).to_pyarrow().to_pylist():
            raise self._missing_rate(row["currency"], row[date], argument)
        converted = rated.mutate(
            value=rated.value * rated.unit_worth.fill_null(1.0),
            currency=ibis.ifelse(rated.value.isnull(), ibis.null("string"), ibis.literal(self.currency)),
        )
        return converted.drop("unit_worth")

    def converted_spend(self, spend: pd.DataFrame) -> pd.DataFrame:
        """Convert ``spend`` by the rates of ``date``.

        Raises
        ------
        InvalidRequest
            If a currency has no rate at a date.
        """
        if self.currency is None or spend.empty:
            return spend
        dates = spend["date"].dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[us]")
        rows = pd.DataFrame(
            {"currency": spend["currency"], "date": dates, "row": np.arange(len(spend), dtype=np.int64)}
        )
        rates = self.rates.rename(columns={"since": "date"}).sort_values("date")
        found = pd.merge_asof(rows.sort_values("date"), rates, on="date", by="currency").sort_values("row")
        worth = np.where(found["currency"] == self.currency, 1.0, found["rate"].astype("float64"))
        has_no_rate = np.isnan(worth)
        if has_no_rate.any():
            row = found.loc[has_no_rate].sort_values(["date", "currency"]).iloc[0]
            raise self._missing_rate(row["currency"], row["date"], "spend")
        return spend.assign(spend=spend["spend"].to_numpy() * worth, currency=self.currency)

    def _missing_rate(self, currency: object, date: Any, argument: str) -> InvalidRequest:
        if currency is None:
            return InvalidRequest(
                f"in_currency: an amount of {argument} on {date:%Y-%m-%d} has no currency to convert from"
            )
        return InvalidRequest(
            f"rates: there is no rate of {currency} to {self.currency} on {date:%Y-%m-%d}, which {argument} "
            "need; add a row with the columns currency, date and rate that is valid from that day or earlier"
        )


def apply_later_amounts(
    conversions: ir.Table, later: ir.Table | None, money: Money
) -> tuple[ir.Table, ir.Table | None]:
    """Convert conversions and later amounts to one currency, and add the amounts to their conversions.

    Parameters
    ----------
    conversions : ibis.Table
        ``event_id``, ``event_date`` (and ``OCCURRED``), ``value``, ``currency``.
    later : ibis.Table, optional
        ``event_id``, ``date``, ``value``, ``currency`` (null for that of the conversion).
    money : Money
        Currency and rates.

    Returns
    -------
    tuple of ibis.Table
        The conversions, with their net value and ``ORIGINAL`` if there are later amounts; and the later
        amounts of these conversions: ``event_id``, ``date``, ``value``.

    Raises
    ------
    InvalidRequest
        If a rate is missing, or a later amount is in another currency than its conversion and there is no
        currency to convert to.
    """
    own = OCCURRED if OCCURRED in conversions.columns else "event_date"
    converted = money.converted(conversions, date=own, argument="conversions")
    if later is None:
        return converted, None
    whole = conversions.select(later_of="event_id", rate_date=own, unit="currency")
    joined = later.inner_join(whole, later.event_id == whole.later_of)
    if money.later_rate == "own":
        joined = joined.mutate(rate_date=joined.date)
    joined = joined.mutate(currency=joined.currency.coalesce(joined.unit))
    if money.currency is None:
        _refuse_other_currencies(joined)
    amounts = money.converted(joined, date="rate_date", argument="adjustments")
    amounts = amounts.select("event_id", "date", "value")
    summed = amounts.group_by("event_id").agg(later_value=total(amounts.value)).rename(later_of="event_id")
    both = converted.left_join(summed, converted.event_id == summed.later_of)
    original = both.value.coalesce(0.0)
    both = both.mutate(**{ORIGINAL: original}, value=original + both.later_value.coalesce(0.0))
    return both.drop("later_of", "later_value"), amounts


def warn_of_later_amounts(conversions: ir.Table, later: ir.Table) -> None:
    """Warn of later amounts of no conversion, and of those that are the value of their conversion itself.

    Warns
    -----
    InputWarning
        With their number.
    """
    whole = conversions.select(later_of="event_id", whole="value", bought="event_date")
    joined = later.left_join(whole, later.event_id == whole.later_of)
    is_lost, is_same = joined.later_of.isnull(), (joined.value == joined.whole) & (joined.whole > 0)
    # Renewals come a week later or more; a conversion of a day stands at its end.
    is_soon = joined.date < joined.bought + ibis.interval(days=6)
    (found,) = (
        joined.aggregate(
            count=joined.count(),
            lost=joined.count(where=is_lost),
            example=joined.event_id.min(where=is_lost),
            same=joined.count(where=is_same),
            soon=joined.count(where=is_same & is_soon),
        )
        .to_pyarrow()
        .to_pylist()
    )
    if found["lost"]:
        warn(
            f"adjustments: no conversion has the event_id of {found['lost']:,} of "
            f"{counted(found['count'], 'rows')}, such as {found['example']!r}: they change nothing"
        )
    if found["soon"] and found["same"] == found["count"] - found["lost"]:
        warn(
            "adjustments: each value equals the value of its conversion, which then counts twice; pass "
            "changes, such as -30.0 for a refund"
        )


def warn_of_excess(conversions: ir.Table) -> None:
    """Warn of conversions above 0 whose later amounts, such as refunds, leave less than 0."""
    is_excess = (conversions[ORIGINAL] > 0) & (conversions.value < -_ROUNDING)
    example = conversions.filter(is_excess).order_by("event_id").limit(1)
    rows = example.select("event_id", ORIGINAL, "value").to_pyarrow().to_pylist()
    if rows:
        count = conversions.filter(is_excess).count().to_pyarrow().as_py()
        (row,) = rows
        warn(
            f"adjustments: {counted(count, 'conversions')} with refunds above the value; after its refunds, "
            f"{row['event_id']!r} has {cents(row['value'])} of {cents(row[ORIGINAL])}"
        )


def scale_original_values(touches: ir.Table) -> ir.Table:
    """Scale the original values of conversions so that they sum to the net value.

    For models that learn from values: later amounts must not change what they learn, only how much there is
    to divide. Positive and negative values are scaled separately, as in those models.

    Parameters
    ----------
    touches : ibis.Table
        Touches of paths with later amounts.

    Returns
    -------
    ibis.Table
        The same rows, with another ``value``.
    """
    original, is_loss = touches[ORIGINAL], touches[ORIGINAL] < 0
    same_sign = ibis.window(group_by=[touches.currency, is_loss])
    of_one = ibis.ifelse(touches.position == touches.length, 1.0, 0.0)
    whole, net = (total(values * of_one, over=same_sign) for values in (original, touches.value))
    count = of_one.sum().over(same_sign)
    # If all original values are 0, later amounts are divided equally.
    value = ibis.ifelse(whole != 0, original * (net / whole.nullif(0.0)), net / count)
    return touches.mutate(value=value)


def _refuse_other_currencies(later: ir.Table) -> None:
    other = later.filter(~later.currency.identical_to(later.unit)).order_by("event_id", "date").limit(1)
    for row in other.select("event_id", "currency", "unit").to_pyarrow().to_pylist():
        raise InvalidRequest(
            f"adjustments: the amount of {row['event_id']!r} is in {row['currency']}, its conversion in "
            f"{row['unit'] or 'no currency'}; convert both with in_currency="
        )


def _checked(rates: Frame) -> pd.DataFrame:
    rates = read_frame("rates", rates, ("currency", "date", "rate"))
    currencies = codes_of_column("rates", rates["currency"])
    dates = read_dates(rates["date"]).dt.tz_localize(None)
    # Nanoseconds cannot represent the year 9999.
    dates = dates.astype("datetime64[us]")
    worth = pd.to_numeric(rates["rate"], errors="coerce").astype("float64")
    faults = (
        ("currency", currencies.isna(), "is missing"),
        ("date", dates.isna(), f"is not a date; allowed: {ALLOWED}"),
        ("rate", ~np.isfinite(worth) | (worth <= 0), "is not a rate; allowed: numbers above 0"),
        (
            "date",
            pd.DataFrame({"currency": currencies, "date": dates}).duplicated(),
            "occurs twice for its currency",
        ),
    )
    for column, wrong, complaint in faults:
        if wrong.any():
            row = int(np.asarray(wrong).argmax())
            given = rates[column].tolist()[row]
            raise InvalidRequest(f"rates: the column {column!r} {complaint}, first in row {row} ({given!r})")
    return pd.DataFrame({"currency": currencies, "date": dates, "rate": worth})


#: What errors say about a value that is not a date.
ALLOWED = "dates, timestamps or ISO 8601 text such as '2025-01-31'"

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
_ISO_8601 = re.compile(rf"(?:{_DAY.pattern})(?:[Tt ].+)?")


def read_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the instants of a column in UTC, missing where the value is not a date.

    Parameters
    ----------
    column : Series
        Dates, timestamps or ISO 8601 text with a day; UTC unless they have an offset. Other text, such as
        ``"01.02.2025"``, has two readings, and so have numbers: days, seconds or milliseconds.

    Examples
    --------
    >>> read_dates(pd.Series(["2025-02-01", "01.02.2025", 45658])).dt.strftime("%d %B").tolist()
    ['01 February', nan, nan]
    """
    if not _holds_instants(column):
        column = pd.Series([_date(value) for value in column], index=column.index, dtype=object)
    return pd.to_datetime(column, utc=True, errors="coerce", format="ISO8601")


def local_days_of(column: pd.Series[Any], zone: ZoneInfo) -> pd.Series[Any]:
    """Return the local day of each date of a column, without a zone; missing where the value is not a date.

    A date without a time is that day in any zone, and so is each of a column of midnights without a zone, as
    pandas holds days.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> dates = pd.Series(["2025-02-01", "2025-02-01T00:00:00Z"])
    >>> local_days_of(dates, ZoneInfo("America/New_York")).dt.day.tolist()
    [1, 31]
    """
    instants = pd.DatetimeIndex(read_dates(column))
    local = instants.tz_convert(zone).tz_localize(None).normalize()
    days = local.where(~_are_days(column), instants.tz_localize(None).normalize())
    return pd.Series(days, index=column.index)


def _holds_instants(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    holds_days = isinstance(dtype, pd.ArrowDtype) and pa.types.is_date(dtype.pyarrow_dtype)
    return dtype.kind == "M" and not holds_days


def _date(value: object) -> object:
    """Return a value that pandas reads as a date in one way only, or None."""
    if isinstance(value, str):
        text = value.strip()
        return text if _ISO_8601.fullmatch(text) else None
    return value if isinstance(value, date | np.datetime64) else None


def _are_days(column: pd.Series[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if _holds_instants(column):
        is_midnight = column.dt.tz is None and bool((column.dropna().dt.time == time(0)).all())
        return np.full(len(column), is_midnight)
    return np.array([_is_day(value) for value in column], dtype=bool)


def _is_day(value: object) -> bool:
    if isinstance(value, str):
        return _DAY.fullmatch(value.strip()) is not None
    return isinstance(value, date) and not isinstance(value, datetime)
