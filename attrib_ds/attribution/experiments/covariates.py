"""Covariates of users from before an experiment, as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attrib_ds.attribution.incremental.categories import categories, check_kind, is_number
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, to_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths


def covariates_of(paths: Paths, users: pd.Index[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the covariates of users, with categories as one-hot columns.

    Raises
    ------
    InvalidRequest
        If a covariate is unknown, is missing for a user, or is not numbers, flags or text of up to 100
        values.
    """
    if isinstance(names, str):
        raise InvalidRequest(
            f"covariates: {names!r} is not allowed; allowed: a list of columns, as in [{names!r}]",
            field="covariates",
        )
    observed = paths.observed
    allowed = [] if observed is None else [name for name in observed.columns if name not in _EXCLUDED]
    for name in names:
        if name not in allowed:
            raise InvalidRequest.choice("covariates", name, allowed)
    if observed is None or not names:
        return np.zeros((len(users), 0))
    table = observed.select("user_id", *names).to_pyarrow()
    for name in names:
        check_kind(table[name].type, name, argument="covariates")
    rows = to_pandas(table).set_index("user_id").reindex(users)
    columns: list[NDArray[np.float64]] = []
    for name in names:
        values = rows[name]
        if values.isna().any():
            raise InvalidRequest(
                f"covariates: {name!r} is missing for {int(values.isna().sum())} users; allowed: a value for "
                "every participant",
                field="covariates",
            )
        if is_number(table[name].type) or pa.types.is_boolean(table[name].type):
            columns.append(np.asarray(values, dtype=np.float64))
            continue
        columns += categories(values.astype(TEXT), name, argument="covariates")
    matrix = np.stack(columns, axis=1) if columns else np.zeros((len(users), 0))
    if not np.isfinite(matrix).all():
        raise InvalidRequest(
            "covariates: some values are infinite; allowed: finite numbers, flags and text",
            field="covariates",
        )
    return matrix


#: An observation may end with a conversion, which the experiment may have changed.
_EXCLUDED = ("user_id", "since", "until")
