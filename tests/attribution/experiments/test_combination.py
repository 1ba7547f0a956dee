"""Models combined with experiments: limits, an independent integration, laws and coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from attrib_ds.attribution.experiments import posterior
from attrib_ds.attribution.experiments.combination import _ODDS, combine_with_experiment
from attrib_ds.attribution.experiments.posterior import (
    Controls,
    Hypotheses,
    Measurement,
    combine,
    posterior_shares,
    weigh_common_mean,
    weigh_model,
    weigh_proportions,
)
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


def test_an_uninformative_experiment_leaves_a_model_whose_verdict_is_clear():
    effects = effects_of([0.0] * 6, 1e7)
    found = combine_with_experiment(credits_of(MODELLED), effects, verdicts={"hazard": "clear"})
    # The posterior equals the prior: 39 to 1 for the model, which nine times in ten is at its level. The prior
    # of other levels is lognormal on a grid, and that of effects without the model has the same mean.
    grid = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
    level = (grid * norm.pdf(np.log(grid))).sum() / norm.pdf(np.log(grid)).sum()
    assert found["weight"].tolist() == pytest.approx([0.975] * 6, abs=1e-6)
    expected = 0.975 * (0.9 + 0.1 * level) * np.array(MODELLED) + 0.025 * level * np.mean(MODELLED)
    assert numbers_of(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("verdict", "odds"), [("clear", 39.0), ("cannot tell", 1.0), ("confounded", 0.001)])
def test_the_verdict_is_the_prior_odds_of_a_model(verdict, odds):
    found = combine_with_experiment(
        credits_of(MODELLED), effects_of([0.0] * 6, 1e7), verdicts={"hazard": verdict}
    )
    assert found["weight"][0] == pytest.approx(odds / (1 + odds), rel=1e-5)


def test_without_a_verdict_nobody_can_tell():
    effects = effects_of(np.array(MODELLED) + 100.0, 300.0)
    plain = combine_with_experiment(credits_of(MODELLED), effects)
    undecided = combine_with_experiment(credits_of(MODELLED), effects, verdicts={"hazard": "cannot tell"})
    pd.testing.assert_frame_equal(plain, undecided)


def test_a_silent_model_does_not_outvote_the_experiment():
    measured = [100.0, 800.0, 50.0, 300.0, 500.0, 900.0]
    found = combine_with_experiment(credits_of([0.0] * 6, error=0.0), effects_of(measured, 5.0))
    assert numbers_of(found) == pytest.approx(measured, abs=5.0)


def test_the_level_of_a_confounded_model_has_no_vote():
    """The same proportions at five times the level: the experiment decides on the level, 492 on average."""
    measured = effects_of([250.0, 900.0, 400.0, 700.0, 100.0, 600.0], 200.0)
    estimates = [
        numbers_of(combine_with_experiment(credits_of(each), measured, verdicts={"hazard": "confounded"}))
        for each in (MODELLED, 5 * np.array(MODELLED))
    ]
    assert estimates[0] == pytest.approx(estimates[1], rel=0.1)
    assert np.mean(estimates[1]) == pytest.approx(492.0, abs=50.0)


def test_proportions_of_a_confounded_model_that_contradict_the_experiment_have_no_vote():
    measured = effects_of([250.0, 900.0, 400.0, 700.0, 100.0, 600.0], 100.0)
    estimates = [
        numbers_of(combine_with_experiment(credits_of(each), measured, verdicts={"hazard": "confounded"}))
        for each in (MODELLED, MODELLED[::-1])
    ]
    assert estimates[0] == pytest.approx(estimates[1], abs=20.0)
    assert estimates[0] == pytest.approx(measured["caused"].to_numpy(), abs=60.0)


def test_an_uninformative_experiment_leaves_half_a_vote_to_the_proportions_of_a_confounded_model():
    effects = effects_of([0.0] * 6, 1e7)
    found = combine_with_experiment(credits_of(MODELLED), effects, verdicts={"hazard": "confounded"})
    # The model at its level has odds of 1 to 1,000; its proportions and a common mean share the rest evenly,
    # with the same prior of levels.
    grid = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
    level = (grid * norm.pdf(np.log(grid))).sum() / norm.pdf(np.log(grid)).sum()
    expected = level * (np.array(MODELLED) + np.mean(MODELLED)) / 2
    assert numbers_of(found) == pytest.approx(expected, rel=2e-3)


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


def test_a_significant_disagreement_costs_the_model_its_vote_for_all_nodes():
    """Of six nodes one is off by eleven standard errors; the others agree with the model within one."""
    noise = np.array([60.0, -80.0, 40.0, 0.0, 50.0, -30.0])
    effects = effects_of(np.array(MODELLED) + noise, 100.0)
    agreeing = combine_with_experiment(credits_of(MODELLED), effects)
    effects.loc[3, "caused"] -= 1100.0
    found = combine_with_experiment(credits_of(MODELLED), effects)
    assert agreeing["weight"][0] > 0.95
    assert found["weight"][0] < 0.35
    others = [0, 1, 2, 4, 5]
    moved = [np.abs(numbers_of(each) - MODELLED)[others].sum() for each in (agreeing, found)]
    assert moved[1] > 1.5 * moved[0]
    assert abs(numbers_of(found)[3] - 100.0) < 100.0


def test_proportions_take_their_level_from_the_experiment():
    measured = np.array(MODELLED) / 4
    found = combine_with_experiment(credits_of(MODELLED), effects_of(measured, 30.0), scaled=["hazard"])
    assert numbers_of(found) == pytest.approx(measured, rel=0.15)
    assert found["factor"][0] == pytest.approx(0.25, rel=0.2)
    assert found["disagreement"].abs().max() < 2.5  # At the level of its credits it would be 22.


def test_two_nodes_by_hand():
    """One hypothesis: the model's error has a standard deviation of 30, its sampling error is 40.

    The first node's own standard error is 50, as large as the prior's, so its mean lies half-way between
    model (100) and experiment (200) and its variance is half of 2,500. The second has no experiment.
    """
    measured = Measurement(np.array([200.0, np.nan]), np.array([50.0, np.nan]))
    one = posterior._weigh(
        np.array([100.0, 50.0]),
        np.array([40.0, 40.0]),
        measured,
        np.ones(1),
        np.array([0.4]),
        np.ones((1, 1)),
    )
    assert one.mean[0] == pytest.approx([150.0, 50.0])
    assert one.spread[0] == pytest.approx([np.sqrt(1250.0), 50.0])
    # A difference of 100 with a variance of 5,000: exp(-1) / sqrt(2 pi 5,000).
    assert one.evidence == pytest.approx(-1.0 - 0.5 * np.log(2 * np.pi * 5000.0))
    found = combine([one], [1.0], confidence=0.95)
    assert found.high - found.effect == pytest.approx(1.959964 * one.spread[0])


def test_controls_weigh_errors_by_their_credit():
    """Credit of 30 with a sampling error of 40, under errors of 30: a variance of 2,500."""
    controls = Controls(np.array([30.0]), np.array([40.0]))
    expected = -0.5 * 900.0 / 2500.0 - 0.5 * np.log(2 * np.pi * 2500.0)
    assert controls.likelihood(np.array([30.0])) == pytest.approx([expected])


@pytest.mark.slow
def test_the_posterior_equals_a_numerical_integration():
    """Bayes' theorem on a grid of effects, for two nodes one of which has no experiment."""
    modelled, error = np.array([800.0, 200.0]), np.array([40.0, 10.0])
    measured = Measurement(np.array([300.0, np.nan]), np.array([250.0, np.nan]))
    alternatives = [weigh_model(modelled, error, measured), weigh_common_mean(500.0, measured)]
    found = combine(alternatives, posterior_shares(alternatives, [1.0, 1.0]), confidence=0.9)
    errors = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]
    cauchy = [1 / (1 + (each / 0.05) ** 2) * each for each in errors]
    grid = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
    level = norm.pdf(np.log(grid)) / norm.pdf(np.log(grid)).sum()
    hypotheses = [
        (factor, size, chance * share / sum(cauchy), factor * modelled, factor * error)
        for factor, chance in zip([*grid, 1.0], [*(0.1 * level), 0.9], strict=True)
        for size, share in zip(errors, cauchy, strict=True)
    ] + [
        (factor, size, chance / 4, np.full(2, factor * 500.0), np.zeros(2))
        for factor, chance in zip(grid, level, strict=True)
        for size in (0.4, 0.8, 1.6, 3.2)
    ]
    effect = np.linspace(-40_000, 40_000, 40_001)
    density = np.zeros((2, len(effect)))
    for factor, size, prior, centre, sampling in hypotheses:
        before = [
            norm.pdf(effect, middle, np.hypot(size * factor * 500.0, noise))
            for middle, noise in zip(centre, sampling, strict=True)
        ]
        likely = before[0] * norm.pdf(300.0, effect, 250.0)
        density[0] += prior * likely
        density[1] += prior * likely.sum() * before[1] / before[1].sum()
    density /= density.sum(axis=1, keepdims=True)
    assert found.effect == pytest.approx(density @ effect, rel=1e-3)
    cumulative = density.cumsum(axis=1)
    for bound, probability in ((found.low, 0.05), (found.high, 0.95)):
        quantiles = [np.interp(probability, row, effect) for row in cumulative]
        assert bound == pytest.approx(quantiles, rel=5e-3, abs=2.0)


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say_where_the_prior_holds():
    random = np.random.default_rng(5)
    covered = []
    for _ in range(150):
        modelled = random.lognormal(6.5, 0.6, 6)
        nothing = Measurement(np.full(6, np.nan), np.full(6, np.nan))
        alternatives = [weigh_model(modelled, np.zeros(6), nothing), _common_mean(modelled.mean())]
        drawn = alternatives[random.integers(2)]
        one = random.choice(len(drawn.weight), p=np.exp(drawn.weight))
        truth = drawn.mean[one] + drawn.spread[one] * random.standard_normal(6)
        noise = random.uniform(100, 600)
        measured = Measurement(truth + noise * random.standard_normal(6), np.full(6, noise))
        after = [weigh_model(modelled, np.zeros(6), measured), weigh_common_mean(modelled.mean(), measured)]
        found = combine(after, posterior_shares(after, [1.0, 1.0]), confidence=0.95)
        covered.append((found.low <= truth) & (truth <= found.high))
    assert 0.92 <= np.mean(covered) <= 0.98


