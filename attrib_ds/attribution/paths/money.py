"""What conversions are worth: in one currency, and with the amounts that came later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.paths.tree import lazy, require_columns
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Column of conversions: the date of the event itself, where windows end at that of a state.
OCCURRED = "occurred_date"
#: Column of conversions: their value without what came later.
ORIGINAL = "original_value"

_LATER_RATES = ("original", "own")
_FOREVER = pd.Timestamp("9999-12-31")


@dataclass(frozen=True, eq=False)
class Money:
    """The currency that amounts are told in, and the rates that bring them there.

    Attributes
    ----------
    currency : str or None
        None leaves every amount in its own.
    rates : DataFrame
        ``currency``, ``since``, ``until`` (in UTC, without a zone), ``rate``.
    later_rate : str
        ``"original"`` or ``"own"``: the date whose rate a later amount has.
    """

    currency: str | None
    rates: pd.DataFrame
    later_rate: str = "original"

    @classmethod
    def of(cls, currency: str | None, rates: pd.DataFrame | None, *, later_rate: str = "original") -> Money:
        """Read rates as users write them.

        Parameters
        ----------
        currency : str, optional
            The currency to convert to.
        rates : DataFrame, optional
            ``currency``, ``date`` (the rate holds from then on, until the next one of the currency; without
            an offset in UTC) and ``rate``, what one unit is worth in the currency to convert to.
        later_rate : {"original", "own"}
            Which date's rate a later amount has.

        Raises
        ------
        InvalidRequest
            If an argument or a cell is not allowed.
        """
        if later_rate not in _LATER_RATES:
            raise InvalidRequest.choice("later_rate", later_rate, _LATER_RATES)
        if currency is None and rates is not None:
            raise InvalidRequest(
                "rates: there is no currency to convert to; name it with in_currency=", field="rates"
            )
        if currency is not None and (not isinstance(currency, str) or not currency):
            raise InvalidRequest(
                f"in_currency: {currency!r} is not a currency; allowed: a code such as 'EUR'",
                field="in_currency",
            )
        read = pd.DataFrame(columns=["currency", "date", "rate"]) if rates is None else _checked(rates)
        known = read[read["currency"] != currency].sort_values(["currency", "date"], ignore_index=True)
        until = known.groupby("currency")["date"].shift(-1).fillna(_FOREVER)
        columns = {
            "currency": known["currency"].astype("str"),
            "since": known["date"],
            "until": until,
            "rate": known["rate"].astype("float64"),
        }
        return cls(currency, pd.DataFrame(columns), later_rate)

    def described(self) -> dict[str, str]:
        """Return the currency and the rates in words, where there are any."""
        if self.currency is None:
            return {}
        return {"in_currency": self.currency, "later_rate": self.later_rate}

    def converted(self, rows: ir.Table, *, date: str, argument: str) -> ir.Table:
        """Convert the ``value`` of rows from their ``currency`` by the rates of a date.

        Parameters
        ----------
        rows : ibis.Table
            With ``value``, ``currency`` and the date; a row without a value has no currency to convert from.
        date : str
            Column of the date.
        argument : str
            Where the rows come from, for the error.

        Raises
        ------
        InvalidRequest
            If a currency has no rate at a date, or a value no currency; the message names the first.
        """
        if self.currency is None:
            return rows
        rates = lazy(self.rates.rename(columns={"currency": "of_currency", "rate": "unit_worth"}))
        holds = [
            rows.currency == rates.of_currency,
            rows[date] >= rates.since,
            rows[date] < rates.until,
        ]
        rated = rows.left_join(rates, holds).drop("of_currency", "since", "until")
        worth = ibis.ifelse(rated.currency == self.currency, 1.0, rated.unit_worth)
        rated = rated.mutate(unit_worth=worth)
        missing = rated.filter(rated.value.notnull() & rated.unit_worth.isnull())
        first = missing.order_by(missing[date], missing.currency).limit(1)
        for row in first.select("currency", date).to_pyarrow().to_pylist():
            raise self._missing(row["currency"], row[date], argument)
        told = rated.mutate(
            value=rated.value * rated.unit_worth,
            currency=ibis.ifelse(rated.value.isnull(), ibis.null("string"), ibis.literal(self.currency)),
        )
        return told.drop("unit_worth")

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
        rows = pd.DataFrame({"currency": spend["currency"], "date": dates, "row": np.arange(len(spend))})
        rates = self.rates.rename(columns={"since": "date"}).sort_values("date")
        found = pd.merge_asof(rows.sort_values("date"), rates, on="date", by="currency").sort_values("row")
        worth = np.where(found["currency"] == self.currency, 1.0, found["rate"].astype("float64"))
        unknown = np.isnan(worth)
        if unknown.any():
            row = found.loc[unknown].sort_values(["date", "currency"]).iloc[0]
            raise self._missing(row["currency"], row["date"], "spend")
        return spend.assign(spend=spend["spend"].to_numpy() * worth, currency=self.currency)

    def _missing(self, currency: object, date: Any, argument: str) -> InvalidRequest:
        if currency is None:
            return InvalidRequest(
                f"in_currency: an amount of {argument} on {date:%Y-%m-%d} has no currency to convert from",
                field="in_currency",
            )
        return InvalidRequest(
            f"rates: there is no rate of {currency} to {self.currency} on {date:%Y-%m-%d}, which {argument} "
            f"need; allowed: rates with the columns currency, date and rate that begin on that day or before",
            field="rates",
        )


def settled(conversions: ir.Table, later: ir.Table | None, money: Money) -> tuple[ir.Table, ir.Table | None]:
    """Bring conversions and later amounts into one currency, and add the amounts to their conversions.

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
        The conversions with their value net and as ``ORIGINAL`` where there are later amounts; and those
        amounts of theirs: ``event_id``, ``date``, ``value``.

    Raises
    ------
    InvalidRequest
        If a rate is missing, or a later amount is in another currency than its conversion and nothing says
        what to convert to.
    """
    own = OCCURRED if OCCURRED in conversions.columns else "event_date"
    told = money.converted(conversions, date=own, argument="conversions")
    if later is None:
        return told, None
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
    both = told.left_join(summed, told.event_id == summed.later_of)
    original = both.value.coalesce(0.0)
    both = both.mutate(**{ORIGINAL: original}, value=original + both.later_value.coalesce(0.0))
    return both.drop("later_of", "later_value"), amounts


def shared_out(touches: ir.Table) -> ir.Table:
    """Let the net value of all conversions be shared out as their original values were.

    For models that learn from values: what came later must not change what they learn, only how much there is
    to divide. Conversions worth more and less than nothing are kept apart, as those models do.

    Parameters
    ----------
    touches : ibis.Table
        Of paths with later amounts.

    Returns
    -------
    ibis.Table
        The same rows, with another ``value``.
    """
    original, is_loss = touches[ORIGINAL], touches[ORIGINAL] < 0
    alike = ibis.window(group_by=[touches.currency, is_loss])
    of_one = ibis.ifelse(touches.position == touches.length, 1.0, 0.0)
    whole, net = (total(each * of_one, over=alike) for each in (original, touches.value))
    count = of_one.sum().over(alike)
    # Values that were all 0 tell nothing apart: every conversion has an equal part of what came later.
    value = ibis.ifelse(whole != 0, original * (net / whole.nullif(0.0)), net / count)
    return touches.mutate(value=value)


def _refuse_other_currencies(later: ir.Table) -> None:
    other = later.filter(~later.currency.identical_to(later.unit)).order_by("event_id", "date").limit(1)
    for row in other.select("event_id", "currency", "unit").to_pyarrow().to_pylist():
        raise InvalidRequest(
            f"adjustments: that of {row['event_id']!r} is in {row['currency']}, its conversion in "
            f"{row['unit'] or 'no currency'}; name a currency to convert to with in_currency=",
            field="adjustments",
        )


def _checked(rates: pd.DataFrame) -> pd.DataFrame:
    require_columns(rates, "rates", ("currency", "date", "rate"))
    currencies = rates["currency"].astype("str")
    # Numbers may be days as well as seconds, and tell nothing.
    written = rates["date"] if not is_numeric_dtype(rates["date"]) else pd.Series(pd.NaT, index=rates.index)
    dates = pd.to_datetime(written, utc=True, errors="coerce", format="ISO8601").dt.tz_localize(None)
    # A frame that came in nanoseconds has no room for the end of all time.
    dates = dates.astype("datetime64[us]")
    worth = pd.to_numeric(rates["rate"], errors="coerce").astype("float64")
    faults = (
        ("currency", currencies.isna(), "is missing"),
        ("date", dates.isna(), "is not a date; allowed: dates, instants or text such as '2025-01-31'"),
        ("rate", ~np.isfinite(worth) | (worth <= 0), "is not a rate; allowed: numbers above 0"),
        (
            "date",
            pd.DataFrame({"currency": currencies, "date": dates}).duplicated(),
            "is there twice for its currency",
        ),
    )
    for column, wrong, complaint in faults:
        if wrong.any():
            row = int(np.asarray(wrong).argmax())
            given = rates[column].tolist()[row]
            raise InvalidRequest(
                f"rates: the column {column!r} {complaint}, first in row {row} ({given!r})",
                field="rates",
            )
    return pd.DataFrame({"currency": currencies, "date": dates, "rate": worth})
