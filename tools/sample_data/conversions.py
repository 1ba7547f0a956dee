"""Generate orders and leads as events, with their states and statistics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from attrib_ds.schema import INSTANT
from sample_data import demand
from sample_data.columns import Objects, Seconds, mask_unknown, table_of
from sample_data.identifiers import object_ids, uuids
from sample_data.people import pick
from sample_data.places import places

#: Columns of the events: properties of the resource, then one column per user field, event field and metric.
EVENTS = pa.schema(
    [
        ("_id", pa.string()),
        ("userId", pa.string()),
        ("eventDate", INSTANT),
        ("eventType", pa.string()),
        ("user.email", pa.string()),
        ("event.orderNumber", pa.string()),
        ("states.confirmed", pa.int64()),
        ("states.confirmed.date", INSTANT),
        ("states.refunded", pa.int64()),
        ("states.refunded.date", INSTANT),
        ("states.qualified", pa.int64()),
        ("states.qualified.date", INSTANT),
        ("states.converted", pa.int64()),
        ("states.converted.date", INSTANT),
        ("statistics.turnover.amount", pa.float64()),
        ("statistics.turnover.currency", pa.string()),
        ("statistics.items", pa.int64()),
    ]
)

_UNTRACKED_ORDERS = 45  # store orders of customers without a visit
_LATE_ORDERS = 70  # orders of people whose last visit was more than 30 days ago
_PRICES = np.array([24.90, 39.95, 59.95, 89.00, 119.95, 149.00, 189.95, 279.00])
_PRICE_WEIGHTS = np.array([0.22, 0.22, 0.19, 0.14, 0.10, 0.07, 0.04, 0.02])


def event_table(rng: np.random.Generator, timeline: pd.DataFrame, people: pd.DataFrame) -> pa.Table:
    """Draw the events.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    timeline : DataFrame
        From :func:`sample_data.visits.visits`.
    people : DataFrame
        From :func:`sample_data.people.people`.

    Returns
    -------
    pyarrow.Table
        One row per event, by date, with the columns ``EVENTS``.

    Examples
    --------
    >>> from sample_data.journeys import journeys
    >>> from sample_data.people import people
    >>> from sample_data.visits import visits
    >>> rng = np.random.default_rng(1)
    >>> visitors = people(rng)
    >>> events = event_table(rng, visits(rng, journeys(rng, visitors), visitors).timeline, visitors)
    >>> events["eventType"].unique().sort().to_pylist()
    ['lead', 'order']
    """
    parts = [_orders(timeline), _leads(timeline), _late_orders(rng, timeline), _untracked_orders(rng)]
    events = pd.concat(parts, ignore_index=True).sort_values(["date", "user_id", "type"], ignore_index=True)
    # The data ends with the last day.
    events = events[events["date"] < demand.CLOSING].reset_index(drop=True)
    dates: Seconds = events["date"].to_numpy()
    is_order = (events["type"] == "order").to_numpy()
    number = np.cumsum(is_order)
    columns = {
        "_id": uuids(dates, rng.integers(4_096, size=len(events)), "1b7c2f8835b1a64"),
        "userId": events["user_id"],
        "eventDate": dates,
        "eventType": events["type"],
        "user.email": _emails(rng, events, people, is_order),
        "event.orderNumber": [
            f"SO-2025-{count:05d}" if ordered else None
            for count, ordered in zip(number.tolist(), is_order.tolist(), strict=True)
        ],
        **_states(rng, dates, is_order),
        **_statistics(rng, events, people, is_order),
    }
    return table_of(columns, EVENTS)


def _orders(timeline: pd.DataFrame) -> pd.DataFrame:
    bought = timeline[timeline["orders"]]
    return _rows("order", bought, bought["end"] + bought["lag"])


def _leads(timeline: pd.DataFrame) -> pd.DataFrame:
    asked = timeline[timeline["asks"]]
    return _rows("lead", asked, asked["end"])


def _late_orders(rng: np.random.Generator, timeline: pd.DataFrame) -> pd.DataFrame:
    """Draw store orders 31 to 70 days after the customer's last visit."""
    buyers = timeline[timeline["kind"].isin(["customer", "subscriber"])]
    last = buyers.groupby("person").tail(1)
    quiet = last[last["end"] < demand.CLOSING - 71 * demand.DAY]
    chosen = quiet.iloc[np.sort(np.argsort(rng.random(len(quiet)))[:_LATE_ORDERS])]
    wait = (31 * demand.DAY + np.floor(rng.random(len(chosen)) * 39 * demand.DAY)).astype(np.int64)
    return _rows("order", chosen, chosen["end"] + wait)


