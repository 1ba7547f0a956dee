"""Compare users drawn from a fitted model with those observed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binom

from attrib_ds.attribution.incremental.latent_intent.latent_intent import compare_fit
from attrib_ds.attribution.incremental.latent_intent.predictive_check import (
    LARGEST_DISTANCE,
    Comparison,
    misfits,
    warn_of_misfit,
)
from attrib_ds.attribution.models.incremental import LatentIntent
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT


def check_fit(paths: Paths, model: LatentIntent | None = None) -> pd.DataFrame:
    """Compare path lengths, lags and last nodes of observed users with those of users drawn from a model.

    Parameters
    ----------
    paths : Paths
        Paths with dates, null paths and, preferably, the observation period of every user.
    model : LatentIntent, optional
        Model to fit, which takes minutes; the default one by default.

    Returns
    -------
    DataFrame
        One row per statistic and class of its values, in order: ``statistic``, ``value`` (str), ``observed``
        (float64, share of the observed users), ``replicated`` (float64, share of the users drawn from the
        fitted model), ``low``, ``high`` (float64, bounds of the observed share at 95 % if the model were
        true), ``users`` (int64, observed users of the statistic), ``distance`` (float64, total variation
        distance between both distributions: the share of users in other classes than the model says),
        ``p_value`` (float64, of Pearson's test that both are the same) and ``is_misfit`` (bool, whether the
        distance is above 0.1, and chance does not explain it at a level of 0.01 for all statistics
        together). Touchpoints count up to the first conversion, at most one per node and period of the model;
        lags are numbers of periods.

    Warns
    -----
    MisfitWarning
        If the model does not describe the data.

    Raises
    ------
    InvalidRequest
        If the model is not a ``LatentIntent``, or the paths have no dates or no conversions.

    Notes
    -----
    A posterior predictive check (Rubin 1984) with the estimate in place of posterior draws, which makes it
    slightly conservative. With many users every model is refuted, so the distance decides, not the p-value
    alone. Users are drawn with the periods of observation and covariates of those observed.

    A model that describes the data may still be wrong: an effect and a sign of intent can leave the same
    traces.

    References
    ----------
    Rubin (1984), Bayesianly justifiable and relevant frequency calculations for the applied statistician.
    Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness via realized
    discrepancies.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("intent", users=500, seed=2)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> quick = at.models.LatentIntent(activities=2, propensities=1, evaluations=40)
    >>> check = at.experiments.check_fit(paths, quick)
    >>> bool(check["is_misfit"].any())
    False
    """
    require_paths(paths)
    model = LatentIntent() if model is None else model
    if not isinstance(model, LatentIntent):
        raise InvalidRequest(
            f"model: {model!r} is not allowed; allowed: a LatentIntent, the model of whole histories",
            field="model",
        )
    comparisons = compare_fit(model, Sequences.of(paths))
    found = misfits(comparisons)
    warn_of_misfit(model.name, found)
    large = [name for name, distance in found.items() if distance > LARGEST_DISTANCE]
    frames = [_rows(each).assign(is_misfit=each.statistic in large) for each in comparisons]
    rows = pd.concat(frames, ignore_index=True)
    return rows.astype({"statistic": TEXT, "value": TEXT})


def _rows(comparison: Comparison) -> pd.DataFrame:
    """Return the rows of one statistic."""
    users, drawn = int(comparison.observed.sum()), comparison.replicated.sum()
    replicated = comparison.replicated / max(drawn, 1.0)
    low, high = (binom.ppf(level, users, replicated) / max(users, 1) for level in (0.025, 0.975))
    return pd.DataFrame(
        {
            "statistic": comparison.statistic,
            "value": comparison.classes,
            "observed": comparison.observed / max(users, 1),
            "replicated": replicated,
            "low": low,
            "high": high,
            "users": np.int64(users),
            "distance": comparison.distance,
            "p_value": comparison.p_value,
        }
    )
