"""Models combined with experiments: limits, an independent integration, laws and coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from attrib_ds.attribution.experiments import combine_with_experiment, posterior
from attrib_ds.attribution.experiments.posterior import Measurement, combine, weigh_hypotheses
from attrib_ds.errors import InvalidRequest

NODES = ["display", "email", "radio", "search", "social", "video"]


def credits_of(numbers, *, model="hazard", error=20.0, nodes=NODES, currency=None):
    numbers = np.asarray(numbers, float)
    return pd.DataFrame(
        {
            "model": model,
            "node_id": nodes,
            "node_name": [name.title() for name in nodes],
            "conversions": numbers,
            "currency": currency,
            "high": numbers + 1.959964 * error,
        }
    )


def effects_of(numbers, error, *, nodes=NODES, currency=None):
    return pd.DataFrame({"node_id": nodes, "currency": currency, "caused": numbers, "error": error})


MODELLED = [900.0, 300.0, 500.0, 1200.0, 700.0, 400.0]


def numbers_of(found, model="hazard", column="combined"):
    return found[found["model"] == model].set_index("node_id")[column].reindex(NODES).to_numpy()


def test_a_precise_experiment_decides():
    measured = [100.0, 800.0, 0.0, 300.0, -50.0, 900.0]
    found = combine_with_experiment(credits_of(MODELLED), effects_of(measured, 0.5))
    assert numbers_of(found) == pytest.approx(measured, abs=1.0)
    assert (numbers_of(found, column="high") - numbers_of(found, column="low")).max() < 2.1


def test_an_uninformative_experiment_leaves_the_model():
    found = combine_with_experiment(credits_of(MODELLED), effects_of([0.0] * 6, 1e7))
    # The prior's factors are about 1 on the logarithm's scale, so their mean is somewhat above it.
    assert numbers_of(found) / MODELLED == pytest.approx(np.full(6, numbers_of(found)[0] / 900.0), rel=1e-3)
    assert 1.0 <= numbers_of(found)[0] / 900.0 < 1.4


def test_a_model_that_agrees_is_kept_and_its_interval_is_far_narrower():
    noise = np.array([150.0, -250.0, 80.0, -100.0, 200.0, -160.0])
    found = combine_with_experiment(credits_of(MODELLED), effects_of(np.array(MODELLED) + noise, 200.0))
    assert np.abs(numbers_of(found) - MODELLED).max() < 60.0
    width = numbers_of(found, column="high") - numbers_of(found, column="low")
    assert (width < 0.7 * 2 * 1.96 * 200.0).all()


def test_a_model_that_disagrees_has_little_influence():
    measured = np.array([-2000.0, 2500.0, 100.0, -900.0, 2400.0, -1500.0])
    found = combine_with_experiment(credits_of(MODELLED), effects_of(measured, 200.0))
    assert np.abs(numbers_of(found) - measured).max() < 100.0
    off = (measured - MODELLED) / np.hypot(200.0, 20.0)
    assert numbers_of(found, column="disagreement") == pytest.approx(off, rel=1e-6)


def test_one_wrong_node_does_not_discredit_the_model_for_the_others():
    noise = np.array([60.0, -80.0, 40.0, 0.0, 50.0, -30.0])
    measured = np.array(MODELLED) + noise + np.array([0, 0, 0, -1100.0, 0, 0])
    found = combine_with_experiment(credits_of(MODELLED), effects_of(measured, 150.0))
    assert abs(numbers_of(found)[3] - measured[3]) < 150.0
    others = np.delete(np.abs(numbers_of(found) - MODELLED) / np.abs(noise + 1e-9), 3)
    assert others.max() < 0.9


def test_proportions_take_their_level_from_the_experiment():
    measured = np.array(MODELLED) / 4
    found = combine_with_experiment(credits_of(MODELLED), effects_of(measured, 30.0), scaled=["hazard"])
    assert numbers_of(found) == pytest.approx(measured, rel=0.1)
    assert found["factor"][0] == pytest.approx(0.25, rel=0.2)
    assert found["disagreement"].abs().max() < 2.5  # At the level of its credits it would be 22.


@pytest.mark.slow
def test_the_posterior_equals_a_numerical_integration():
    """Bayes' theorem on a grid of effects, for two nodes one of which has no experiment."""
    modelled, error = np.array([800.0, 200.0]), np.array([40.0, 10.0])
    measured = Measurement(np.array([300.0, np.nan]), np.array([250.0, np.nan]))
    found = combine([weigh_hypotheses(modelled, error, measured, is_scaled=False)], [1.0], confidence=0.9)
    factors, sizes, prior = posterior._hypotheses(is_scaled=False)
    effect = np.linspace(-40_000, 40_000, 160_001)
    weights, means = [], []
    density = np.zeros((2, len(effect)))
    for factor, size, log_prior in zip(factors, sizes, prior, strict=True):
        typical = factor * 500.0
        centre = factor * modelled
        own = size * (0.7 * np.sqrt(centre * typical) + 0.3 * typical)
        before = [
            sum(
                share * norm.pdf(effect, middle, np.hypot(tail * spread, factor * noise))
                for share, tail in posterior._TAILS
            )
            for middle, spread, noise in zip(centre, own, error, strict=True)
        ]
        likely = before[0] * norm.pdf(300.0, effect, 250.0)
        evidence = likely.sum()
        weights.append(np.exp(log_prior) * evidence)
        density[0] += weights[-1] * likely / evidence
        density[1] += weights[-1] * before[1] / before[1].sum()
        means.append(factor)
    density /= density.sum(axis=1, keepdims=True)
    assert found.effect == pytest.approx(density @ effect, rel=1e-3)
    cumulative = density.cumsum(axis=1)
    for bound, level in ((found.low, 0.05), (found.high, 0.95)):
        quantiles = [np.interp(level, row, effect) for row in cumulative]
        assert bound == pytest.approx(quantiles, rel=5e-3, abs=2.0)
    assert found.factor == pytest.approx(np.average(means, weights=weights), rel=1e-3)


def test_intervals_cover_as_often_as_they_say_where_the_prior_holds():
    random = np.random.default_rng(5)
    factors, sizes, prior = posterior._hypotheses(is_scaled=False)
    covered = []
    for _ in range(150):
        drawn = random.choice(len(prior), p=np.exp(prior) / np.exp(prior).sum())
        modelled = random.lognormal(6.5, 0.6, 6)
        centre, typical = factors[drawn] * modelled, factors[drawn] * modelled.mean()
        spread = sizes[drawn] * (0.7 * np.sqrt(centre * typical) + 0.3 * typical)
        truth = centre + spread * random.standard_normal(6) * np.where(random.random(6) < 0.05, 4.0, 1.0)
        noise = random.uniform(100, 600)
        measured = Measurement(truth + noise * random.standard_normal(6), np.full(6, noise))
        found = combine(
            [weigh_hypotheses(modelled, np.zeros(6), measured, is_scaled=False)], [1.0], confidence=0.95
        )
        covered.append((found.low <= truth) & (truth <= found.high))
    assert 0.92 <= np.mean(covered) <= 0.98


def test_nodes_without_an_experiment_learn_from_the_others():
    measured = effects_of(np.array(MODELLED[:5]) * 0.3, 30.0, nodes=NODES[:5])
    found = combine_with_experiment(credits_of(MODELLED), measured)
    last = found[found["node_id"] == "video"].iloc[0]
    assert last["combined"] == pytest.approx(0.3 * 400.0, rel=0.35)
    assert pd.isna(last["experiment"])
    assert pd.isna(last["disagreement"])


def test_models_are_averaged_by_how_well_they_explain_the_experiment():
    wrong = credits_of([100.0, 2000.0, 20.0, 10.0, 3000.0, 5.0], model="wrong")
    both = pd.concat([wrong, credits_of(MODELLED)], ignore_index=True)
    found = combine_with_experiment(both, effects_of(np.array(MODELLED) * 1.05, 100.0))
    weight = found.groupby("model")["weight"].first()
    assert weight["hazard"] > 0.99
    assert weight["hazard"] + weight["wrong"] == pytest.approx(1.0)
    assert list(dict.fromkeys(found["model"])) == ["wrong", "hazard", "averaged"]
    assert numbers_of(found, "averaged") == pytest.approx(numbers_of(found, "hazard"), rel=0.02)


