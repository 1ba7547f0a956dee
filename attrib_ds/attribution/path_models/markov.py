"""Markov models: transition matrix, removal effects and credits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attrib_ds.attribution.intervals.tally import Tally, shares
from attrib_ds.attribution.models.path_models import Markov
from attrib_ds.attribution.path_models.chains import Chain, States
from attrib_ds.attribution.path_models.transitions import Transitions
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import NOTHING, Sequences
from attrib_ds.records.dtypes import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths


def transition_matrix(paths: Paths, *, order: int = 1, nulls: bool = True) -> pd.DataFrame:
    """Count how often each node follows the nodes before it.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    order : int, default 1
        Number of preceding touchpoints to distinguish, 1 to 9.
    nulls : bool, default True
        Whether to count null paths, if the paths have them.

    Returns
    -------
    DataFrame
        The matrix in long form, one row per cell above zero, ordered by its columns: ``previous_<order>_id``
        to ``previous_1_id`` (str, the preceding touchpoints, the latest last; null before the start of the
        path), ``outcome`` (str, ``"node"``, ``"conversion"`` or ``"null"``), ``node_id`` (str, null where the
        path ends), ``transitions`` (float64), ``probability`` (float64, sums to 1 over the rows with the
        same preceding touchpoints).

    Raises
    ------
    InvalidRequest
        If ``order`` or ``nulls`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1], "lost": [0, 4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n", nulls="lost")
    >>> matrix = at.transition_matrix(paths)
    >>> matrix[matrix["previous_1_id"] == "email"][["outcome", "transitions", "probability"]]
          outcome  transitions  probability
    0  conversion          4.0          0.5
    1        null          4.0          0.5
    """
    require_paths(paths)
    sequences = Sequences.of(paths)
    counted = Transitions.of(sequences, Markov(order=order, nulls=nulls))
    counted = counted.where(counted.code != NOTHING)
    after = np.column_stack([counted.before[:, 1:], counted.code])
    parts = [
        (counted.before, "node", counted.code, counted.counts[:, :2].sum(axis=1)),
        *(
            (after, outcome, np.full(len(after), NOTHING), counted.is_last * counted.counts[:, column])
            for column, outcome in enumerate(("conversion", "null"))
        ),
    ]
    ids = pd.array([*sequences.node_ids, None], dtype=TEXT)
    names = [f"previous_{back}_id" for back in range(order, 0, -1)]
    rows = pd.concat(
        [
            pd.DataFrame(
                {name: ids.take(before[:, index]) for index, name in enumerate(names)}
                | {"outcome": pd.array([outcome] * len(code), dtype=TEXT), "node_id": ids.take(code)}
                | {"transitions": weight}
            )
            for before, outcome, code, weight in parts
        ]
    )
    keys = [*names, "outcome", "node_id"]
    cells = rows[rows["transitions"] > 0].groupby(keys, dropna=False)["transitions"].sum().reset_index()
    total = cells.groupby(names, dropna=False)["transitions"].transform("sum")
    return cells.assign(probability=cells["transitions"] / total)


def removal_effects(
    paths: Paths,
    *,
    order: int = 1,
    nulls: bool = True,
    transform: str = "unique",
    steps: int | None = None,
) -> pd.DataFrame:
    """Measure the share of conversions that a Markov chain loses without each node.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    order : int, default 1
        Number of preceding touchpoints that the next step depends on, 1 to 9.
    nulls : bool, default True
        Whether to include null paths, if the paths have them.
    transform : str, default "unique"
        ``"unique"``, ``"exposure"``, ``"first"`` or ``"frequency"``, as in :class:`attrib_ds.models.Markov`.
    steps : int, optional
        Number of touchpoints at the end of a path to keep, 1 or more; all by default.

    Returns
    -------
    DataFrame
        One row per node and currency, by effect: ``node_id``, ``node_name``, ``currency`` (str),
        ``removal_effect`` (float64, share of the conversions in the currency, 0 to 1) and
        ``value_removal_effect`` (float64, share of their value; null if they have no value or its sum is
        0). Effects may sum to more than 1, because a conversion needs every node of its walk. Without
        conversions there are no rows.

    Raises
    ------
    InvalidRequest
        If the order, the transform or the steps are not allowed.

    References
    ----------
    Anderl, Becker, von Wangenheim and Schumann (2016), Mapping the customer journey, International Journal
    of Research in Marketing 33(3), 457-474.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> at.removal_effects(paths)[["node_id", "removal_effect"]]
      node_id  removal_effect
    0   email            1.00
    1  search            0.75
    """
    require_paths(paths)
    model = Markov(order=order, nulls=nulls, transform=transform, steps=steps)
    sequences = Sequences.of(paths)
    states = States.of(Transitions.of(sequences, model), nodes=len(sequences.node_ids))
    chain = Chain.of(states)
    lost, total = chain.lost(), chain.total
    net, net_total = lost[1] - lost[2], total[1] - total[2]
    node, currency = np.nonzero(states.takes_part())
    effects = pd.DataFrame(
        {
            "node_id": pd.array(sequences.node_ids, dtype=TEXT).take(node),
            "currency": pd.array(states.counted.currencies, dtype=TEXT).take(currency),
            "removal_effect": shares(lost[0], total[0])[node, currency],
            "value_removal_effect": np.where(net_total == 0, np.nan, shares(net, net_total))[node, currency],
        }
    )
    effects.insert(1, "node_name", paths.names(effects["node_id"]))
    by = ["removal_effect", "node_id", "currency"]
    return effects.sort_values(by, ascending=[False, True, True], ignore_index=True)


def credit_markov(model: Markov, sequences: Sequences) -> Tally:
    """Credit conversions and value by the removal effects of a chain."""
    chains = _chains(model, sequences)
    whole = next(chains)
    credited, nothing = [], []
    for chain in itertools.chain([whole], chains):
        credited.append(_counts_and_value(_credited(chain)))
        nothing.append(_counts_and_value(chain.nothing))
    return Tally.of(
        whole.states.counted.currencies,
        credited,
        nothing,
        is_shown=whole.states.takes_part(),
        is_bootstrap=sequences.bootstrap is not None,
        is_gain=~(whole.total[2] > 0),
    )


def _chains(model: Markov, sequences: Sequences) -> Iterator[Chain]:
    """Yield the chain of all users, then those without each group of users or of each bootstrap sample."""
    counted = Transitions.of(sequences, model)
    if sequences.bootstrap is None:
        states = States.of(counted, nodes=len(sequences.node_ids))
        yield Chain.of(states)
        for group in range(sequences.folds if sequences.folds > 1 else 0):
            yield Chain.of(states, without=group)
        return
    whole, index = counted.summed()
    states = States.of(whole, nodes=len(sequences.node_ids))
    yield Chain.of(states)
    has_users = sequences.paths.has_users
    for counts in counted.replicates(index, sequences.bootstrap, has_users=has_users):
        yield Chain.of(replace(states, counted=replace(whole, counts=counts)))


def _credited(chain: Chain) -> NDArray[np.float64]:
    """Divide conversions, gains and losses in proportion to the losses without each node."""
    lost = chain.lost()
    return shares(lost, lost.sum(axis=1, keepdims=True)) * chain.total[:, None]


def _counts_and_value(outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
    conversions, gains, losses = outcomes
    return np.stack([conversions, gains - losses])
