"""Credits of one model as arrays, with the intervals that a grouped jackknife gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Groups of users for the jackknife.
GROUPS = 20


@dataclass(frozen=True, eq=False)
class Tally:
    """Credited conversions and value by node and currency.

    Attributes
    ----------
    currencies : list
        The columns; None for conversions without a currency.
    conversions, value : float array, shape (n_nodes + 1, n_currencies)
        The last row is unattributed. Value is NaN where conversions have none.
    is_shown : bool array of the same shape
        Whether the node takes part, and has a row.
    without : list of float array
        ``conversions`` again, each time without one group of users; empty where no interval was asked for.
    """

    currencies: list[str | None]
    conversions: NDArray[np.float64]
    value: NDArray[np.float64]
    is_shown: NDArray[np.bool_]
    without: list[NDArray[np.float64]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        currencies: list[str | None],
        credited: list[NDArray[np.float64]],
        nothing: list[NDArray[np.float64]],
        *,
        is_shown: NDArray[np.bool_],
    ) -> Tally:
        """Put nodes and the unattributed together.

        Parameters
        ----------
        currencies : list
            The columns.
        credited : list of float array, shape (2, n_nodes, n_currencies)
            Conversions and value of each node; of the whole, then without each group of users.
        nothing : list of float array, shape (2, n_currencies)
            The same of paths without a touchpoint.
        is_shown : bool array, shape (n_nodes, n_currencies)
            Which nodes have a row.
        """
        pairs = zip(credited, nothing, strict=True)
        whole, *without = (np.concatenate([each, rest[:, None]], axis=1) for each, rest in pairs)
        is_shown = np.vstack([is_shown, nothing[0][0] > 0])
        return cls(currencies, whole[0], whole[1], is_shown, [each[0] for each in without])

    def reach(self, confidence: float) -> NDArray[np.float64]:
        """Return half the width of the interval of each number of conversions; NaN where it is unknown.

        The variance over groups of users is that of a sample of users that is as large in another period by
        chance as it is in this one; Student's distribution allows for the few groups.
        """
        groups = len(self.without)
        if not groups:
            return np.full_like(self.conversions, np.nan)
        # Without a group there are fewer conversions to divide: back to the size of the whole.
        whole = np.stack(self.without) * (groups / (groups - 1))
        variance = (groups - 1) / groups * ((whole - whole.mean(axis=0)) ** 2).sum(axis=0)
        return np.asarray(student.ppf(0.5 + confidence / 2, groups - 1) * np.sqrt(variance))

    def to_frame(self, node_ids: list[str], *, confidence: float | None) -> pd.DataFrame:
        """Return one row per node and currency; ``reach`` is half the width of the interval."""
        node, currency = np.nonzero(self.is_shown)
        columns: dict[str, Any] = {
            "node_id": pd.array([*node_ids, None], dtype="str").take(node),
            "currency": pd.array(self.currencies, dtype="str").take(currency),
            "conversions": self.conversions[node, currency],
            "value": self.value[node, currency],
        }
        if confidence is not None:
            columns["reach"] = self.reach(confidence)[node, currency]
        return pd.DataFrame(columns)


def shares(parts: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; a share of nothing is 0."""
    return np.divide(parts, whole, out=np.zeros_like(parts), where=np.broadcast_to(whole != 0, parts.shape))
