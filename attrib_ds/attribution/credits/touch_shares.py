"""Share of each touchpoint in each conversion, under path models."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from attrib_ds.attribution import models
from attrib_ds.attribution.incremental.discrete_hazard import share_discrete_hazard
from attrib_ds.attribution.path_models.conversion_rates import share_conversion_rates
from attrib_ds.attribution.path_models.fractribution import share_fractribution
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from attrib_ds.attribution.paths.sequences import Sequences


@singledispatch
def touch_shares(model: models.Model, sequences: Sequences) -> pa.Table:  # noqa: ARG001
    """Divide every conversion among its touchpoints.

    Parameters
    ----------
    model : PathModel
        A model that credits touchpoints.
    sequences : Sequences
        Paths whose nodes have numbers.

    Returns
    -------
    pyarrow.Table
        One row per conversion and credited touchpoint: ``event_id``, ``node_id`` (string), ``date``
        (timestamp), ``touch_id`` (string), all as in the touchpoints, and ``share`` (float64, fraction of the
        conversion). If the shares of a conversion sum to less than 1, the rest is unattributed. A touchpoint
        may lie outside the lookback. Rows with the same conversion, node, date and touch id are summed,
        unless the table has a column ``position``.

    Raises
    ------
    InvalidRequest
        If the model does not credit touchpoints.
    """
    raise InvalidRequest(
        f"models: {model!r} credits nodes, not touchpoints; allowed: rules, Shapley, "
        "ConversionRateShapley, Fractribution and DiscreteHazard",
        field="models",
    )


@touch_shares.register(models.Markov)
def _refuse_markov(model: models.Markov, sequences: Sequences) -> pa.Table:  # noqa: ARG001
    raise InvalidRequest(
        f"models: {model.name} credits nodes, not touchpoints: its removal effects are scaled to the total "
        "of all conversions, so a credit cannot be divided among paths; allowed: rules, Shapley, "
        "ConversionRateShapley, Fractribution and DiscreteHazard",
        field="models",
    )


touch_shares.register(models.ConversionRateShapley, share_conversion_rates)
touch_shares.register(models.Fractribution, share_fractribution)
touch_shares.register(models.DiscreteHazard, share_discrete_hazard)