def test_controls_without_an_experiment_are_evidence_about_a_model():
    nodes = [*NODES, "direct"]
    quiet = credits_of([*MODELLED, 5.0], model="quiet", nodes=nodes)
    loud = credits_of([*MODELLED, 4000.0], model="loud", nodes=nodes)
    effects = effects_of(np.array(MODELLED) + 300.0, 400.0)
    plain = combine_with_experiment(pd.concat([quiet, loud]), effects)
    found = combine_with_experiment(pd.concat([quiet, loud]), effects, controls=["direct"])
    weights = [each.groupby("model")["weight"].first()["quiet"] for each in (plain, found)]
    assert weights[0] == pytest.approx(0.5, abs=0.15)
    assert weights[1] > 0.95
    direct = found[found["node_id"] == "direct"]
    assert direct["combined"].tolist() == pytest.approx([0.0] * 3)
    moved = numbers_of(found, "loud") - np.array(MODELLED), numbers_of(found, "quiet") - np.array(MODELLED)
    assert moved[0].mean() > 2 * moved[1].mean()


def test_controls_without_credit_keep_a_model_if_the_experiment_is_noise():
    """A confounded model would credit two nodes of six with about as much as any other."""
    nodes = [*NODES, "direct", "organic"]
    effects = effects_of(np.add(MODELLED, [-900.0, -600.0, 800.0, 300.0, -1000.0, 1100.0]), 850.0)
    without = combine_with_experiment(credits_of(MODELLED, error=60.0), effects)
    silent = credits_of([*MODELLED, 10.0, -10.0], nodes=nodes, error=60.0)
    found = combine_with_experiment(silent, effects, controls=["direct", "organic"])
    moved = [np.abs(numbers_of(each) - MODELLED).sum() for each in (without, found)]
    assert moved[1] < moved[0] / 3


def test_index_labels_are_ignored():
    several = [credits_of(MODELLED), credits_of(MODELLED, model="other")]
    effects = effects_of(MODELLED, 50.0)
    expected = combine_with_experiment(pd.concat(several, ignore_index=True), effects)
    pd.testing.assert_frame_equal(combine_with_experiment(pd.concat(several), effects), expected)


def test_controls_are_no_evidence_about_a_model_that_assumes_them():
    """A credit of exactly 0 for controls is no evidence, and must not outweigh a noisy experiment."""
    nodes = [*NODES, "direct", "organic"]
    assuming = credits_of(
        [1500.0, 100.0, 900.0, 1900.0, 300.0, 150.0, 0.0, 0.0], model="assuming", nodes=nodes
    )
    honest = credits_of([*MODELLED, 60.0, -60.0], model="honest", nodes=nodes)
    effects = effects_of(np.array(MODELLED), 500.0)
    found = combine_with_experiment(pd.concat([assuming, honest]), effects, controls=["direct", "organic"])
    assert found.groupby("model")["weight"].first()["assuming"] < 0.1


def test_order_names_and_units_do_not_matter():
    effects = effects_of([700.0, 100.0, 900.0, 1500.0, 600.0, 100.0], 250.0)
    first = combine_with_experiment(credits_of(MODELLED), effects)
    shuffled = combine_with_experiment(
        credits_of(MODELLED).sample(frac=1, random_state=1), effects.sample(frac=1, random_state=2)
    )
    pd.testing.assert_frame_equal(first, shuffled)
    thousands = combine_with_experiment(
        credits_of(np.array(MODELLED) * 1000, error=20_000.0),
        effects.assign(caused=effects["caused"] * 1000, error=effects["error"] * 1000),
    )
    for column in ("combined", "low", "high"):
        assert thousands[column].to_numpy() == pytest.approx(1000 * first[column].to_numpy(), rel=1e-6)
    new = dict(zip(NODES, "fedcba", strict=True))
    renamed = combine_with_experiment(
        credits_of(MODELLED).assign(node_id=list("fedcba")), effects.assign(node_id=list("fedcba"))
    )
    assert renamed["combined"].to_numpy() == pytest.approx(first["combined"].to_numpy())
    assert renamed["node_id"].tolist() == [new[node] for node in first["node_id"]]


