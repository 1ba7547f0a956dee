"""Sums how long each node was at work on users, in the engine and in one pass over the touchpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Final

import ibis
import numpy as np
import pyarrow as pa

from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.incremental.observations import (
    DAY,
    before_events,
    check_are_in_order,
    check_are_inside,
    check_are_observed,
    numbered_events,
    observed_of,
    points_of,
)
from attrib_ds.attribution.incremental.times_of_day import TimesOfDay
from attrib_ds.attribution.paths.codes import number_currencies
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ibis.expr.types as ir
    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: Strata that are allowed whatever the number of conversions; more need ten conversions each.
_MOST_STRATA: Final = 100
#: Between the values of covariates in the key of a stratum.
_SEPARATOR = "\x1f"


@dataclass(frozen=True, eq=False)
class Exposure:
    """What an additive hazard is fitted to; nothing in it grows with the number of touchpoints.

    Attributes
    ----------
    at_work : float array, shape (n_groups, n_columns)
        Days that each column was at work on the users of a group, times how strongly. Columns are nodes by
        half-lives, then pairs of nodes.
    person_days : float array, shape (n_groups, n_cells)
        Days that users were observed in each cell: a stratum of users in a stretch of time. In both, each
        time of the day counts as often as people convert at it.
    features : float array, shape (n_events, n_columns)
        How strongly each column was at work at each conversion.
    cell, fold : int array
        Those of each conversion.
    currency, conversions, value : array
        Of each conversion.
    currencies : list
        Currency of each number.
    start : datetime
        The midnight that days are counted from.
    bounds : float array, shape (n_periods + 1,)
        Days at which the stretches of time end and begin.
    strata : dict
        Number of each stratum by its key.
    """

    at_work: Numbers
    person_days: Numbers
    features: Numbers
    cell: Codes
    fold: Codes
    currency: Codes
    conversions: Numbers
    value: Numbers
    currencies: list[str | None]
    start: datetime
    bounds: Numbers
    strata: dict[str, int]

    @classmethod
    def of(
        cls,
        sequences: Sequences,
        *,
        half_lives: Sequence[float],
        strata: Sequence[str] | None,
        periods: int,
        times_of_day: int,
        pairs: Sequence[tuple[int, int]],
    ) -> Exposure:
        """Sum the exposure of all users, and read what was at work at conversions.

        Parameters
        ----------
        sequences : Sequences
            Paths whose nodes have numbers.
        half_lives : sequence of float
            Days.
        strata : sequence of str, optional
            Columns of the observed users whose values have a baseline each; flags and texts by default.
        periods : int
            How many stretches of equal length the whole time is cut into.
        times_of_day : int
            How many parts of equal length a day is cut into.
        pairs : sequence of (int, int)
            Nodes whose product is at work too, by the half-life in the middle.
        """
        sequences.paths.require_dates("an incremental model")
        points = points_of(sequences)
        # Read once: to pair conversions with touchpoints again would cost more than all the rest.
        events = ibis.memtable(numbered_events(sequences).order_by("number").to_pyarrow())
        people = _people(sequences, points, events, strata)
        backwards = people.since > people.until
        ends = people.agg(
            since=people.since.min(),
            until=people.until.max(),
            backwards=backwards.sum(),
            user_id=people.user_id.min(where=backwards),
        )
        ends = ends.to_pyarrow().to_pylist()[0]
        check_are_in_order(ends["backwards"] or 0, ends["user_id"])
        happened = events.left_join(people.rename(person_id="user_id"), events.user_id == people.user_id)
        converted = happened.order_by("number").to_pyarrow()
        check_are_observed(converted["person_id"].is_null().to_numpy())
        check_are_inside(_are_outside(converted), converted["event_id"])
        # Everything is counted from the midnight before the first observation.
        midnight = ends["since"].replace(hour=0, minute=0, second=0, microsecond=0)
        when = _moments(converted["event_date"], midnight)
        daily = TimesOfDay.of(when, times_of_day)
        first, last = ((ends[name] - midnight) / timedelta(days=1) for name in ("since", "until"))
        bounds = np.linspace(first, last, periods + 1)
        observed = _timed(people, midnight)
        lived = _person_days(observed, bounds, daily)
        strata_keys = {key: number for number, key in enumerate(sorted(set(lived["stratum"].to_pylist())))}
        _check_strata(len(strata_keys), len(converted))
        stratum = np.array([strata_keys[key] for key in converted["stratum"].to_pylist()], np.int64)
        number, currencies = number_currencies(converted["currency"], np.ones(len(converted), bool))
        nodes = len(sequences.node_ids)
        columns = _Columns(nodes, tuple(half_lives), tuple(pairs), daily)
        found = cls(
            columns.at_work(_timed_points(points, midnight), observed, sequences.folds),
            _by_cell(lived, strata_keys, periods, sequences.folds),
            columns.features(before_events(points, events), len(converted)),
            np.zeros(len(converted), np.int64),
            converted["fold"].to_numpy().astype(np.int64),
            number,
            converted["conversions"].to_numpy().astype(np.float64),
            np.asarray(converted["value"].to_pandas(), dtype=np.float64),
            currencies,
            midnight,
            bounds,
            strata_keys,
        )
        return replace(found, cell=found.cells_of(stratum, when))

    def cells_of(self, strata: NDArray[np.int64], days: Numbers) -> Codes:
        """Return the cells of users of strata at moments, which are days since :attr:`start`."""
        stretch = np.searchsorted(self.bounds[1:-1], days, side="right")
        return np.asarray(strata * (len(self.bounds) - 1) + stretch)


def _check_strata(strata: int, conversions: int) -> None:
    """Refuse so many baselines that hardly a conversion is left for each, and none for the nodes."""
    most = max(_MOST_STRATA, conversions // 10)
    if strata > most:
        raise InvalidRequest(
            f"strata: users are in {strata:,} strata by what is known of them; allowed: up to {most:,} with "
            f"{conversions:,} conversions (name the columns to use, as in strata=())",
            field="strata",
        )


def strata_of(sequences: Sequences, strata: Sequence[str] | None) -> list[str]:
    """Return the key of the stratum of every observed user, in the order of their ids."""
    points = points_of(sequences)
    people = _people(sequences, points, numbered_events(sequences), strata)
    keys: list[str] = people.order_by("user_id").to_pyarrow()["stratum"].to_pylist()
    return keys


@dataclass(frozen=True)
class _Columns:
    """Columns of the model: nodes by half-lives, then pairs of nodes by the half-life in the middle."""

    nodes: int
    half_lives: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    daily: TimesOfDay

    @property
    def middle(self) -> int:
        return int(np.argsort(self.half_lives)[len(self.half_lives) // 2])

    def at_work(self, points: ir.Table, people: ir.Table, folds: int) -> Numbers:
        lives = len(self.half_lives)
        found = np.zeros((folds, self.nodes * lives + len(self.pairs)))
        # What is left at the end of the observation is known of users, who are fewer than touchpoints.
        known = self.daily.fading(people, "until", self.half_lives)
        # A touchpoint before the observation is at work in it with what is left of it.
        seen = _seen(points, known)
        seen = self.daily.fading(
            seen.mutate(begins=ibis.greatest(seen.touched, seen.since)), "begins", self.half_lives
        )
        sums = {
            f"life_{number}": total(
                _faded(seen.begins - seen.touched, each) * seen[f"begins_{number}"]
                - _faded(seen.until - seen.touched, each) * seen[f"until_{number}"]
            )
            for number, each in enumerate(self.half_lives)
        }
        summed = seen.group_by("code", "fold").agg(**sums).to_pyarrow()
        place = summed["fold"].to_numpy(), summed["code"].to_numpy()
        for number in range(lives):
            found[place[0], place[1] * lives + number] = summed[f"life_{number}"].to_numpy()
        if self.pairs:
            self._add_pairs(found, _seen(points, people))
        return found

    def _add_pairs(self, found: Numbers, seen: ir.Table) -> None:
        """Integrate products of two nodes from each touchpoint of a user to the next."""
        half_life = self.half_lives[self.middle]
        first = seen.touched.min().over(ibis.window(group_by=seen.user_id))
        aged = seen.mutate(passed=(seen.touched - first) / half_life)
        longest = aged.passed.max().to_pyarrow().as_py() or 0.0
        # What has faded by 2**-1000 beside what came a thousand half-lives later is no longer a number.
        if longest > 1000:
            raise InvalidRequest(
                f"half_lives: touchpoints of one user are {longest:.0f} times {half_life:g} days apart; "
                "allowed with interactions: up to 1000 times the half-life in the middle",
                field="half_lives",
            )
        order = [aged.touched, aged.code]
        until_now = ibis.window(group_by=aged.user_id, order_by=order, preceding=(None, 0))
        in_order = ibis.window(group_by=aged.user_id, order_by=order)
        involved = sorted({code for pair in self.pairs for code in pair})
        grown = aged.mutate(
            ends=aged.touched.lead(1).over(in_order),
            **{
                f"level_{code}": ibis.ifelse(aged.code == code, _power(aged.passed), 0.0)
                .sum()
                .over(until_now)
                for code in involved
            },
        )
        begins = ibis.greatest(grown.touched, grown.since)
        spanned = grown.mutate(begins=begins, ends=ibis.greatest(grown.ends.coalesce(grown.until), begins))
        # What is left of two at once fades at twice the speed.
        both = [half_life / 2]
        spanned = self.daily.fading(self.daily.fading(spanned, "begins", both), "ends", both)
        first, last = (
            _faded(spanned[name] - spanned.touched, both[0]) * spanned[f"{name}_0"]
            for name in ("begins", "ends")
        )
        spanned = spanned.mutate(span=first - last, weight=_faded(spanned.passed, 1.0))
        sums = {
            f"pair_{number}": total(
                spanned[f"level_{one}"]
                * spanned.weight
                * spanned[f"level_{other}"]
                * spanned.weight
                * spanned.span
            )
            for number, (one, other) in enumerate(self.pairs)
        }
        summed = spanned.group_by("fold").agg(**sums).to_pyarrow()
        for number in range(len(self.pairs)):
            column = self.nodes * len(self.half_lives) + number
            found[summed["fold"].to_numpy(), column] = summed[f"pair_{number}"].to_numpy()

    def features(self, rows: ir.Table, events: int) -> Numbers:
        lives = len(self.half_lives)
        sums = {
            f"life_{number}": total(_faded(rows.age_days, each))
            for number, each in enumerate(self.half_lives)
        }
        summed = rows.group_by("number", "code").agg(**sums).to_pyarrow()
        single = np.zeros((events, self.nodes, lives))
        for number in range(lives):
            place = summed["number"].to_numpy(), summed["code"].to_numpy()
            single[(*place, number)] = summed[f"life_{number}"].to_numpy()
        level = single[:, :, self.middle]
        products = [level[:, one] * level[:, other] for one, other in self.pairs]
        return np.column_stack([single.reshape(events, self.nodes * lives), *products])


def pairs_of(interactions: bool | Sequence[tuple[str, str]], node_ids: list[str]) -> list[tuple[int, int]]:
    """Return the pairs of nodes by their numbers."""
    if isinstance(interactions, bool):
        return list(combinations(range(len(node_ids)), 2)) if interactions else []
    for name in (each for pair in interactions for each in pair):
        if name not in node_ids:
            raise InvalidRequest.choice("interactions", name, node_ids)
    return sorted({_in_order(node_ids.index(one), node_ids.index(other)) for one, other in interactions})


def _in_order(one: int, other: int) -> tuple[int, int]:
    return (min(one, other), max(one, other))


def _people(
    sequences: Sequences, points: ir.Table, events: ir.Table, strata: Sequence[str] | None
) -> ir.Table:
    """Return ``user_id``, ``since``, ``until``, ``stratum`` and ``fold`` of every observed user."""
    people = observed_of(sequences.paths.observed, points, events)
    known = [name for name in people.columns if name not in ("user_id", "since", "until")]
    texts = [name for name in known if people[name].type().is_boolean() or people[name].type().is_string()]
    wanted = texts if strata is None else list(strata)
    for name in wanted:
        if name not in known:
            raise InvalidRequest.choice("strata", name, known)
    key: Any = ibis.literal("")
    for name in wanted:
        key = key + people[name].cast("string").fill_null("") + _SEPARATOR
    return people.select(
        "user_id", "since", "until", stratum=key, fold=sequences.fold(people.user_id).cast("int64")
    )


def _timed(people: ir.Table, midnight: datetime) -> ir.Table:
    """Return the people with ``since`` and ``until`` as days since a midnight."""
    start = ibis.literal(midnight, people.since.type())
    return people.mutate(since=_days(people.since, start), until=_days(people.until, start))


def _timed_points(points: ir.Table, midnight: datetime) -> ir.Table:
    """Return touchpoints with ``touched``, days since a midnight."""
    return points.mutate(touched=_days(points.date, ibis.literal(midnight, points.date.type())))


def _seen(points: ir.Table, people: ir.Table) -> ir.Table:
    """Return touchpoints until the end of observations, with what is known of their users."""
    joined = points.inner_join(people.rename(person_id="user_id"), points.user_id == people.user_id)
    return joined.filter(joined.touched <= joined.until)


def _person_days(people: ir.Table, bounds: Numbers, daily: TimesOfDay) -> pa.Table:
    """Sum the days observed in each stretch of the whole time."""
    # Weighed time rises with time, so what is cut off before is cut off after.
    limits = ibis.memtable(pa.table({"limit": bounds}))
    weighed = sorted(daily.passed(limits, "limit").to_pyarrow()["limit"].to_pylist())
    lived = daily.passed(daily.passed(people, "since"), "until")
    sums = {}
    for number, (begins, ends) in enumerate(pairwise(weighed)):
        days = ibis.least(lived.until, ends) - ibis.greatest(lived.since, begins)
        sums[f"stretch_{number}"] = total(ibis.greatest(days, 0.0))
    return lived.group_by("stratum", "fold").agg(**sums).to_pyarrow()


def _by_cell(lived: pa.Table, strata: dict[str, int], periods: int, folds: int) -> Numbers:
    days = np.zeros((folds, len(strata), periods))
    stratum = np.array([strata[key] for key in lived["stratum"].to_pylist()], np.int64)
    for number in range(periods):
        days[lived["fold"].to_numpy(), stratum, number] = lived[f"stretch_{number}"].to_numpy()
    return days.reshape(folds, -1)


def _are_outside(converted: pa.Table) -> NDArray[np.bool_]:
    date, since, until = (_microseconds(converted[name]) for name in ("event_date", "since", "until"))
    return (date < since) | (date > until)


def _moments(dates: pa.ChunkedArray, midnight: datetime) -> Numbers:
    first = round(midnight.replace(tzinfo=midnight.tzinfo or UTC).timestamp() * 1e6)
    return np.asarray((_microseconds(dates) - first) / DAY)


def _microseconds(dates: pa.ChunkedArray) -> NDArray[np.int64]:
    plain = dates.cast(pa.timestamp("us", tz=dates.type.tz), safe=False).cast(pa.int64())
    return np.asarray(plain.to_numpy())


def _days(later: Any, earlier: Any) -> Any:
    return later.delta(earlier, unit="microsecond") / DAY


def _faded(age: Any, half_life: float) -> Any:
    return (age * (-math.log(2) / half_life)).exp()


def _power(passed: Any) -> Any:
    return (passed * math.log(2)).exp()
