"""What currencies are worth in the currency of the project, as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.records.frames import read_rows, to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.project import Project


def set_rates(project: Project, rates: pd.DataFrame) -> int:
    """Set what currencies are worth from dates on.

    Amounts of events in these currencies count in the currency of the project from then on, each by the
    latest rate at its date. A rate of the same currency and date is replaced, or removed where the new one
    is missing; the other ones stay.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    rates : DataFrame
        ``currency`` (three capital letters, as in ISO 4217), ``date`` (date, datetime or str, from
        which on the rate holds, in UTC) and ``rate`` (what one unit of the currency is worth in the
        project's, above 0; missing to remove the rate of that date).

    Returns
    -------
    int
        How many rates are new, have changed or are gone.

    Raises
    ------
    InvalidRequest
        If a column or cell is missing or not allowed, or a currency is that of the project.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import admin, connect
    >>> krone = pd.DataFrame({"currency": ["NOK"], "date": ["2025-01-01"], "rate": [0.085]})
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     [admin.set_rates(shop, krone) for _ in range(2)]
    [1, 0]
    """
    rows = read_rows(rates, required=("currency", "date", "rate"), argument="rates")
    for row in rows:
        row.setdefault("rate")
    modified: Any = project.send("set_rates", rates=rows).value
    return int(modified)


def list_rates(
    project: Project, *, currency: str | None = None, limit: int | None = None, offset: int = 0
) -> pd.DataFrame:
    """List what currencies are worth.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    currency : str, optional
        Only the rates of this currency.
    limit, offset : int, optional
        At most so many, and how many to skip; all by default.

    Returns
    -------
    DataFrame
        One row per rate, by currency, then by date: ``currency`` (str), ``date`` and ``rate`` (float64).
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import admin, connect
    >>> krone = pd.DataFrame({"currency": "NOK", "date": ["2025-01-01", "2025-02-01"], "rate": [0.085, 0.09]})
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = admin.set_rates(shop, krone)
    ...     admin.list_rates(shop)["rate"].tolist()
    [0.085, 0.09]
    """
    answer = project.send("list_rates", currency=currency, limit=limit, offset=offset)
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame
