"""Credits of path models, of nodes and of touchpoints; rules alone need none of what this imports."""

from functools import singledispatch

import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

from attrib_ds.attribution import conversion_rates, intervals, markov, models
from attrib_ds.attribution.incremental.discrete_hazard import credit_discrete_hazard, share_discrete_hazard
from attrib_ds.attribution.models import DiscreteHazard, PathModel
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest


def path_credits(
    paths: Paths, wanted: list[PathModel], *, uncertainty: intervals.Uncertainty | None
) -> list[pd.DataFrame]:
    """Compute path models, sharing the counts that several of them need.

    Parameters
    ----------
    paths : Paths
        Paths, with null paths if they have any.
    wanted : list of PathModel
        Models to compute.
    uncertainty : Uncertainty, optional
        How to estimate intervals; none by default.

    Returns
    -------
    list of DataFrame
        One per model, in order: ``node_id``, ``currency``, ``conversions``, ``value`` and, with
        ``uncertainty``, bounds of them and of the share; jackknife bounds are null if the paths have no
        users.

    Raises
    ------
    InvalidRequest
        If an incremental model is to be bootstrapped.
    """
    is_bootstrap = uncertainty is not None and uncertainty.replicates > 0
    for model in wanted if is_bootstrap else ():
        if isinstance(model, DiscreteHazard):
            raise InvalidRequest(
                f"intervals: {model.name} cannot be bootstrapped, as its fit is iterative and slow; allowed: "
                "'closed_form', a jackknife over groups of users"
            )
    is_jackknife = uncertainty is not None and not is_bootstrap and paths.has_users
    sequences = Sequences.of(
        paths,
        folds=intervals.GROUPS if is_jackknife else 1,
        bootstrap=uncertainty if is_bootstrap else None,
        counts_sets=any(isinstance(model, models.ConversionRateShapley) for model in wanted),
    )
    # Counts of higher orders and with null paths contain those of the others, so these models come first.
    order = sorted(range(len(wanted)), key=lambda index: _demand(wanted[index]), reverse=True)
    # The matrices are small: BLAS threads would mostly wait for each other, above all on a busy machine.
    with threadpool_limits(1, user_api="blas"):
        tallies = {index: credit(wanted[index], sequences) for index in order}
    return [
        tallies[index].to_frame(
            sequences.node_ids,
            uncertainty=uncertainty,
            is_sum=not (model.signed or isinstance(model, DiscreteHazard)),
            is_signed=model.signed,
        )
        for index, model in enumerate(wanted)
    ]


def _demand(model: PathModel) -> tuple[int, bool]:
    return (model.order, model.nulls) if isinstance(model, models.Markov) else (0, False)


@singledispatch
def credit(model: PathModel, sequences: Sequences) -> intervals.Tally:
    """Credit conversions and value under a path model."""
    raise NotImplementedError(type(model).__name__)


credit.register(models.Markov, markov.credit_markov)
credit.register(models.ConversionRateShapley, conversion_rates.credit_conversion_rates)
credit.register(models.Fractribution, conversion_rates.credit_fractribution)
credit.register(models.DiscreteHazard, credit_discrete_hazard)


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
        f"models: {model.name} credits nodes, not touchpoints: its removal effects are scaled to the total "
        "of all conversions, so a credit cannot be divided among paths; allowed: rules, Shapley, "
        "ConversionRateShapley, Fractribution and DiscreteHazard"
    )


touch_shares.register(models.ConversionRateShapley, conversion_rates.share_conversion_rates)
touch_shares.register(models.Fractribution, conversion_rates.share_fractribution)
touch_shares.register(models.DiscreteHazard, share_discrete_hazard)
