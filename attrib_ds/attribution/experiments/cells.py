"""Cells of conversions: periods of the calendar, segments of users, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.calendar import INTERVALS, first_days, labels, starts_of, zone_of
from attrib_ds.attribution.incremental.observations import conversions_of
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.attribution.paths.sequences import Sequences

    Codes = NDArray[np.int64]

#: Maximum number of values of a column of segments.
_MOST_VALUES: Final = 100


def check_by(paths: Paths, by: Any, *, taken: Collection[str]) -> list[str]:
    """Return the names of cells' columns.

    Parameters
    ----------
    paths : Paths
        Paths with the columns of observed users.
    by : str or sequence of str
        As users pass it.
    taken : collection of str
        Names of other columns of the result.

    Raises
    ------
    InvalidRequest
        If a name is neither a period nor a column of the observed users, occurs twice, or is taken, or if
        there are several periods.
    """
    names = [by] if isinstance(by, str) else list(by)
    observed = paths.observed
    columns = [] if observed is None else [each for each in observed.columns if each not in _NOT_SEGMENTS]
    allowed = [*INTERVALS, *(each for each in columns if each not in INTERVALS and each not in taken)]
    for name in names:
        if name not in allowed:
            raise InvalidRequest.choice("by", name, allowed)
    if not names or len(set(names)) < len(names) or sum(name in INTERVALS for name in names) > 1:
        raise InvalidRequest(
            f"by: {by!r} is not allowed; allowed: one period, columns of users, or both, each once",
            field="by",
        )
    return names


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells that divide conversions and person-periods.

    Attributes
    ----------
    by : list of str
        Names of the periods and segments.
    keys : DataFrame
        One row per cell with a conversion, in order: the columns ``by`` and, with a period, ``start``.
    of_event : Series of int
        Cell of each conversion, indexed by its id, in the order of ids.
    paths : Paths
        The paths that the cells divide.
    """

    by: list[str]
    keys: pd.DataFrame
    of_event: pd.Series[int]
    paths: Paths

    @classmethod
    def of(cls, paths: Paths, sequences: Sequences, by: list[str]) -> Cells:
        """Divide the conversions of paths."""
        events = to_pandas(
            conversions_of(sequences)
            .select("event_id", "user_id", "event_date")
            .order_by("event_id")
            .to_pyarrow()
        )
        users = _users(paths, by)
        place = None if users is None else users.index.get_indexer(pd.Index(events["user_id"]))
        rows = _labelled(users, place, events["event_date"], by, paths.timezone)
        names = list(rows.columns)
        keys = rows.drop_duplicates().sort_values(by, na_position="last", ignore_index=True)
        cell = rows.merge(keys.assign(cell=range(len(keys))), on=names, how="left")["cell"]
        of_event = pd.Series(cell.to_numpy(dtype=np.int64), index=pd.Index(events["event_id"]))
        return cls(by, keys, of_event, paths)

    def of_periods(self, sample: HazardSample) -> Codes:
        """Return the cell of each sampled person-period, -1 if nobody converts in its cell."""
        periods, histories = sample.periods, sample.histories
        since = pd.Series(histories.origin + (periods.moment * 86_400e6).astype("timedelta64[us]"))
        rows = _labelled(
            _users(self.paths, self.by),
            histories.user_number[periods.user],
            since.dt.tz_localize("UTC"),
            self.by,
            self.paths.timezone,
        )
        keys = self.keys.assign(cell=range(len(self.keys)))
        cell = rows.merge(keys, on=list(rows.columns), how="left")["cell"].fillna(-1).to_numpy(dtype=np.int64)
        # The moment of a conversion is rounded to microseconds: its cell is that of the conversion.
        of_case = self.of_event.to_numpy()[histories.event_number]
        return np.where(periods.is_case, of_case[np.maximum(periods.event, 0)], cell)


#: Columns of observed users that are no segments.
_NOT_SEGMENTS: Final = ("user_id", "since", "until")


def _users(paths: Paths, by: list[str]) -> pd.DataFrame | None:
    """Return the segments of observed users by their ids, in order."""
    columns = [name for name in by if name not in INTERVALS]
    if not columns or paths.observed is None:
        return None
    table = paths.observed.select("user_id", *columns).order_by("user_id")
    users = to_pandas(table.to_pyarrow()).set_index("user_id")
    for name in columns:
        count = users[name].nunique()
        if count > _MOST_VALUES:
            raise InvalidRequest(
                f"by: {name!r} has {count:,} different values; allowed: up to {_MOST_VALUES} (merge rare "
                "ones)",
                field="by",
            )
    return users


def _labelled(
    users: pd.DataFrame | None, place: Any, dates: pd.Series[Any], by: list[str], timezone: str
) -> pd.DataFrame:
    """Return the segment of the user and the period of the date, for each row."""
    columns: dict[str, Any] = {}
    for name in by:
        if users is not None and name in users.columns:
            columns[name] = users[name].array.take(place)
            continue
        zone = zone_of(timezone)
        # Few of the dates differ by day, so labels are made once per day.
        of_day, days = pd.factorize(pd.DatetimeIndex(dates).tz_convert(zone).tz_localize(None).normalize())
        distinct = pd.Series(days).astype("datetime64[us]")
        columns[name] = labels(distinct, name).array.take(of_day)
        columns["start"] = starts_of(first_days(distinct, name), zone).array.take(of_day)
    return pd.DataFrame(columns)[[*by, *(["start"] if "start" in columns else [])]]
