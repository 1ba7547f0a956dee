"""Generate the weekly spend of campaigns."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attrib_ds import schema
from sample_data import demand
from sample_data.columns import table_of
from sample_data.identifiers import object_ids

if TYPE_CHECKING:
    import pyarrow as pa

_WEEK = 7 * demand.DAY


@dataclass(frozen=True)
class Price:
    """Price of a campaign in euros per visit and per week, in the weeks of ``days``."""

    campaign: str
    per_visit: float = 0.0
    per_week: float = 0.0
    days: tuple[int, int] = (0, demand.DAYS)


PRICES = (
    Price("google-ads/brand", 0.63, 6.0),
    Price("google-ads/hiking", 2.07, 9.0),
    Price("google-ads/camping", 1.89, 9.0, (42, demand.DAYS)),
    Price("google-ads/shopping", 1.35, 7.5),
    Price("google-ads/display", 1.44, 18.0),
    Price("meta-ads/prospecting", 1.71, 22.5),
    Price("meta-ads/retargeting", 1.62, 12.0),
    Price("meta-ads/spring-sale", 1.53, 15.0, (63, 105)),
    Price("meta-ads/reels-test", 0.0, 60.0, (91, 147)),
    Price("newsletter/weekly", 0.0, 25.0),
    Price("newsletter/spring-sale", 0.0, 18.0, (70, 98)),
    Price("newsletter/summer-preview", 0.0, 18.0, (154, 168)),
    Price("affiliate/gear-tests", 1.08, 0.0),
    Price("affiliate/trail-magazine", 0.90, 0.0),
    Price("affiliate/coupon-corner", 2.88, 0.0),
)


def outlay_table(rng: np.random.Generator, timeline: pd.DataFrame) -> pa.Table:
    """Draw the outlays of the paid campaigns.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    timeline : DataFrame
        From :func:`sample_data.visits.visits`.

    Returns
    -------
    pyarrow.Table
        One row per campaign and week it ran, by week, in the OUTLAY schema; the last week ends with June.

    Examples
    --------
    >>> timeline = pd.DataFrame({"source": ["google-ads/brand"], "start": [demand.OPENING]})
    >>> outlay_table(np.random.default_rng(1), timeline)["campaignId"][0].as_py()
    'google-ads/brand'
    """
    prices = pd.DataFrame([vars(price) for price in PRICES])
    weeks = pd.DataFrame({"week": np.arange(-(-demand.DAYS // 7))})
    outlays = weeks.merge(prices, how="cross")
    opens, closes = outlays["days"].str[0], outlays["days"].str[1]
    outlays = outlays[(outlays["week"] * 7 >= opens) & (outlays["week"] * 7 < closes)].reset_index(drop=True)
    counts = pd.DataFrame(
        {"campaign": timeline["source"], "week": demand.day_index(timeline["start"].to_numpy()) // 7}
    ).value_counts()
    visits = counts.reindex(pd.MultiIndex.from_frame(outlays[["campaign", "week"]]), fill_value=0).to_numpy()
    noise = 0.9 + 0.2 * rng.random(len(outlays))
    cents = np.round((outlays["per_visit"] * visits + outlays["per_week"]) * noise * 100).astype(np.int64)
    start = demand.OPENING + outlays["week"].to_numpy() * _WEEK
    end = np.minimum(start + _WEEK, demand.CLOSING)
    return table_of(
        {
            "_id": object_ids(end, "d06b52c9f8"),
            "integrationId": outlays["campaign"].str.partition("/")[0],
            "campaignId": outlays["campaign"],
            "amount.amount": [Decimal(cent).scaleb(-2) for cent in cents.tolist()],
            "amount.currency": ["EUR"] * len(outlays),
            "startDate": start,
            "endDate": end,
            "createdAt": end,
            "updatedAt": end,
        },
        schema.OUTLAY,
    )
