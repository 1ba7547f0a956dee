"""Lengths of time as users write them: ``"30D"``, ``timedelta``, ``pandas.Timedelta``."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd

from attrib_ds.errors import InvalidRequest

_ALLOWED = "allowed: a positive length of time such as '30D', '36h' or a timedelta"


def parse_duration(value: str | timedelta, *, argument: str) -> timedelta:
    """Read a positive length of time.

    Parameters
    ----------
    value : str or timedelta
        Text as pandas reads it (``"7D"``, ``"36h"``), or a ``timedelta``.
    argument : str
        Name of the argument, for the error.

    Returns
    -------
    timedelta
        To the microsecond.

    Raises
    ------
    InvalidRequest
        If the value is not a length of time, is not finite or is not positive.

    Examples
    --------
    >>> parse_duration("36h", argument="lookback")
    datetime.timedelta(days=1, seconds=43200)
    """
    if not isinstance(value, str | timedelta) or (isinstance(value, str) and value.strip().isdigit()):
        raise InvalidRequest(f"{argument}: {value!r} is not a length of time; {_ALLOWED}", field=argument)
    try:
        parsed = pd.Timedelta(value)
        # pandas reads empty text as NaT instead of raising an error.
        if pd.isna(parsed):
            raise ValueError(value)
        length = parsed.to_pytimedelta()
    except (ValueError, OverflowError) as error:
        message = f"{argument}: {value!r} is not a length of time; {_ALLOWED}"
        raise InvalidRequest(message, field=argument) from error
    if length <= timedelta(0):
        raise InvalidRequest(f"{argument}: {value!r} is not positive; {_ALLOWED}", field=argument)
    return length


def as_days(value: str | timedelta, *, argument: str) -> float:
    """Return a positive length of time in days."""
    return parse_duration(value, argument=argument) / timedelta(days=1)
