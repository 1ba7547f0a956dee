"""Google's rule: what the conversion rate of a path loses without one of its touchpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.path_classes import PathClasses
from attrib_ds.attribution.tally import Tally, shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.models import Fractribution
    from attrib_ds.attribution.sequences import Sequences


def credit_fractribution(model: Fractribution, sequences: Sequences) -> Tally:
    """Divide the conversions of each distinct path by the losses without each touchpoint."""
    classes = PathClasses.of(sequences, model)
    outcomes = classes.outcomes
    samples = outcomes.samples(sequences.folds)
    summed = [outcomes.summed(kept) for kept in samples]
    has_converted = summed[0][0] > 0
    chosen = np.flatnonzero(has_converted.any(axis=1) & outcomes.has_touch)
    path, node, reduced = _steps(classes, chosen, nodes=len(sequences.node_ids))
    credited = []
    for kept, outcome in zip(samples, summed, strict=True):
        part = _parts(outcomes.rates(kept, model.shrinkage), path, reduced)
        credit = np.zeros((2, len(sequences.node_ids), len(outcomes.currencies)))
        for of_one, amounts in zip(credit, outcome, strict=True):
            np.add.at(of_one, node, part[:, None] * amounts[path])
        credited.append(credit)
    is_shown = np.zeros(credited[0].shape[1:], dtype=bool)
    np.logical_or.at(is_shown, node, has_converted[path])
    nothing = [outcome[:, ~outcomes.has_touch].sum(axis=1) for outcome in summed]
    return Tally.of(outcomes.currencies, credited, nothing, is_shown=is_shown)


def _steps(
    classes: PathClasses, chosen: NDArray[np.int64], *, nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the path, the node, and the path without the step, of every step of some paths."""
    place = {path: index for index, path in enumerate(classes.paths)}
    unknown = len(classes.paths)
    path, node, reduced = [], [], []
    for index in chosen.tolist():
        text = classes.paths[index]
        left = classes.without_each_step(text)
        path += [index] * len(left)
        node.append(classes.codes(text) % nodes)
        reduced += [place.get(each, unknown) for each in left]
    return (
        np.array(path, dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *node]),
        np.array(reduced, dtype=np.int64),
    )


def _parts(
    rates: NDArray[np.float64], path: NDArray[np.int64], reduced: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the part of each step in its path; all of it is the last step's where no step loses anything."""
    is_last = np.append(path[1:] != path[:-1], True)[: len(path)]
    loss = np.maximum(rates[path] - rates[reduced], 0.0)
    total = np.asarray(np.bincount(path, loss, len(rates)), dtype=np.float64)[path]
    return np.where(total > 0, shares(loss, total), is_last.astype(np.float64))
