"""Touchpoints that precede conversions, to divide the credit of a node among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attrib_ds.attribution.incremental.observations import (
    conversions_of,
    numbered_by_event,
    preceding,
    touchpoints_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PrecedingTouchpoints:
    """All touchpoints of users before their conversions, regardless of the lookback.

    Attributes
    ----------
    table : pyarrow.Table
        ``event_id``, ``node_id``, ``date``, ``touch_id``; by conversion and time.
    event, code : int array
        Position of the conversion in the order of ``event_id``, and code of the node.
    age : float array
        Days until the conversion.
    """

    table: pa.Table
    event: NDArray[np.int64]
    code: NDArray[np.int64]
    age: Numbers

    @classmethod
    def of(cls, sequences: Sequences) -> PrecedingTouchpoints:
        """Read the touchpoints from paths."""
        touchpoints = touchpoints_of(sequences, "node_id", "touch_id")
        rows = preceding(touchpoints, numbered_by_event(conversions_of(sequences))).order_by(
            "number", "date", "touch_id", "code"
        )
        read = rows.select(
            "event_id", "node_id", "date", "touch_id", "number", "code", "age_days"
        ).to_pyarrow()
        return cls(
            read.select(["event_id", "node_id", "date", "touch_id"]),
            read["number"].to_numpy().astype(np.int64),
            read["code"].to_numpy().astype(np.int64),
            read["age_days"].to_numpy().astype(np.float64),
        )

    def decay(self, half_lives: Sequence[float]) -> Numbers:
        """Return the part of each touchpoint left at the conversion, one column per half-life."""
        return np.asarray(np.exp2(-self.age[:, None] / np.asarray(half_lives)))

    def divide(self, weight: Numbers) -> Numbers:
        """Scale weights of touchpoints so that those of a conversion and node sum to one."""
        _, cell = np.unique(np.column_stack([self.event, self.code]), axis=0, return_inverse=True)
        cell = cell.reshape(-1)
        count = int(cell.max(initial=-1)) + 1
        total = np.bincount(cell, weight, minlength=count)
        # After a thousand half-lives all weights are zero, and touchpoints share equally.
        equal = 1.0 / np.maximum(np.bincount(cell, minlength=count), 1)
        has_weight = total[cell] > 0
        return np.where(has_weight, weight / np.where(has_weight, total[cell], 1.0), equal[cell])

    def to_arrow(self, share: Numbers) -> pa.Table:
        """Return the touchpoints with a column ``share``, without those whose share is zero."""
        return self.table.append_column("share", pa.array(share)).filter(pa.array(share != 0))
