"""Draws of a truncated normal distribution, compared with rejection sampling."""

from __future__ import annotations

import numpy as np
import pytest

from attrib_ds.attribution.incremental.latent_intent.fitting import truncated_normals


@pytest.mark.slow
@pytest.mark.parametrize("mean", [(0.5, 1.0, 2.0), (-1.0, 0.3, 0.0)])
def test_draws_equal_those_of_rejection_sampling(mean):
    covariance = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.0], [-0.3, 0.0, 0.5]])
    precision = np.linalg.inv(covariance)
    at = np.array([0.2, 0.0, 1.0])
    slope = precision @ (np.array(mean) - at)
    random = np.random.default_rng(1)
    drawn = at + np.stack(list(truncated_normals(at, slope, precision, draws=3_000, random=random)))
    plain = random.multivariate_normal(mean, covariance, size=200_000)
    plain = plain[(plain >= 0).all(axis=1)]
    assert (drawn >= 0).all()
    assert drawn.mean(axis=0) == pytest.approx(plain.mean(axis=0), abs=0.05)
    assert np.cov(drawn.T) == pytest.approx(np.cov(plain.T), abs=0.06)


@pytest.mark.slow
def test_strong_evidence_against_an_effect_keeps_it_near_zero():
    """Twenty standard deviations below zero, the truncated normal is exponential with rate 20."""
    random = np.random.default_rng(2)
    drawn = np.concatenate(
        list(truncated_normals(np.zeros(1), np.full(1, -20.0), np.eye(1), draws=4_000, random=random))
    )
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(1 / 20, rel=0.06)
