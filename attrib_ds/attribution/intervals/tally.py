"""Credits of one model as arrays, with the credits of resampled users for intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution.intervals.uncertainty import Limits, measures_of
from attrib_ds.records.dtypes import TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.intervals.uncertainty import Uncertainty

#: Number of groups of users in the jackknife.
GROUPS = 20


@dataclass(frozen=True, eq=False)
class Tally:
    """Credited conversions and value by node and currency.

    Attributes
    ----------
    currencies : list
        Currencies of the columns; None for conversions without one.
    conversions, value : float array, shape (n_nodes + 1, n_currencies)
        The last row is unattributed. Value is NaN if conversions have none.
    is_shown : bool array of the same shape
        Whether the node has a row.
    without : list of float array
        ``conversions`` without each group of users; empty without a jackknife.
    value_without : list of float array
        ``value`` without each group of users; empty if its interval is unknown.
    replicates : float array, shape (n_replicates, 2, n_nodes + 1, n_currencies), optional
        Conversions and value in each replicate of a bootstrap.
    is_gain : bool array, shape (n_currencies,), optional
        Whether no conversion in a currency has a negative value; False by default.
    """

    currencies: list[str | None]
    conversions: NDArray[np.float64]
    value: NDArray[np.float64]
    is_shown: NDArray[np.bool_]
    without: list[NDArray[np.float64]] = field(default_factory=list)
    value_without: list[NDArray[np.float64]] = field(default_factory=list)
    replicates: NDArray[np.float64] | None = None
    is_gain: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        currencies: list[str | None],
        credited: list[NDArray[np.float64]],
        nothing: list[NDArray[np.float64]],
        *,
        is_shown: NDArray[np.bool_],
        is_bootstrap: bool = False,
        is_gain: NDArray[np.bool_] | None = None,
    ) -> Tally:
        """Make a tally from the credits of nodes and the unattributed conversions.

        Parameters
        ----------
        currencies : list
            Currencies of the columns.
        credited : list of float array, shape (2, n_nodes, n_currencies)
            Conversions and value of each node: first of all users, then without each group of users or in
            each replicate.
        nothing : list of float array, shape (2, n_currencies)
            The same for paths without a touchpoint.
        is_shown : bool array, shape (n_nodes, n_currencies)
            Whether the node has a row.
        is_bootstrap : bool, default False
            Whether replicates, not groups of users, follow the first item.
        is_gain : bool array, shape (n_currencies,), optional
            Whether no conversion in a currency has a negative value.
        """
        pairs = zip(credited, nothing, strict=True)
        whole, *samples = (np.concatenate([nodes, rest[:, None]], axis=1) for nodes, rest in pairs)
        is_shown = np.vstack([is_shown, nothing[0][0] > 0])
        if is_bootstrap:
            return cls(
                currencies, whole[0], whole[1], is_shown, replicates=np.stack(samples), is_gain=is_gain
            )
        conversions, value = ([sample[which] for sample in samples] for which in (0, 1))
        return cls(currencies, whole[0], whole[1], is_shown, conversions, value, is_gain=is_gain)

    def to_frame(
        self,
        node_ids: list[str],
        *,
        uncertainty: Uncertainty | None,
        is_sum: bool = False,
        is_signed: bool = True,
    ) -> pd.DataFrame:
        """Return one row per node and currency, with bounds if intervals are requested.

        Parameters
        ----------
        node_ids : list of str
            Ids of the nodes.
        uncertainty : Uncertainty, optional
            Level and method of intervals; none by default.
        is_sum, is_signed : bool
            As in :class:`~attrib_ds.attribution.intervals.uncertainty.Limits`.
        """
        node, currency = np.nonzero(self.is_shown)
        columns: dict[str, Any] = {
            "node_id": pd.array([*node_ids, None], dtype=TEXT).take(node),
            "currency": pd.array(self.currencies, dtype=TEXT).take(currency),
            "conversions": self.conversions[node, currency],
            "value": self.value[node, currency],
        }
        if uncertainty is not None:
            is_gain = np.zeros(len(self.currencies), bool) if self.is_gain is None else self.is_gain
            limits = Limits(is_sum=is_sum, is_signed=is_signed, is_gain=is_gain[currency], currency=currency)
            columns |= self._bounds(node, currency, uncertainty, limits)
        return pd.DataFrame(columns)

    def _bounds(
        self, node: NDArray[np.int64], currency: NDArray[np.int64], uncertainty: Uncertainty, limits: Limits
    ) -> dict[str, NDArray[np.float64]]:
        estimates = measures_of(self.conversions[node, currency], self.value[node, currency])
        if self.replicates is not None:
            return uncertainty.between(estimates, self.replicates[:, :, node, currency], limits=limits)
        if not self.without:
            return uncertainty.unknown(len(node))
        left_out = np.stack(self.without)[:, node, currency]
        value = np.full_like(left_out, np.nan)
        if self.value_without:
            value = np.stack(self.value_without)[:, node, currency]
        return uncertainty.without(estimates, np.stack([left_out, value], axis=1), limits=limits)


def shares(parts: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide parts by a whole; shares of 0 are 0."""
    return np.divide(parts, whole, out=np.zeros_like(parts), where=np.broadcast_to(whole != 0, parts.shape))
