"""Groups of users that are left out in turn, to judge models by people they have not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.models.model import check_whole
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]

#: At most so many groups of users.
MOST_FOLDS = 100


def check_folds(paths: Paths, folds: int, seed: int) -> None:
    """Refuse paths without users, and numbers that are not allowed."""
    check_whole("folds", folds, minimum=2, maximum=MOST_FOLDS)
    check_whole("seed", seed, minimum=0)
    if not paths.has_users:
        raise InvalidRequest(
            "paths: aggregated paths have no users to leave out; use Paths.from_frames or conversion_paths",
            field="paths",
        )


def mean_and_error(by_fold: Numbers) -> tuple[Numbers, Numbers]:
    """Return the mean over the last axis, the groups, and its standard error."""
    folds = by_fold.shape[-1]
    return by_fold.mean(axis=-1), by_fold.std(axis=-1, ddof=1) / np.sqrt(folds)
