"""Requests about what currencies are worth in the project's own."""

import math
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


def _check_worth(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | np.integer | np.floating):
        raise Refused
    try:
        worth = float(value)
    except OverflowError:
        raise Refused from None
    if not math.isfinite(worth) or worth <= 0:
        raise Refused
    return worth


def _check_day(value: Any) -> datetime:
    # Tables of rates name days: a rate holds from the start of its day on.
    is_day = isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)
    if is_day or (isinstance(value, date) and not isinstance(value, datetime)):
        value = f"{value}T00:00:00Z"
    instant: datetime = PAST.check(value)
    return instant


#: From when on something is worth so much.
Day: TypeAlias = Annotated[
    datetime,
    Rule(
        check=_check_day,
        allowed=f"a day, such as '2025-01-31', or {PAST.allowed}",
        json_schema={"type": "string"},
        write=instants.format,
    ),
]
Worth: TypeAlias = Annotated[
    float,
    Rule(
        check=_check_worth,
        allowed="a number above 0",
        json_schema={"type": "number", "exclusiveMinimum": 0},
    ),
]


class Rate(Part):
    """What one unit of a currency is worth in the project's from a date on (G-065); null takes it back."""

    currency: Currency
    date: Day
    rate: Worth | None


class SetRates(ProjectRequest):
    """Rates to be kept; one of the same currency and date is replaced, or removed by null."""

    rates: Annotated[tuple[Rate, ...], BOUNDED]


class ListRates(ProjectRequest):
    """The rates of a project, those of one currency if one is given."""

    currency: Currency | None = None
    offset: Offset = 0
    limit: Limit | None = None
