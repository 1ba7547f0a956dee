"""Credits of one model as arrays, with those of the samples of users that their intervals come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.uncertainty import Uncertainty

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
    value_without : list of float array
        ``value`` likewise; empty where its interval is unknown.
    replicates : float array, shape (n_replicates, 2, n_nodes + 1, n_currencies), optional
        Both of them in each replicate of a bootstrap, if one was asked for.
    """

    currencies: list[str | None]
    conversions: NDArray[np.float64]
    value: NDArray[np.float64]
    is_shown: NDArray[np.bool_]
    without: list[NDArray[np.float64]] = field(default_factory=list)
    value_without: list[NDArray[np.float64]] = field(default_factory=list)
    replicates: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        currencies: list[str | None],
        credited: list[NDArray[np.float64]],
        nothing: list[NDArray[np.float64]],
        *,
        is_shown: NDArray[np.bool_],
        is_bootstrap: bool = False,
    ) -> Tally:
        """Put nodes and the unattributed together.

        Parameters
        ----------
        currencies : list
            The columns.
        credited : list of float array, shape (2, n_nodes, n_currencies)
            Conversions and value of each node; of the whole, then without each group of users or in each
            replicate.
        nothing : list of float array, shape (2, n_currencies)
            The same of paths without a touchpoint.
        is_shown : bool array, shape (n_nodes, n_currencies)
            Which nodes have a row.
        is_bootstrap : bool, default False
            Whether there are replicates after the whole.
        """
        pairs = zip(credited, nothing, strict=True)
        whole, *samples = (np.concatenate([each, rest[:, None]], axis=1) for each, rest in pairs)
        is_shown = np.vstack([is_shown, nothing[0][0] > 0])
        if is_bootstrap:
            return cls(currencies, whole[0], whole[1], is_shown, replicates=np.stack(samples))
        conversions, value = ([sample[which] for sample in samples] for which in (0, 1))
        return cls(currencies, whole[0], whole[1], is_shown, conversions, value)

    def to_frame(self, node_ids: list[str], *, uncertainty: Uncertainty | None) -> pd.DataFrame:
        """Return one row per node and currency, with bounds where intervals are wanted."""
        node, currency = np.nonzero(self.is_shown)
        columns: dict[str, Any] = {
            "node_id": pd.array([*node_ids, None], dtype="str").take(node),
            "currency": pd.array(self.currencies, dtype="str").take(currency),
            "conversions": self.conversions[node, currency],
            "value": self.value[node, currency],
        }
        if uncertainty is not None:
            columns |= self._bounds(node, currency, uncertainty)
        return pd.DataFrame(columns)

    def _bounds(
        self, node: NDArray[np.int64], currency: NDArray[np.int64], uncertainty: Uncertainty
    ) -> dict[str, NDArray[np.float64]]:
        if self.replicates is not None:
            return uncertainty.between(self.replicates[:, :, node, currency])
        if not self.without:
            return uncertainty.unknown(len(node))
        conversions = np.stack(self.without)[:, node, currency]
        value = np.full_like(conversions, np.nan)
        if self.value_without:
            value = np.stack(self.value_without)[:, node, currency]
        credited = self.conversions[node, currency]
        total = credited.sum()
        estimates = {
            "conversions": credited,
            "value": self.value[node, currency],
            "share": credited / total if total else np.zeros_like(credited),
        }
        return uncertainty.without(estimates, np.stack([conversions, value], axis=1))


def shares(parts: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; a share of nothing is 0."""
    return np.divide(parts, whole, out=np.zeros_like(parts), where=np.broadcast_to(whole != 0, parts.shape))
