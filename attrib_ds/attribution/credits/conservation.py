"""Checks that credits add up to their conversions, on engines on which the tests do not run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from attrib_ds.attribution.engines.engine import CHECKED, dialect_of
from attrib_ds.attribution.models.rules import Participation
from attrib_ds.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir
    import pandas as pd

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths

#: Relative difference of two sums that rounding explains.
_ROUNDING: Final = 1e-6


def check_conservation(
    paths: Paths, models: Mapping[str, Model], credits: Mapping[str, pd.DataFrame]
) -> None:
    """Check that the credits of each model add up, on engines on which the tests do not run.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    models : mapping of str to Model
        Models by label.
    credits : mapping of str to DataFrame
        Credits of each model, including what is unattributed.

    Raises
    ------
    NotSupported
        If the credits of a model do not add up to the conversions.
    """
    engine = dialect_of(paths.touches)
    if engine in CHECKED:
        return
    counts: dict[bool, float] = {}
    for label, model in models.items():
        is_repeated = isinstance(model, Participation)
        if is_repeated not in counts:
            counts[is_repeated] = _conversions(paths, is_repeated=is_repeated)
        credited, expected = float(credits[label]["conversions"].sum()), counts[is_repeated]
        if not math.isclose(credited, expected, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
            raise NotSupported(
                f"models: on {engine}, the credits of {label} add up to {credited:,.9g} of {expected:,.9g} "
                f"conversions, so {engine} computes them wrongly; use an engine whose results are checked: "
                f"{', '.join(CHECKED)}"
            )


def _conversions(paths: Paths, *, is_repeated: bool) -> float:
    """Count the conversions; if each of their nodes is credited with all of it, once per node."""
    counted: ir.Table | None = paths.conversions
    if is_repeated:
        counted = paths.touches.select("event_id", "node_id", "conversions").distinct()
    elif counted is None:
        counted = paths.touches.select("event_id", "conversions").distinct()
    return float(counted.agg(count=counted.conversions.sum()).to_pyarrow()["count"][0].as_py() or 0.0)