def _untracked_orders(rng: np.random.Generator) -> pd.DataFrame:
    dates = np.sort(demand.instants(rng.random(_UNTRACKED_ORDERS)))
    ids = object_ids(dates, "9e41d7f20b")
    return pd.DataFrame({"type": "order", "user_id": ids, "person": -1, "date": dates})


def _rows(event_type: str, visits: pd.DataFrame, dates: pd.Series[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {"type": event_type, "user_id": visits["user_id"], "person": visits["person"], "date": dates}
    )


def _emails(
    rng: np.random.Generator, events: pd.DataFrame, people: pd.DataFrame, is_order: npt.NDArray[np.bool_]
) -> pd.Series[str]:
    """Return the emails: of every lead, most online orders, and no untracked order."""
    guest = is_order & (rng.random(len(events)) < 0.04)
    return events["person"].map(people["email"]).mask(guest)


def _states(rng: np.random.Generator, dates: Seconds, is_order: npt.NDArray[np.bool_]) -> dict[str, Objects]:
    confirmed = np.where(rng.random(len(dates)) < 0.965, 1, 0)
    confirmed_date = dates + _wait(rng, len(dates), days=0.6)
    states = _state("confirmed", confirmed, confirmed_date, is_order)
    sent_back = is_order & (confirmed == 1) & (rng.random(len(dates)) < 0.075)
    refunded_date = confirmed_date + 3 * demand.DAY + _wait(rng, len(dates), days=7.0)
    states |= _state("refunded", np.ones_like(dates), refunded_date, sent_back)
    judged = ~is_order & (rng.random(len(dates)) < 0.85)
    qualified = np.where(rng.random(len(dates)) < 0.68, 1, 0)
    qualified_date = dates + 3_600 + _wait(rng, len(dates), days=2.0)
    states |= _state("qualified", qualified, qualified_date, judged)
    won = judged & (qualified == 1) & (rng.random(len(dates)) < 0.42)
    converted_date = qualified_date + demand.DAY + _wait(rng, len(dates), days=9.0)
    return states | _state("converted", np.ones_like(dates), converted_date, won)


def _wait(rng: np.random.Generator, count: int, *, days: float) -> Seconds:
    return np.floor(-np.log(1.0 - rng.random(count)) * days * demand.DAY).astype(np.int64)


def _state(
    key: str, values: npt.NDArray[np.int64], dates: Seconds, is_set: npt.NDArray[np.bool_]
) -> dict[str, Objects]:
    """Return the columns of one state, which is unset if its date is after the last day."""
    is_set = is_set & (dates < demand.CLOSING)
    return {
        f"states.{key}": mask_unknown(values, is_set),
        f"states.{key}.date": mask_unknown(dates, is_set),
    }


def _statistics(
    rng: np.random.Generator, events: pd.DataFrame, people: pd.DataFrame, is_order: npt.NDArray[np.bool_]
) -> dict[str, Objects]:
    """Return turnover and number of items; Swiss orders are in francs."""
    items = 1 + pick(rng.random(len(events)), np.array([0.48, 0.26, 0.14, 0.08, 0.04]))
    first = _PRICES[pick(rng.random(len(events)), _PRICE_WEIGHTS)]
    other = _PRICES[pick(rng.random(len(events)), np.array([0.55, 0.45]))]
    delivery = np.where(first + other * (items - 1) < 60, 4.90, 0.0)
    amount = np.round(first + other * (items - 1) + delivery, 2)
    swiss = np.flatnonzero((places()["geo.countryCode"] == "CH").to_numpy())
    from_switzerland = events["person"].map(people["place"]).isin(swiss).to_numpy()
    currency = np.where(from_switzerland, "CHF", "EUR")
    return {
        "statistics.turnover.amount": mask_unknown(amount, is_order),
        "statistics.turnover.currency": mask_unknown(currency, is_order),
        "statistics.items": mask_unknown(items, is_order),
    }
