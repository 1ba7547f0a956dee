"""Scale effects from the users who were observed to all users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]

#: A share of users, or a share and its standard error.
Share = float | tuple[float, float]
#: Of all users, or by the values of a column of users.
ObservedShare = Share | Mapping[str, Mapping[Any, Share]]


@dataclass(frozen=True, eq=False)
class ObservedShares:
    """Shares of users observed, and their standard errors: one for all users, or one for each segment.

    Attributes
    ----------
    column : str or None
        Column of users that names their segment; None if one share holds for all.
    of : mapping
        Share and standard error by segment; None is the segment without a value, or all users.
    """

    column: str | None
    of: Mapping[Any, tuple[float, float]]

    @property
    def of_all(self) -> tuple[float, float]:
        """Share of all users, and its standard error; 1 and 0 if shares differ by segment."""
        return self.of[None] if self.column is None else (1.0, 0.0)

    def of_segment(self, value: Any) -> tuple[float, float]:
        """Return the share of a segment, and its standard error."""
        return self.of_all if self.column is None else self.of[_key(value)]

    def of_rows(self, rows: pd.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the shares of rows, and their standard errors."""
        segments = [None] * len(rows) if self.column is None else rows[self.column]
        pairs = np.array([self.of_segment(value) for value in segments], dtype=np.float64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def check_segments(self, paths: Paths, by: Sequence[str] | None) -> None:
        """Raise unless every segment of the users has a share, and ``by`` can be scaled."""
        if self.column is None:
            return
        observed = paths.observed
        columns = [] if observed is None else [each for each in observed.columns if each not in _NO_SEGMENTS]
        if observed is None or self.column not in columns:
            raise InvalidRequest.choice(_FIELD, self.column, columns)
        found = observed.select(self.column).distinct().to_pyarrow()
        values = {_key(value) for value in found[self.column].to_pylist()}
        for name, wrong, allowed in (
            ("no user has", set(self.of) - values, values),
            ("no share is given for", values - set(self.of), values),
        ):
            if wrong:
                raise InvalidRequest(
                    f"{_FIELD}: {name} {self.column} {_shown(wrong)}; allowed: one share for each of "
                    f"{_shown(allowed)}",
                    field=_FIELD,
                )
        if by is not None and self.column not in by:
            raise InvalidRequest(
                f"by: {list(by)!r} is not allowed with observed_share= by {self.column!r}; allowed: columns "
                f"that include {self.column!r}",
                field="by",
            )


_FIELD = "observed_share"
#: Columns of observed users that are no segments.
_NO_SEGMENTS = ("user_id", "since", "until")


def check_observed_share(given: Any) -> ObservedShares:
    """Return the shares of users observed.

    Raises
    ------
    InvalidRequest
        If a share is not above 0 and at most 1, its error is not between 0 and the share, or shares by
        segment are not those of one column.
    """
    if not isinstance(given, Mapping):
        return ObservedShares(None, {None: _check_share(given)})
    ((column, shares),) = given.items() if len(given) == 1 else ((None, None),)
    if not isinstance(column, str) or not isinstance(shares, Mapping) or not shares:
        raise InvalidRequest(
            f"{_FIELD}: {given!r} is not allowed; allowed: a column of users with the share of each of its "
            "values, as in {'country': {'FR': 0.6, 'US': (0.9, 0.01)}}",
            field=_FIELD,
        )
    return ObservedShares(column, {_key(value): _check_share(share) for value, share in shares.items()})


def _check_share(given: Any) -> tuple[float, float]:
    pair = tuple(given) if isinstance(given, tuple | list) else (given, 0.0)
    are_numbers = all(
        isinstance(each, int | float | np.number) and not isinstance(each, bool) for each in pair
    )
    if not (len(pair) == 2 and are_numbers and 0 < pair[0] <= 1 and 0 <= pair[1] < pair[0]):
        raise InvalidRequest(
            f"{_FIELD}: {given!r} is not allowed; allowed: a number above 0 and at most 1, or such a "
            "number and its standard error, as in (0.7, 0.02)",
            field=_FIELD,
        )
    return float(pair[0]), float(pair[1])


def _key(value: Any) -> Any:
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _shown(values: set[Any]) -> str:
    shown = sorted(map(repr, values))
    return ", ".join(shown[:40]) + (f", … ({len(shown)} in all)" if len(shown) > 40 else "")


def scale_levels(
    effects: pd.DataFrame,
    observed_share: tuple[float, float] | tuple[Numbers, Numbers],
    levels: list[tuple[str, str, str]],
    *,
    confidence: float,
) -> pd.DataFrame:
    """Divide estimates by the share of users observed, and widen their bounds by its error (delta method).

    Parameters
    ----------
    effects : DataFrame
        Effects of the observed users.
    observed_share : tuple
        Share of users observed, and its standard error: numbers, or arrays with one per row.
    levels : list of (str, str, str)
        Columns with an estimate, its lower and its upper bound.
    confidence : float
        Level of the bounds.
    """
    share, error = observed_share
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    scaled = effects.copy()
    for estimate, low, high in levels:
        level = effects[estimate] / share
        of_share = reach * level * error / share
        scaled[estimate] = level
        scaled[low] = level - np.hypot((effects[estimate] - effects[low]) / share, of_share)
        scaled[high] = level + np.hypot((effects[high] - effects[estimate]) / share, of_share)
    return scaled


def sum_segments(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add up the scaled effects of segments, whose errors are independent.

    Parameters
    ----------
    rows : DataFrame
        One row per key and segment: ``credited``, ``caused``, ``low``, ``high``.
    keys : list of str
        Columns that identify a row of the result.
    """
    squares = rows.assign(low=(rows["caused"] - rows["low"]) ** 2, high=(rows["high"] - rows["caused"]) ** 2)
    summed = squares.groupby(keys, dropna=False)[["credited", "caused", "low", "high"]].sum().reset_index()
    summed["low"] = summed["caused"] - np.sqrt(summed["low"])
    summed["high"] = summed["caused"] + np.sqrt(summed["high"])
    return summed.astype({key: rows[key].dtype for key in keys})
