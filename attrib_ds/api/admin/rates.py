"""Exchange rates of currencies to the currency of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.records.frames import read_rows, to_pandas
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.project import Project
    from attrib_ds.records.input_frames import Frame


def set_rates(project: Project, rates: Frame) -> int:
    """Set exchange rates, each with the first date it applies to.

    Amounts of events in these currencies are converted to the currency of the project at the latest rate on
    or before their date. A rate of the same currency and date is replaced, or removed if the new one is
    missing; other rates stay.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    rates : DataFrame
        ``currency`` (three capital letters, as in ISO 4217), ``date`` (date, datetime or str in
        UTC; the first date of the rate) and ``rate`` (value of one unit in the project's currency, above 0;
        missing to remove the rate of that date).

    Returns
    -------
    int
        Number of rates that were added, changed or removed.

    Raises
    ------
    InvalidRequest
        If a column or cell is missing or not allowed, or a currency is that of the project.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> krone = pd.DataFrame({"currency": ["NOK"], "date": ["2025-01-01"], "rate": [0.085]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     [at.admin.set_rates(shop, krone) for _ in range(2)]
    [1, 0]
    """
    frame = read_frame("rates", rates)
    rows = read_rows(frame, required=("currency", "date", "rate"), argument="rates")
    for row in rows:
        row.setdefault("rate")
    modified: Any = project.send("set_rates", rates=rows).value
    return int(modified)


def list_rates(
    project: Project, *, currency: str | None = None, limit: int | None = None, offset: int = 0
) -> pd.DataFrame:
    """List exchange rates.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    currency : str, optional
        Only the rates of this currency.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

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
    >>> import attrib_ds as at
    >>> krone = pd.DataFrame({"currency": "NOK", "date": ["2025-01-01", "2025-02-01"], "rate": [0.085, 0.09]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.set_rates(shop, krone)
    ...     at.admin.list_rates(shop)["rate"].tolist()
    [0.085, 0.09]
    """
    answer = project.send("list_rates", currency=currency, limit=limit, offset=offset)
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame
