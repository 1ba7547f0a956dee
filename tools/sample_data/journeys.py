"""Generate journeys: sequences of visits through traffic sources, some of which end in an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from sample_data import demand, tree
from sample_data.people import pick

if TYPE_CHECKING:
    from sample_data.columns import Objects, Seconds

_MAX_VISITS = 18
_MIN_GAP = 7_200  # longest session plus timeout, within which another visit would be the same session
_TUESDAY, _WEDNESDAY, _SUNDAY = 1, 2, 6


@dataclass(frozen=True)
class Source:
    """A traffic source: its weight early, midway and late in a journey, and the days on which it runs.

    ``push`` is the contribution of a last visit through it to the log-odds of an order.
    """

    name: str
    pull: tuple[float, float, float]
    push: float = 0.0
    days: tuple[int, int] = (0, demand.DAYS)


# Banners and social ads come first in journeys; brand searches, coupons and direct visits come last.
SOURCES = (
    Source("meta-ads/prospecting", (30, 8, 2), -0.9),
    Source("google-ads/display", (20, 5, 1), -0.9),
    Source("organic-search", (17, 13, 9), 0.0),
    Source("google-ads/hiking", (9, 9, 4), 0.1),
    Source("google-ads/camping", (6, 7, 3), 0.1, (45, demand.DAYS)),
    Source("google-ads/shopping", (7, 10, 6), 0.2),
    Source("affiliate/gear-tests", (5, 3, 1), 0.0),
    Source("affiliate/trail-magazine", (4, 2, 0.5), -0.2),
    Source("referral", (6, 4, 2), 0.0),
    Source("meta-ads/spring-sale", (12, 9, 6), 0.1, (68, 103)),
    Source("meta-ads/retargeting", (0, 6, 7), 0.4),
    Source("newsletter/weekly", (4, 10, 10), 0.2),
    Source("newsletter/spring-sale", (8, 20, 20), 0.5, (76, 97)),
    Source("newsletter/summer-preview", (8, 20, 20), 0.4, (160, 168)),
    Source("affiliate/coupon-corner", (0.3, 2, 8), 0.9),
    Source("google-ads/brand", (1, 6, 22), 0.8),
    Source("direct", (5, 13, 20), 0.5),
    Source("store", (0.5, 4, 6), 0.4),
)

# Sources of staff and crawlers.
_STAFF_PULLS = {"direct": 8.0, "google-ads/brand": 1.0}
_CRAWLER_PULLS = {"direct": 7.0, "google-ads/shopping": 2.0, "referral": 1.0}
_PROSPECTING = ("meta-ads/prospecting", "google-ads/display")


def journeys(rng: np.random.Generator, people: pd.DataFrame) -> pd.DataFrame:
    """Draw the visits of all people.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    people : DataFrame
        From :func:`sample_data.people.people`.

    Returns
    -------
    DataFrame
        One row per visit, by person and start: ``person`` (row of ``people``), ``journey``, ``kind``,
        ``start`` (seconds since 1970), ``source``, ``node_id``, ``device``, ``orders``, ``asks`` (flags: the
        visit leads to an order, to a lead), ``lag`` (seconds from its end to the order).

    Examples
    --------
    >>> from sample_data.people import people
    >>> rng = np.random.default_rng(1)
    >>> bool(journeys(rng, people(rng))["start"].ge(demand.OPENING).all())
    True
    """
    visits = _visits(rng, people)
    visits["stage"] = _stages(rng, visits["journey"])
    weights = _weights(visits)
    chosen = pick(rng.random(len(visits)), weights)
    visits["source"] = np.array([source.name for source in SOURCES], dtype=object)[chosen]
    visits["node_id"] = _entries(rng, visits["source"])
    other = rng.random(len(visits)) < 0.35
    of_person = people.loc[visits["person"]]
    visits["device"] = np.where(other, of_person["second_device"], of_person["device"])
    return _with_outcomes(rng, _with_ties(visits), chosen).drop(columns="stage")


def _visits(rng: np.random.Generator, people: pd.DataFrame) -> pd.DataFrame:
    """Draw the times of visits, uniform in cumulative demand, so that they follow week, hour and season."""
    person = np.repeat(np.arange(len(people)), people["journeys"])
    # Some journeys started in December.
    begin = rng.random(len(person)) * 1.08 - 0.08
    persistence = people["persistence"].to_numpy()[person]
    length = 1 + np.floor(np.log(1.0 - rng.random(len(person))) / np.log(persistence)).astype(np.int64)
    length = np.minimum(length, _MAX_VISITS)
    journey = np.repeat(np.arange(len(person)), length)
    soon = rng.random(len(journey)) < 0.35
    gaps = -np.log(1.0 - rng.random(len(journey))) * np.where(soon, 0.4, 4.5) / demand.DAYS
    elapsed = pd.Series(gaps).groupby(journey).cumsum().to_numpy()
    position = begin[journey] + elapsed
    is_covered = (position >= 0) & (position < 1)
    visits = pd.DataFrame(
        {
            "person": person[journey][is_covered],
            "journey": journey[is_covered],
            "start": demand.instants(position[is_covered]),
        }
    )
    visits["kind"] = people["kind"].to_numpy()[visits["person"]]
    visits = visits.sort_values(["person", "start", "journey"], ignore_index=True)
    since = visits.groupby("person")["start"].diff()
    return visits[~(since < _MIN_GAP)].reset_index(drop=True)


def _stages(rng: np.random.Generator, journey: pd.Series[int]) -> npt.NDArray[np.float64]:
    """Return the relative position of each visit in its journey, 0 to 1; random for a single visit."""
    grouped = journey.groupby(journey)
    length = grouped.transform("size")
    stages = ((grouped.cumcount() + 0.5) / length).to_numpy()
    return np.where(length == 1, rng.random(len(journey)), stages)


def _weights(visits: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the weight of every source for every visit."""
    start = visits["start"].to_numpy()
    stage = visits["stage"].to_numpy()
    day, weekday, hour = demand.day_index(start), demand.weekday(start), demand.hour(start)
    kind = visits["kind"].to_numpy()
    open_hours = np.where((weekday != _SUNDAY) & (hour >= 8) & (hour < 18), 2.6, 0.0)
    mailing = np.where(weekday == _TUESDAY, 14.0, np.where(weekday == _WEDNESDAY, 2.0, 0.1))
    subscribed = np.where(kind == "subscriber", 2.8, 0.0)
    columns = []
    for source in SOURCES:
        pull = np.interp(stage, (0.1, 0.5, 0.9), source.pull)
        pull = pull * ((day >= source.days[0]) & (day < source.days[1]))
        if source.name == "store":
            pull = pull * open_hours * np.isin(kind, ("customer", "subscriber"))
        if source.name.startswith("newsletter/"):
            pull = pull * mailing * subscribed
        pull = np.where(kind == "staff", _STAFF_PULLS.get(source.name, 0.0), pull)
        pull = np.where(kind == "crawler", _CRAWLER_PULLS.get(source.name, 0.0), pull)
        columns.append(pull)
    return np.stack(columns, axis=1)


def _entries(rng: np.random.Generator, sources: pd.Series[str]) -> Objects:
    """Choose the node within the source; the first entries of a source have the highest weights."""
    nodes = np.empty(len(sources), dtype=object)
    draws = rng.random(len(sources))
    for source in SOURCES:
        is_source = (sources == source.name).to_numpy()
        entries = np.array(tree.entries(source.name), dtype=object)
        exponent = 3.0 if source.name == "organic-search" else 1.0  # one search engine dominates
        nodes[is_source] = entries[pick(draws[is_source], (1.0 + np.arange(len(entries))) ** -exponent)]
    return nodes


def _with_ties(visits: pd.DataFrame) -> pd.DataFrame:
    """Give a few visits on two devices the same start, as ties for tests of ordering."""
    previous = visits.shift()
    online = (visits["source"] != "store") & (previous["source"] != "store")
    inside = (visits["journey"] == previous["journey"]) & (visits["device"] != previous["device"])
    tied = visits.index[online & inside][::120]
    starts: Seconds = visits["start"].to_numpy().copy()
    starts[tied] = starts[tied - 1]
    return visits.assign(start=starts)


def _with_outcomes(
    rng: np.random.Generator, visits: pd.DataFrame, chosen: npt.NDArray[np.int64]
) -> pd.DataFrame:
    """Draw which journeys end in an order, and which visits in a lead.

    The probability of an order increases with the number of visits and with a banner or social ad in the
    journey, and depends on the source of the last visit.
    """
    journey = visits["journey"]
    grouped = journey.groupby(journey)
    length = grouped.transform("size").to_numpy()
    last = (grouped.cumcount() + 1).to_numpy() == length
    push = np.array([source.push for source in SOURCES])[chosen]
    is_prospected = visits["source"].isin(_PROSPECTING).groupby(journey).transform("any")
    odds = -2.50 + 0.42 * np.minimum(length - 1, 6) + 0.25 * is_prospected.to_numpy() + push
    buyers = visits["kind"].isin(["customer", "subscriber"]).to_numpy()
    orders = last & buyers & (rng.random(len(visits)) < 1.0 / (1.0 + np.exp(-odds)))
    asks = buyers & (rng.random(len(visits)) < 0.023 + 0.02 * (visits["stage"].to_numpy() > 0.4))
    # Most orders are placed on the last page of the session; others by phone or in the app days later.
    later = rng.random(len(visits)) < 0.22
    wait = -np.log(1.0 - rng.random(len(visits)))
    hesitation = np.where(later, 3_600 + wait * 2.2 * demand.DAY, 0.0)
    lag = np.where((visits["source"] == "store") & ~later, 120 + wait * 300, hesitation)
    return visits.assign(orders=orders, asks=asks, lag=np.floor(lag).astype(np.int64))
