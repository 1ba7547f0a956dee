"""Generate the visitors of the shop: customers, subscribers, staff and crawlers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from sample_data import devices, places

#: Number of visitors by kind.
VISITORS = {"customer": 5_050, "subscriber": 1_060, "staff": 56, "crawler": 175}

# Probability of a second and of a third journey, and of one more visit in a journey.
_TRAITS = {
    "customer": (0.10, 0.02, 0.51),
    "subscriber": (0.60, 0.20, 0.70),
    "staff": (0.0, 0.0, 0.89),
    "crawler": (0.0, 0.0, 0.68),
}

_FIRST = (
    "lea", "emma", "lukas", "jonas", "marie", "paul", "anna", "louis", "clara", "hugo", "nora", "felix",
    "ines", "tom", "julie", "noah", "sofia", "leon", "alice", "max", "eva", "arthur", "mila", "pablo",
)  # fmt: skip
_LAST = (
    "martin", "bernard", "dubois", "moreau", "laurent", "girard", "schmidt", "weber", "fischer", "wagner",
    "becker", "peeters", "janssens", "maes", "keller", "meier", "smith", "taylor", "brown", "garcia",
    "lopez", "ruiz",
)  # fmt: skip


def people(rng: np.random.Generator) -> pd.DataFrame:
    """Draw the visitors.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    DataFrame
        One row per visitor: ``kind``, ``journeys`` (number of journeys), ``persistence``
        (probability of one more visit in a journey), ``place`` (row of :func:`places.places`), ``device``,
        ``second_device`` (the same for most), ``email``.

    Examples
    --------
    >>> len(people(np.random.default_rng(1)))
    6341
    """
    kind = np.repeat(list(VISITORS), list(VISITORS.values()))
    count = len(kind)
    is_crawler = kind == "crawler"
    where = places.places()
    place = pick(rng.random(count), where["share"].to_numpy())
    first = pick(rng.random(count), devices.shares())
    other = pick(rng.random(count), devices.shares())
    crawler = devices.DEVICES + pick(rng.random(count), np.array([0.45, 0.25, 0.15, 0.15]))
    device = np.where(is_crawler, crawler, first)
    again = rng.random(count)
    traits = np.repeat(list(_TRAITS.values()), list(VISITORS.values()), axis=0)
    return pd.DataFrame(
        {
            "kind": kind,
            "journeys": 1 + (again[:, None] < traits[:, :2]).sum(axis=1),
            "persistence": traits[:, 2],
            "place": np.where(is_crawler, len(where) - 1, place),
            "device": device,
            "second_device": np.where((rng.random(count) < 0.3) & ~is_crawler, other, device),
            "email": _emails(rng, count),
        }
    )


def pick(draws: npt.NDArray[np.float64], weights: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int64]:
    """Convert uniform draws to random positions with given weights.

    Parameters
    ----------
    draws : array of float, shape (n,)
        In [0, 1).
    weights : array of float, shape (k,) or (n, k)
        At least one above 0; the same for all draws, or one row per draw.

    Returns
    -------
    array of int64, shape (n,)
        Positions from 0 to k - 1.

    Examples
    --------
    >>> pick(np.array([0.1, 0.9]), np.array([3.0, 1.0])).tolist()
    [0, 1]
    """
    sums = np.cumsum(np.atleast_2d(weights), axis=1)
    positions: npt.NDArray[np.int64] = (sums[:, :-1] <= draws[:, None] * sums[:, -1:]).sum(axis=1)
    return positions


def _emails(rng: np.random.Generator, count: int) -> list[str]:
    first = rng.integers(len(_FIRST), size=count)
    last = rng.integers(len(_LAST), size=count)
    names = zip(first.tolist(), last.tolist(), strict=True)
    return [f"{_FIRST[f]}.{_LAST[s]}{number}@example.org" for number, (f, s) in enumerate(names, start=1)]
