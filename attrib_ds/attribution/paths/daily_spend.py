"""Daily spend: outlays spread evenly over the seconds of their periods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution.calendar import starts_of
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    import ibis.expr.types as ir
    from numpy.typing import NDArray

_DAY = pd.Timedelta(days=1)


def daily_spend(
    outlays: ir.Table, zone: ZoneInfo, *, since: datetime | None, until: datetime | None
) -> pd.DataFrame:
    """Return the spend of each campaign by day.

    Parameters
    ----------
    outlays : ibis.Table
        ``campaignId``, ``startDate``, ``endDate`` (UTC, without a zone), ``amount.amount``,
        ``amount.currency``, ``deletedAt``.
    zone : ZoneInfo
        Time zone of the days. Days on which clocks change are shorter or longer and have less or more spend.
    since, until : datetime, optional
        Bounds of the period whose spend counts; UTC, without a zone.

    Returns
    -------
    DataFrame
        ``node_id`` (str), ``date`` (datetime64[us, UTC], start of the day, or of the part of it that counts),
        ``spend`` (float64), ``currency`` (str); one row per day of each outlay.
    """
    kept = outlays.filter(outlays.deletedAt.isnull())
    rows = to_pandas(
        kept.select(
            node_id=kept.campaignId,
            begin=kept.startDate,
            end=kept.endDate,
            amount=kept["amount.amount"].cast("float64"),
            currency=kept["amount.currency"],
        ).to_pyarrow()
    )
    begin, end = rows["begin"], rows["end"]
    seconds = (end - begin).dt.total_seconds()
    rows["rate"] = rows["amount"] / seconds.where(seconds > 0)
    if since is not None:
        rows["begin"] = begin.where(begin > pd.Timestamp(since, tz="UTC"), pd.Timestamp(since, tz="UTC"))
    if until is not None:
        rows["end"] = end.where(end < pd.Timestamp(until, tz="UTC"), pd.Timestamp(until, tz="UTC"))
    rows = rows[rows["end"] > rows["begin"]].reset_index(drop=True)
    edges = _midnights(rows, zone)
    first = np.searchsorted(edges, _utc_instants(rows["begin"]), side="right") - 1
    last = np.searchsorted(edges, _utc_instants(rows["end"]), side="left")
    days = last - first
    outlay = np.repeat(np.arange(len(rows)), days)
    day = np.arange(len(outlay)) - np.repeat(np.cumsum(days) - days, days) + first[outlay]
    spread = rows.take(outlay).reset_index(drop=True)
    begins = np.maximum(_utc_instants(spread["begin"]), edges[day])
    ends = np.minimum(_utc_instants(spread["end"]), edges[day + 1])
    return pd.DataFrame(
        {
            "node_id": spread["node_id"],
            "date": pd.Series(begins).dt.tz_localize("UTC"),
            "spend": spread["rate"] * ((ends - begins) / np.timedelta64(1, "s")),
            "currency": spread["currency"],
        }
    )


def _midnights(rows: pd.DataFrame, zone: ZoneInfo) -> NDArray[np.datetime64]:
    """Return the starts of all days that rows overlap, and the end of the last one."""
    if rows.empty:
        return np.zeros(0, dtype="datetime64[us]")
    first = rows["begin"].min().tz_convert(zone).tz_localize(None).normalize()
    last = rows["end"].max().tz_convert(zone).tz_localize(None).normalize()
    days = pd.Series(pd.date_range(first, last + _DAY, freq="D"))
    return _utc_instants(starts_of(days, zone))


def _utc_instants(instants: pd.Series[Any]) -> NDArray[np.datetime64]:
    return np.asarray(instants.dt.tz_localize(None).to_numpy().astype("datetime64[us]"))
