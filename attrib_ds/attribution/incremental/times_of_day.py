"""Weighs time by how often people convert at that time of the day, in integrals of closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ibis.expr.types as ir
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TimesOfDay:
    """How often people convert in each part of the day; one on average.

    People are reached, and convert, at some hours more than at others. What is at work at a conversion must
    be compared with what is at work at that time of other days, or hours would pass for effects.

    Attributes
    ----------
    often : float array, shape (n_parts,)
        Parts are of equal length, the first begins at midnight.
    """

    often: Numbers

    @classmethod
    def of(cls, days: Numbers, parts: int) -> TimesOfDay:
        """Count conversions, whose times are days since some midnight."""
        if not len(days):
            return cls(np.ones(parts))
        part = np.minimum((days % 1.0 * parts).astype(np.int64), parts - 1)
        return cls(np.bincount(part, minlength=parts).astype(np.float64) * (parts / len(days)))

    def passed(self, rows: ir.Table, name: str) -> ir.Table:
        """Replace a column of days since the first midnight by the weighed time since then."""
        before = np.cumsum(self.often) - self.often
        joined, begun = self._joined(rows, name, {"before": before / len(self.often), "often": self.often})
        weighed = rows[name].floor() + joined.before + joined.often * begun
        return joined.mutate(**{name: weighed}).select(*rows.columns)

    def fading(self, rows: ir.Table, name: str, half_lives: Sequence[float]) -> ir.Table:
        """Add the integrals, from a moment on, of what fades from one at that moment.

        Parameters
        ----------
        rows : ibis.Table
            With a column ``name``: days since the first midnight.
        name : str
            Names the new columns too: ``<name>_0``, one per half-life.
        half_lives : sequence of float
            Days.
        """
        rates = [math.log(2) / each for each in half_lives]
        following = {f"following_{number}": self._following(rate) for number, rate in enumerate(rates)}
        joined, begun = self._joined(rows, name, {"often": self.often, **following})
        integrals = {}
        for number, rate in enumerate(rates):
            kept = ((begun - 1 / len(self.often)) * rate).exp()
            integrals[f"{name}_{number}"] = (
                joined.often * (1 - kept) / rate + kept * joined[f"following_{number}"]
            )
        return joined.mutate(**integrals).select(*rows.columns, *integrals)

    def _following(self, rate: float) -> Numbers:
        """Return the integral from the end of each part on, day after day."""
        parts = len(self.often)
        within = math.exp(-rate / parts)
        gained = self.often * -math.expm1(-rate / parts) / rate
        powers = within ** np.arange(parts)
        # A part's end is the beginning of the next one; a day later all comes again, faded.
        sums = [powers @ np.roll(gained, -(part + 1)) for part in range(parts)]
        return np.array(sums) / -math.expm1(-rate)

    def _joined(self, rows: ir.Table, name: str, columns: dict[str, Numbers]) -> tuple[ir.Table, Any]:
        """Join columns by part of the day, and return the days since the beginning of the part too."""
        parts = len(self.often)
        table = ibis.memtable(
            pa.table(
                {"part": np.arange(parts), **{each: pa.array(values) for each, values in columns.items()}}
            )
        )
        clock = rows[name] - rows[name].floor()
        part = ibis.least((clock * parts).floor(), parts - 1).cast("int64")
        joined = rows.mutate(clock=clock, at_part=part).inner_join(table, [("at_part", "part")])
        return joined, joined.clock - joined.at_part / parts
