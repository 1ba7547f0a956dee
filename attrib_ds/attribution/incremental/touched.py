"""Touchpoints before conversions, to divide what a node caused among its touchpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attrib_ds.attribution.incremental.observations import before_events, numbered_events, points_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Touched:
    """Conversions with every touchpoint of their users until then, whatever the lookback.

    Attributes
    ----------
    table : pyarrow.Table
        ``event_id``, ``node_id``, ``date``, ``touch_id``.
    event, code : int array
        Position of the conversion in the order of ``event_id``, and the node's number.
    age : float array
        Days until the conversion.
    """

    table: pa.Table
    event: NDArray[np.int64]
    code: NDArray[np.int64]
    age: Numbers

    @classmethod
    def of(cls, sequences: Sequences) -> Touched:
        """Read them, by conversion and time."""
        points = points_of(sequences, "node_id", "touch_id")
        rows = before_events(points, numbered_events(sequences)).order_by(
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

    def left(self, half_lives: Sequence[float]) -> Numbers:
        """Return what is left of each touchpoint at the conversion, one column per half-life."""
        return np.asarray(np.exp2(-self.age[:, None] / np.asarray(half_lives)))

    def divided(self, left: Numbers) -> Numbers:
        """Return the part of each touchpoint in what its node has of the conversion; parts add up to one."""
        _, cell = np.unique(np.column_stack([self.event, self.code]), axis=0, return_inverse=True)
        cell = cell.reshape(-1)
        count = int(cell.max(initial=-1)) + 1
        whole = np.bincount(cell, left, minlength=count)
        # After a thousand half-lives nothing is left to divide by: all of them are as good.
        equal = 1.0 / np.maximum(np.bincount(cell, minlength=count), 1)
        is_left = whole[cell] > 0
        return np.where(is_left, left / np.where(is_left, whole[cell], 1.0), equal[cell])

    def to_arrow(self, share: Numbers) -> pa.Table:
        """Return the touchpoints with the share of each; those with none are left out."""
        return self.table.append_column("share", pa.array(share)).filter(pa.array(share != 0))
