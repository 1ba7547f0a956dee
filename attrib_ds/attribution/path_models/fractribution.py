"""Fractribution: credit in proportion to the loss of a path's conversion rate without a touchpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attrib_ds.attribution.intervals.tally import Tally, shares
from attrib_ds.attribution.path_models.path_classes import PathClasses, split_paths
from attrib_ds.attribution.paths.sequences import prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.models.path_models import Fractribution
    from attrib_ds.attribution.paths.sequences import Sequences


def credit_fractribution(model: Fractribution, sequences: Sequences) -> Tally:
    """Divide the conversions of each distinct path in proportion to the losses without each touchpoint."""
    classes = PathClasses.of(sequences, model)
    outcomes = classes.outcomes
    has_converted = outcomes.summed()[0] > 0
    chosen = np.flatnonzero(has_converted.any(axis=1) & outcomes.has_touch)
    path, node, reduced = _steps(classes, chosen, nodes=len(sequences.node_ids))
    credited, nothing = [], []
    for sample in outcomes.samples(sequences):
        outcome = sample.summed()
        part = _parts(sample.rates(model.shrinkage), path, reduced)
        credit = np.zeros((2, len(sequences.node_ids), len(outcomes.currencies)))
        for of_one, amounts in zip(credit, outcome, strict=True):
            np.add.at(of_one, node, part[:, None] * amounts[path])
        credited.append(credit)
        nothing.append(outcome[:, ~outcomes.has_touch].sum(axis=1))
    is_shown = np.zeros(credited[0].shape[1:], dtype=bool)
    np.logical_or.at(is_shown, node, has_converted[path])
    return Tally.of(
        outcomes.currencies,
        credited,
        nothing,
        is_shown=is_shown,
        is_bootstrap=sequences.bootstrap is not None,
        is_gain=np.bincount(outcomes.currency, outcomes.counts[:, 3] > 0, len(outcomes.currencies)) == 0,
    )


def share_fractribution(model: Fractribution, sequences: Sequences) -> pa.Table:
    """Divide every conversion among the touchpoints that the transform keeps.

    In addition to the columns of :func:`~attrib_ds.attribution.credits.touch_shares.touch_shares` there are
    ``position``, ``rate`` (conversion rate of the path) and ``rate_without`` (of the path without the
    touchpoint).
    """
    classes = PathClasses.of(sequences, model)
    outcomes = classes.outcomes
    chosen = np.flatnonzero((outcomes.summed()[0] > 0).any(axis=1) & outcomes.has_touch)
    path, _, reduced = _steps(classes, chosen, nodes=len(sequences.node_ids))
    rates = outcomes.rates(model.shrinkage)
    part = _parts(rates, path, reduced)
    remaining = prepared(sequences.converting(), model, sequences.node_ids).table
    touched = remaining.filter(remaining.position > 0)
    columns = ["path_id", "node_id", "date", "touch_id", "position", "code"]
    rows = touched.select(*columns).order_by("path_id", "position").to_pyarrow()
    starts, row_paths = split_paths(rows["path_id"], rows["code"])
    # The steps of a path are consecutive and in order.
    first_step = dict(zip(path[::-1].tolist(), range(len(path) - 1, -1, -1), strict=True))
    place = {encoded: first_step.get(index) for index, encoded in enumerate(classes.paths)}
    lengths = np.diff([*starts.tolist(), rows.num_rows])
    begins = np.array([place[encoded] for encoded in row_paths], dtype=np.int64)
    step = np.repeat(begins - starts, lengths) + np.arange(rows.num_rows)
    numbers_of = {"share": part[step], "rate": rates[path[step]], "rate_without": rates[reduced[step]]}
    table = rows.drop_columns(["code"]).rename_columns({"path_id": "event_id"})
    for name, numbers in numbers_of.items():
        table = table.append_column(name, pa.array(numbers, pa.float64()))
    return table


def _steps(
    classes: PathClasses, chosen: NDArray[np.int64], *, nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the path, the node and the path without the step, for every step of the chosen paths."""
    place = {path: index for index, path in enumerate(classes.paths)}
    unobserved = len(classes.paths)
    path, node, reduced = [], [], []
    for index in chosen.tolist():
        encoded = classes.paths[index]
        shorter = classes.without_each_step(encoded)
        path += [index] * len(shorter)
        node.append(classes.codes(encoded) % nodes)
        reduced += [place.get(other, unobserved) for other in shorter]
    return (
        np.array(path, dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *node]),
        np.array(reduced, dtype=np.int64),
    )


def _parts(
    rates: NDArray[np.float64], path: NDArray[np.int64], reduced: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the share of each step in its path; the last step has all if no step has a positive loss."""
    is_last = np.append(path[1:] != path[:-1], True)[: len(path)]
    loss = np.maximum(rates[path] - rates[reduced], 0.0)
    total = np.asarray(np.bincount(path, loss, len(rates)), dtype=np.float64)[path]
    return np.where(total > 0, shares(loss, total), is_last.astype(np.float64))
