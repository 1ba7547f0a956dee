"""Effects by period and segment: a discrete hazard of its own in every cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attrib_ds.attribution.credits.touches import credited_touches
from attrib_ds.attribution.engines.engine import total
from attrib_ds.attribution.experiments.sensitivity import sensitivity_rows
from attrib_ds.attribution.intervals import Uncertainty
from attrib_ds.records.frames import TEXT, to_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.attribution.experiments.cells import Cells
    from attrib_ds.attribution.experiments.observed_share import ObservedShares
    from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.sequences import Sequences

_KEYS = ["node_id", "currency"]


def effects_by_cell(
    sample: HazardSample,
    cells: Cells,
    *,
    controls: Sequence[str],
    observed: ObservedShares,
    confidence: float,
) -> pd.DataFrame:
    """Estimate the effects of nodes in every cell from the cell's own person-periods.

    A regression of all cells with the same coefficients would divide the whole effect by exposure, and its
    intervals would not contain effects that differ. So each cell has its own.

    Returns
    -------
    DataFrame
        By cell, then descending ``caused``, the unattributed last: the keys of the cell, ``node_id``,
        ``currency``, ``caused``, ``low``, ``high`` and the columns of sensitivity.
    """
    segments = cells.keys[observed.column] if observed.column in cells.by else [None] * len(cells.keys)
    of_period, of_event = cells.of_periods(sample), cells.of_event.to_numpy()
    frames = []
    for cell in range(len(cells.keys)):
        fit = sample.part(of_period == cell, np.flatnonzero(of_event == cell)).fit(is_jackknife=True)
        rows = fit.credits().to_frame(sample.node_ids, uncertainty=Uncertainty(confidence))
        rows = rows.rename(columns={"conversions": "caused"})[[*_KEYS, "caused", "low", "high"]]
        rows = rows.assign(cell=cell, is_last=rows["node_id"].isna(), order=-rows["caused"].round(9))
        rows = rows.sort_values(["is_last", "order", *_KEYS], ignore_index=True)
        frames.append(
            rows.join(
                sensitivity_rows(
                    fit,
                    rows,
                    node_ids=sample.node_ids,
                    controls=controls,
                    observed_share=observed.of_segment(segments[cell]),
                    confidence=confidence,
                )
            )
        )
    found = pd.concat(frames, ignore_index=True)
    keys = cells.keys.take(found["cell"].to_numpy()).reset_index(drop=True)
    return pd.concat([keys, found.drop(columns=["is_last", "order"])], axis=1)


def credited_by_cell(rule: Model, cells: Cells, sequences: Sequences) -> pd.DataFrame:
    """Sum the credit of a rule by cell: ``cell``, ``node_id``, ``currency``, ``credited``."""
    touches = credited_touches(cells.paths, rule, sequences)
    by_event = touches.group_by("event_id", *_KEYS).agg(credited=total(touches.weight * touches.conversions))
    rows = to_pandas(by_event.order_by("event_id", *_KEYS).to_pyarrow())
    rows["cell"] = cells.of_event.reindex(rows["event_id"]).to_numpy()
    return (
        rows.groupby(["cell", *_KEYS], dropna=False)["credited"].sum().reset_index().astype({"node_id": TEXT})
    )
