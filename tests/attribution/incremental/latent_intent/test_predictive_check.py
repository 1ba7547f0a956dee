"""Comparison of observed users with users drawn from a model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from attrib_ds.attribution.incremental.latent_intent.predictive_check import (
    Comparison,
    compare,
    misfits,
    warn_of_misfit,
)
from attrib_ds.attribution.incremental.latent_intent.replication import Replicated
from attrib_ds.errors import MisfitWarning


def comparison(observed, replicated, statistic="lag"):
    return Comparison(statistic, list("abc"), np.array(observed, float), np.array(replicated, float))


def test_distributions_of_four_users():
    """A buyer with three touchpoints, one with none, an unconverted user with two, and one with none."""
    seen = Replicated(
        4,
        np.array([0, 0, 0, 2, 2]),
        np.array([0, 1, 0, 0, 0]),
        np.array([1, 4, 4, 0, 9]),
        np.array([6, 2, -1, -1]),
    )
    found = {
        each.statistic: {
            name: count for name, count in zip(each.classes, each.observed, strict=True) if count
        }
        for each in compare(seen, seen, ["often", "rare"])
    }
    assert found == {
        "touchpoints of users": {"0": 2, "2": 1, "3": 1},
        "touchpoints of buyers": {"0": 1, "3": 1},
        "lag between the first two touchpoints": {"3": 1, "9-13": 1},
        "lag between the last two touchpoints": {"0": 1, "9-13": 1},
        "lag from the first touchpoint to the conversion": {"4-5": 1},
        "lag from the last touchpoint to the conversion": {"2": 1},
        # Two nodes touched the buyer in the same last period: the rarer one is reported.
        "last node before the conversion": {"rare": 1, "none": 1},
        "lag from the first often to the conversion": {"4-5": 1},
        "lag from the first rare to the conversion": {"2": 1},
    }


def test_the_distance_is_the_share_of_users_in_other_classes():
    assert comparison([50, 30, 20], [300, 300, 400]).distance == pytest.approx(0.2)
    assert comparison([0, 0, 0], [1, 2, 3]).distance == 0


def test_the_p_value_is_that_of_pearson():
    counts = [[50, 30, 20], [300, 320, 380]]
    assert comparison(*counts).p_value == pytest.approx(chi2_contingency(counts).pvalue)


def test_rare_classes_are_joined():
    # Of the small class, 110 * 3 / 363 = 0.9 users are expected: too few for the approximation.
    rare = comparison([60, 50, 3], [150, 200, 0])
    assert rare.p_value == pytest.approx(chi2_contingency([[60, 50, 3], [150, 200, 0]]).pvalue, rel=1)
    assert comparison([0, 0, 0], [1, 2, 3]).p_value == 1


def test_a_refuted_model_with_a_small_distance_is_tolerated(recwarn):
    small = comparison([51_000, 29_000, 20_000], [500_000, 300_000, 200_000])
    assert small.p_value < 1e-9
    warn_of_misfit("model", misfits([small]))
    assert not recwarn.list


def test_a_large_distance_by_chance_is_tolerated():
    assert misfits([comparison([5, 3, 0], [400, 300, 300])]) == {}


def test_a_large_and_certain_distance_is_named():
    large = [
        comparison([200, 300, 500], [300, 300, 400]),
        comparison([50, 30, 20], [300, 300, 400], "length"),
    ]
    found = misfits(large)
    assert list(found) == ["length", "lag"]
    with pytest.warns(MisfitWarning, match=r"^model does not describe these data: .* in length \(20 %\); in"):
        warn_of_misfit("model", found)


def test_the_significance_level_is_that_of_all_statistics_together():
    # P-value 0.003: significant alone, and not as one of twenty.
    one = comparison([114, 62, 24], [450, 370, 180])
    assert 0.01 / 20 < one.p_value < 0.01
    assert misfits([one])
    assert not misfits([one] * 20)
