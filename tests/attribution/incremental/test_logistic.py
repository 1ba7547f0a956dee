"""Logistic regression: Newton's method converges even if its first steps overshoot."""

from __future__ import annotations

import numpy as np
import pytest

from attrib_ds import Paths, simulate
from attrib_ds.attribution.incremental.discrete_hazard import regression
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.logistic import derivatives, fit_logistic, probabilities
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_the_gradient_vanishes_and_expected_conversions_equal_observed_ones(left_out):
    """With a few hundred conversions and uneven exposure, full Newton steps diverge for the first fold."""
    world = simulate("intent", users=6_000, seed=7)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    model = DiscreteHazard(half_lives=("3D",))
    sequences = Sequences.of(paths, folds=3)
    histories = Histories.of(sequences, covariates=None)
    periods, design = regression(model, histories, nodes=len(sequences.node_ids))
    rows = np.flatnonzero(histories.fold[periods.user] != left_out)
    outcome, weight = periods.is_case[rows], periods.weight[rows]
    penalty = design.penalty(model.shrinkage * outcome.sum())
    found, _ = fit_logistic(design.at(rows), outcome, weight, penalty=penalty)
    _, gradient, _ = derivatives(design.at(rows), outcome, weight, found, np.arange(len(rows)))
    assert np.abs(gradient - penalty * found).max() < 1e-3
    # The intercept is not penalised, so at the maximum expected and observed numbers are equal.
    assert probabilities(design.rows(rows) @ found) @ weight == pytest.approx(outcome.sum(), rel=1e-4)
