"""Requests about exchange rates to the currency of the project."""

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

import numpy as np

from attrib_ds import instants
from attrib_ds.contract.integrations import Currency
from attrib_ds.contract.request import Part, ProjectRequest
from attrib_ds.contract.rule import Refused, Rule
from attrib_ds.contract.values import BOUNDED, PAST, Limit, Offset
from attrib_ds.json_numbers import MOST_DIGITS


def _check_rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | np.integer | np.floating):
        raise Refused
    # Comparing a NaN raises, if it is a decimal.
    if (isinstance(value, Decimal) and value.is_nan()) or not 0 < value < 10**MOST_DIGITS:
        raise Refused
    return float(value)


def _check_day(value: Any) -> datetime:
    # Tables of rates have days: a rate applies from the start of its day.
    is_day = isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)
    if is_day or (isinstance(value, date) and not isinstance(value, datetime)):
        value = f"{value}T00:00:00Z"
    instant: datetime = PAST.check(value)
    return instant


#: When a rate starts to apply.
Day: TypeAlias = Annotated[
    datetime,
    Rule(
        check=_check_day,
        expected=f"a day, such as '2025-01-31', or {PAST.expected}",
        json_schema={"type": "string"},
        write=instants.format,
    ),
]
ExchangeRate: TypeAlias = Annotated[
    float,
    Rule(
        check=_check_rate,
        expected="a number above 0 and below 1e18",
        json_schema={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e18},
    ),
]


class Rate(Part):
    """The value of one unit of a currency in that of the project, from a date on (G-065); null removes it."""

    currency: Currency
    date: Day
    rate: ExchangeRate | None


class SetRates(ProjectRequest):
    """Set rates; a rate replaces the one of the same currency and date, and null removes it."""

    rates: Annotated[tuple[Rate, ...], BOUNDED]


class ListRates(ProjectRequest):
    """List the rates of a project, optionally of one currency."""

    currency: Currency | None = None
    offset: Offset = 0
    limit: Limit | None = None