def test_currencies_are_combined_separately():
    euros = credits_of(MODELLED, currency="EUR")
    dollars = credits_of(np.array(MODELLED) / 10, currency="USD", error=5.0)
    effects = [effects_of(MODELLED, 100.0, currency="EUR"), effects_of([0.0] * 6, 1.0, currency="USD")]
    found = combine_with_experiment(pd.concat([euros, dollars]), pd.concat(effects))
    alone = combine_with_experiment(euros, effects[0])
    part = found[found["currency"] == "EUR"].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, alone)
    assert found.loc[found["currency"] == "USD", "combined"].abs().max() < 2.0


def test_a_model_without_a_row_for_a_node_credits_it_with_zero():
    found = combine_with_experiment(
        pd.concat([credits_of(MODELLED), credits_of(MODELLED[:5], model="short", nodes=NODES[:5])]),
        effects_of(MODELLED, 100.0),
    )
    assert numbers_of(found, "short", "modelled")[5] == 0.0


def test_credits_without_intervals_have_no_sampling_error():
    found = combine_with_experiment(credits_of(MODELLED).drop(columns="high"), effects_of(MODELLED, 100.0))
    assert found["modelled_error"].tolist() == [0.0] * 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"credits": credits_of(MODELLED).drop(columns="node_name")}, "no column 'node_name'"),
        ({"effects": effects_of(MODELLED, 0.0)}, "'error' has values that are missing or not above 0"),
        ({"effects": effects_of([1.0], 1.0, nodes=["tv"])}, "no node has both credits and an experiment"),
        ({"effects": pd.concat([effects_of(MODELLED, 1.0)] * 2)}, "effects: .*'display'.* occurs twice"),
        ({"credits": pd.concat([credits_of(MODELLED)] * 2)}, "credits: .*'hazard'.* occurs twice"),
        ({"controls": ["dierct"]}, "controls: 'dierct' is not allowed"),
        ({"controls": "radio"}, r"allowed: a list, as in \['radio'\]"),
        ({"scaled": ["hazzard"]}, "did you mean 'hazard'"),
        ({"confidence": 0.0}, "confidence: 0.0 is not allowed"),
        (
            {"credits": credits_of(MODELLED, model="averaged")},
            "the model label 'averaged' is reserved .* choose another label",
        ),
        (
            {"effects": effects_of(MODELLED, 1.0, currency="USD")},
            "in the currency of its credits: USD, not None",
        ),
        ({"effects": effects_of([np.inf] * 6, 1.0)}, "effects: the column 'caused' has infinite values"),
        ({"effects": effects_of(MODELLED, "a")}, "effects: the column 'error' is not numeric"),
        ({"credits": credits_of([np.inf] * 6)}, "credits: the column 'conversions' has infinite values"),
    ],
)
def test_invalid_arguments_are_refused(change, message):
    given = {"credits": credits_of(MODELLED), "effects": effects_of(MODELLED, 100.0)} | change
    with pytest.raises(InvalidRequest, match=message):
        combine_with_experiment(given.pop("credits"), given.pop("effects"), **given)


def test_credits_with_intervals_of_another_level_are_refused():
    credits = credits_of(MODELLED)
    credits.attrs["confidence"] = "0.9"
    with pytest.raises(InvalidRequest, match="confidence: 0.95 is not the level of credits, 0.9"):
        combine_with_experiment(credits, effects_of(MODELLED, 100.0))
    found = combine_with_experiment(credits, effects_of(MODELLED, 100.0), confidence=0.9)
    assert numbers_of(found, column="modelled_error") == pytest.approx([20 * 1.959964 / 1.644854] * 6)
