"""Credits of the models that compare whole paths."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from attrib_ds.attribution import models
from attrib_ds.attribution.conversion_rates import credit_conversion_rates
from attrib_ds.attribution.fractribution import credit_fractribution
from attrib_ds.attribution.incremental.discrete_hazard import credit_discrete_hazard
from attrib_ds.attribution.markov import credit_markov
from attrib_ds.attribution.sequences import Sequences
from attrib_ds.attribution.tally import GROUPS

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.attribution.paths import Paths
    from attrib_ds.attribution.tally import Tally


def path_credits(
    paths: Paths, wanted: list[models.PathModel], *, confidence: float | None
) -> list[pd.DataFrame]:
    """Compute models of whole paths; what several of them count is counted once.

    Parameters
    ----------
    paths : Paths
        With null paths as far as they are known.
    wanted : list of PathModel
        The models.
    confidence : float, optional
        Level of intervals.

    Returns
    -------
    list of DataFrame
        One per model, in order: ``node_id``, ``currency``, ``conversions``, ``value`` and, with
        ``confidence``, ``reach``: half the width of the interval, null where paths have no users.
    """
    sequences = Sequences.of(paths, folds=GROUPS if confidence is not None and paths.has_users else 1)
    # Counts of a higher order and with null paths serve the others, so these come first.
    order = sorted(range(len(wanted)), key=lambda index: _demand(wanted[index]), reverse=True)
    tallies = {index: credit(wanted[index], sequences) for index in order}
    return [
        tallies[index].to_frame(sequences.node_ids, confidence=confidence) for index in range(len(wanted))
    ]


def _demand(model: models.PathModel) -> tuple[int, bool]:
    return (model.order, model.nulls) if isinstance(model, models.Markov) else (0, False)


@singledispatch
def credit(model: models.PathModel, sequences: Sequences) -> Tally:
    """Credit conversions and value under a model of whole paths."""
    raise NotImplementedError(type(model).__name__)


credit.register(models.Markov, credit_markov)
credit.register(models.ConversionRateShapley, credit_conversion_rates)
credit.register(models.Fractribution, credit_fractribution)
credit.register(models.DiscreteHazard, credit_discrete_hazard)
