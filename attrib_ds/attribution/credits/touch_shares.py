"""The part of each touchpoint in each conversion, under the models that look at whole paths."""

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
        With credit per touchpoint.
    sequences : Sequences
        Paths whose nodes have numbers.

    Returns
    -------
    pyarrow.Table
        One row per conversion and touchpoint that has a part in it: ``event_id``, ``node_id`` (string),
        ``date`` (timestamp, as in the touchpoints), ``touch_id`` (string, as in the touchpoints), ``share``
        (float64, of the conversion). What the shares of a conversion leave of 1 is nobody's. A touchpoint may
        lie outside the lookback of the conversion. Rows of the same conversion, node, instant and touch id
        are added up, unless there is a column ``position``: the place in the path.

    Raises
    ------
    InvalidRequest
        If the model has no credit per touchpoint.
    """
    raise InvalidRequest(
        f"models: {model!r} gives credit to nodes, not to touchpoints; allowed: rules, Shapley, "
        "ConversionRateShapley, Fractribution and DiscreteHazard",
        field="models",
    )


@touch_shares.register(models.Markov)
def _refuse_markov(model: models.Markov, sequences: Sequences) -> pa.Table:  # noqa: ARG001
    raise InvalidRequest(
        f"models: {model.name} gives credit to nodes, not to touchpoints: its removal effects are scaled to "
        "all conversions at once, so that no part of a credit belongs to one path; allowed: rules, Shapley, "
        "ConversionRateShapley, Fractribution and DiscreteHazard",
        field="models",
    )


touch_shares.register(models.ConversionRateShapley, share_conversion_rates)
touch_shares.register(models.Fractribution, share_fractribution)
touch_shares.register(models.DiscreteHazard, share_discrete_hazard)