def _common_mean(typical: float) -> Hypotheses:
    """Return the prior of effects without a model: an experiment of no precision adds nothing to it."""
    prior = weigh_common_mean(typical, Measurement(np.full(6, typical), np.full(6, 1e9)))
    return Hypotheses(prior.weight - prior.evidence, prior.factor, prior.mean, prior.spread)


def _right(random, truth):
    return truth


def _wrong_for_half(random, truth):
    return truth + np.where(np.arange(6) % 2, 0.0, np.abs(random.normal(0, 2 * truth.mean(), 6)))


def _wrong_for_one(random, truth):
    return truth + np.array([3 * truth.mean(), 0, 0, 0, 0, 0])


def _wrong_by_half(random, truth):
    return truth + random.normal(0, 0.5 * truth.mean(), 6)


def _wrong_by_all(random, truth):
    return truth + random.normal(0, truth.mean(), 6)


def _four_times_too_high(random, truth):
    return 4 * (truth + random.normal(0, 0.7 * truth.mean(), 6))


def _silent(random, truth):
    return np.zeros(6)


def _blind_to_harm(random, truth):
    return np.abs(truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "verdict", "harmful"),
    [
        (_right, "clear", False),
        (_right, "clear", True),
        (_wrong_for_half, "cannot tell", False),
        (_wrong_for_one, "cannot tell", False),
        (_wrong_by_half, "cannot tell", False),
        (_wrong_by_all, "cannot tell", False),
        (_wrong_by_all, "confounded", False),
        (_four_times_too_high, "confounded", False),
        (_silent, "cannot tell", False),
        (_blind_to_harm, "cannot tell", True),
    ],
)
@pytest.mark.parametrize("precision", [1.0, 3.0, 10.0])
def test_a_combination_is_not_worse_than_its_better_ingredient(model, verdict, harmful, precision):
    """Mean error of shares over 100 worlds; the experiment's error is the mean effect by the precision."""
    errors = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        truth = random.lognormal(5, 0.8, 6)
        typical = truth.mean()
        truth = truth * np.where(harmful & (np.arange(6) % 3 == 0), -0.5, 1.0)
        modelled = model(random, truth) + random.normal(0, 0.1 * typical, 6)
        noise = typical / precision
        measured = truth + random.normal(0, noise, 6)
        sampling = np.full(6, 0.1 * typical)
        # A verdict is clear only if there are controls, with little credit.
        controls = random.normal(0, 0.1 * typical, 2) if verdict == "clear" else np.empty(0)
        experiment = Measurement(measured, np.full(6, noise))
        alternatives = [
            weigh_model(modelled, sampling, experiment, Controls(controls, sampling[: len(controls)])),
            weigh_common_mean(np.abs(modelled).mean(), experiment),
        ]
        odds = [_ODDS[verdict], 1.0]
        if verdict == "confounded":
            alternatives.append(weigh_proportions(modelled, sampling, experiment, is_confounded=True))
            odds = [_ODDS[verdict], 0.5, 0.5]
        shares = posterior_shares(alternatives, odds)
        combined = combine(alternatives, shares, confidence=0.95).effect
        errors.append(
            [np.abs(_shares(each) - _shares(truth)).mean() for each in (measured, modelled, combined)]
        )
    by_experiment, by_model, by_both = np.mean(errors, axis=0)
    assert by_both < 1.1 * min(by_experiment, by_model)


def _shares(effects):
    return np.clip(effects, 0, None) / max(np.clip(effects, 0, None).sum(), 1e-9)


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
    # The rest is the probability that neither has a vote.
    assert 0.999 < weight["hazard"] + weight["wrong"] < 1.0
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
        ({"verdicts": {"hazzard": "clear"}}, "verdicts: .*did you mean 'hazard'"),
        ({"verdicts": {"hazard": "unclear"}}, "verdicts: .*did you mean 'clear'"),
        ({"verdicts": "clear"}, "verdicts: 'clear' is not allowed; allowed: a mapping"),
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
