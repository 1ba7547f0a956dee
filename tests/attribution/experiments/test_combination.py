"""Models combined with experiments: limits, an independent integration, laws and coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, truncnorm

from attrib_ds.attribution.experiments import combination
from attrib_ds.attribution.experiments.combination import (
    _ODDS,
    CONFOUNDED,
    Controls,
    Hypotheses,
    Measurement,
    Mixture,
    Source,
    combine_sources,
    measurements,
    posterior_shares,
    weigh_common_mean,
    weigh_model,
    weigh_proportions,
)
from attrib_ds.errors import InvalidRequest

NODES = ["display", "email", "radio", "search", "social", "video"]
MODELLED = [900.0, 300.0, 500.0, 1200.0, 700.0, 400.0]


def credits_of(numbers, *, error=20.0, verdict="cannot tell"):
    """A model's estimates of all nodes."""
    numbers = np.asarray(numbers, float)
    return Source(numbers, np.full(len(numbers), error), verdict)


def effects_of(numbers, error):
    """What an experiment measured; the nodes after the last have none."""
    numbers = np.asarray(numbers, float)
    return numbers, np.full(len(numbers), error)


def combine_all(sources, effects, *, controls=0):
    """Combine models by label; the last nodes are controls."""
    nodes = len(next(iter(sources.values())).effect)
    measured = np.full((2, nodes), np.nan)
    measured[:, : len(effects[0])] = effects
    is_control = np.arange(nodes) >= nodes - controls
    mixture, facts = combine_sources(sources, Measurement(*measured), is_control)
    combined, low, high = mixture.ranges(np.eye(nodes), 0.95)
    return pd.DataFrame({"combined": combined, "low": low, "high": high}), facts


def combine_one(source, effects, *, controls=0):
    """Combine one model, and return its rows with what is known of it."""
    combined, facts = combine_all({"hazard": source}, effects, controls=controls)
    return combined.join(facts)


def level_of_the_prior():
    """Return the mean size of the factors between a model's level and the true one."""
    grid = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
    return (grid * norm.pdf(np.log(grid))).sum() / norm.pdf(np.log(grid)).sum()


def numbers_of(found, column="combined"):
    return found[column].to_numpy()[:6]


def test_a_precise_experiment_decides():
    measured = [100.0, 800.0, 0.0, 300.0, -50.0, 900.0]
    found = combine_one(credits_of(MODELLED), effects_of(measured, 0.5))
    assert numbers_of(found) == pytest.approx(measured, abs=1.0)
    assert (numbers_of(found, column="high") - numbers_of(found, column="low")).max() < 2.1


def test_an_uninformative_experiment_leaves_a_model_whose_verdict_is_clear():
    effects = effects_of([0.0] * 6, 1e7)
    found = combine_one(credits_of(MODELLED, verdict="clear"), effects)
    # The posterior equals the prior: 39 to 1 for the model, which nine times in ten is at its level. The prior
    # of other levels is lognormal on a grid, negative one time in ten, and that of effects without the model
    # has a mean of 0.
    level = 0.8 * level_of_the_prior()
    assert found["weight"].tolist() == pytest.approx([0.975] * 6, abs=1e-6)
    expected = 0.975 * (0.9 + 0.1 * level) * np.array(MODELLED)
    assert numbers_of(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("verdict", "odds"), [("clear", 39.0), ("cannot tell", 3.0), ("confounded", 0.25)])
def test_the_verdict_is_the_prior_odds_of_a_model(verdict, odds):
    found = combine_one(credits_of(MODELLED, verdict=verdict), effects_of([0.0] * 6, 1e7))
    assert found["weight"][0] == pytest.approx(odds / (1 + odds), rel=1e-5)


def test_a_silent_model_does_not_outvote_the_experiment():
    measured = [100.0, 800.0, 50.0, 300.0, 500.0, 900.0]
    found = combine_one(credits_of([0.0] * 6, error=0.0), effects_of(measured, 5.0))
    assert numbers_of(found) == pytest.approx(measured, abs=5.0)


def test_the_level_of_a_confounded_model_has_no_vote():
    """The same proportions at five times the level: the experiment decides on the level, 492 on average."""
    measured = effects_of([250.0, 900.0, 400.0, 700.0, 100.0, 600.0], 200.0)
    estimates = [
        numbers_of(combine_one(credits_of(each, verdict="confounded"), measured))
        for each in (MODELLED, 5 * np.array(MODELLED))
    ]
    assert estimates[0] == pytest.approx(estimates[1], rel=0.1)
    assert np.mean(estimates[1]) == pytest.approx(492.0, abs=50.0)


def test_proportions_of_a_confounded_model_that_contradict_the_experiment_have_no_vote():
    measured = effects_of([250.0, 900.0, 400.0, 700.0, 100.0, 600.0], 100.0)
    estimates = [
        numbers_of(combine_one(credits_of(each, verdict="confounded"), measured))
        for each in (MODELLED, MODELLED[::-1])
    ]
    assert estimates[0] == pytest.approx(estimates[1], abs=40.0)
    assert estimates[0] == pytest.approx(measured[0], abs=60.0)


def test_an_uninformative_experiment_leaves_half_a_vote_to_the_proportions_of_a_confounded_model():
    effects = effects_of([0.0] * 6, 1e7)
    found = combine_one(credits_of(MODELLED, verdict="confounded"), effects)
    # The model has odds of 1 to 4; its proportions and a common mean of either sign share the rest evenly.
    level = 0.8 * level_of_the_prior()
    expected = (0.25 * (0.9 + 0.1 * level) + level / 2) / 1.25 * np.array(MODELLED)
    assert numbers_of(found) == pytest.approx(expected, rel=2e-3)


def test_a_model_that_agrees_is_kept_and_its_interval_is_far_narrower():
    noise = np.array([150.0, -250.0, 80.0, -100.0, 200.0, -160.0])
    found = combine_one(credits_of(MODELLED), effects_of(np.array(MODELLED) + noise, 200.0))
    assert np.abs(numbers_of(found) - MODELLED).max() < 60.0
    width = numbers_of(found, column="high") - numbers_of(found, column="low")
    assert (width < 0.7 * 2 * 1.96 * 200.0).all()


def test_a_model_that_disagrees_has_little_influence():
    measured = np.array([-2000.0, 2500.0, 100.0, -900.0, 2400.0, -1500.0])
    found = combine_one(credits_of(MODELLED), effects_of(measured, 200.0))
    assert np.abs(numbers_of(found) - measured).max() < 100.0
    off = (measured - MODELLED) / np.hypot(200.0, 20.0)
    assert numbers_of(found, column="disagreement") == pytest.approx(off, rel=1e-6)


def test_a_significant_disagreement_costs_the_model_its_vote_for_all_nodes():
    """Of six nodes one is off by eleven standard errors; the others agree with the model within one."""
    noise = np.array([60.0, -80.0, 40.0, 0.0, 50.0, -30.0])
    effects = effects_of(np.array(MODELLED) + noise, 100.0)
    agreeing = combine_one(credits_of(MODELLED), effects)
    effects[0][3] -= 1100.0
    found = combine_one(credits_of(MODELLED), effects)
    assert agreeing["weight"][0] > 0.95
    assert found["weight"][0] < 0.35
    others = [0, 1, 2, 4, 5]
    moved = [np.abs(numbers_of(each) - MODELLED)[others].sum() for each in (agreeing, found)]
    assert moved[1] > 1.5 * moved[0]
    assert abs(numbers_of(found)[3] - 100.0) < 100.0


def test_proportions_take_their_level_from_the_experiment():
    measured = np.array(MODELLED) / 4
    found = combine_one(credits_of(MODELLED, verdict=None), effects_of(measured, 30.0))
    assert numbers_of(found) == pytest.approx(measured, rel=0.15)
    assert found["factor"][0] == pytest.approx(0.25, rel=0.2)
    assert found["disagreement"].abs().max() < 2.5  # At the level of its credits it would be 22.


def test_two_nodes_by_hand():
    """One hypothesis: the model's error has a standard deviation of 30, its sampling error is 40.

    The first node's own standard error is 50, as large as the prior's, so its mean lies half-way between
    model (100) and experiment (200) and its variance is half of 2,500. The second has no experiment.
    """
    measured = Measurement(np.array([200.0, np.nan]), np.array([50.0, np.nan]))
    one = combination._weigh(
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
    effect, low, high = Mixture.of([one], [1.0], measured).ranges(np.eye(2), 0.95)
    # The experiment rules out all beyond 2.575829 of its standard errors; the second node has none.
    ends = (np.array([200 - 128.79147, 200 + 128.79147]) - 150.0) / np.sqrt(1250.0)
    within = truncnorm(*ends, loc=150.0, scale=np.sqrt(1250.0))
    assert (effect[0], low[0], high[0]) == pytest.approx((within.mean(), *within.interval(0.95)))
    assert high[1] - effect[1] == pytest.approx(1.959964 * 50.0)


def test_controls_weigh_errors_by_their_credit():
    """Credit of 30 with a sampling error of 40, under errors of 30: a variance of 2,500."""
    controls = Controls(np.array([30.0]), np.array([40.0]))
    expected = -0.5 * 900.0 / 2500.0 - 0.5 * np.log(2 * np.pi * 2500.0)
    assert controls.likelihood(np.array([30.0])) == pytest.approx([expected])


@pytest.mark.large
@pytest.mark.slow
def test_the_posterior_equals_a_numerical_integration():
    """Bayes' theorem on a grid of effects, for two nodes one of which has no experiment."""
    modelled, error = np.array([800.0, 200.0]), np.array([40.0, 10.0])
    measured = Measurement(np.array([300.0, np.nan]), np.array([250.0, np.nan]))
    alternatives = [weigh_model(modelled, error, measured), weigh_common_mean(500.0, measured)]
    found = Mixture.of(alternatives, posterior_shares(alternatives, [1.0, 1.0]), measured)
    effects, low, high = found.ranges(np.eye(2), 0.9)
    errors = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]
    cauchy = [1 / (1 + (each / 0.05) ** 2) * each for each in errors]
    grid = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
    level = norm.pdf(np.log(grid)) / norm.pdf(np.log(grid)).sum()
    of_model = [*(0.09 * level), *(0.01 * level), 0.9]
    hypotheses = [
        (abs(factor), size, chance * share / sum(cauchy), factor * modelled, factor * error)
        for factor, chance in zip([*grid, *-grid, 1.0], of_model, strict=True)
        for size, share in zip(errors, cauchy, strict=True)
    ] + [
        (abs(factor), size, chance / 8, np.full(2, factor * 500.0), np.zeros(2))
        for factor, chance in zip([*grid, *-grid], [*level, *level], strict=True)
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
    density[0, np.abs(effect - 300.0) > 2.575829 * 250.0] = 0.0
    density /= density.sum(axis=1, keepdims=True)
    assert effects == pytest.approx(density @ effect, rel=1e-3)
    cumulative = density.cumsum(axis=1)
    for bound, probability in ((low, 0.05), (high, 0.95)):
        quantiles = [np.interp(probability, row, effect) for row in cumulative]
        assert bound == pytest.approx(quantiles, rel=5e-3, abs=2.0)


@pytest.mark.large
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
        found = Mixture.of(after, posterior_shares(after, [1.0, 1.0]), measured)
        _, low, high = found.ranges(np.eye(6), 0.95)
        covered.append((low <= truth) & (truth <= high))
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


@pytest.mark.large
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
            alternatives.append(weigh_proportions(modelled, sampling, experiment, CONFOUNDED))
            odds = [_ODDS[verdict], 0.5, 0.5]
        shares = posterior_shares(alternatives, odds)
        combined, *_ = Mixture.of(alternatives, shares, experiment).ranges(np.eye(6), 0.95)
        errors.append(
            [np.abs(_shares(each) - _shares(truth)).mean() for each in (measured, modelled, combined)]
        )
    by_experiment, by_model, by_both = np.mean(errors, axis=0)
    assert by_both < 1.1 * min(by_experiment, by_model)


def _shares(effects):
    return np.clip(effects, 0, None) / max(np.clip(effects, 0, None).sum(), 1e-9)


def test_nodes_without_an_experiment_learn_from_the_others():
    measured = effects_of(np.array(MODELLED[:5]) * 0.3, 30.0)
    last = combine_one(credits_of(MODELLED), measured).iloc[5]
    assert last["combined"] == pytest.approx(0.3 * 400.0, rel=0.35)
    assert pd.isna(last["experiment"])
    assert pd.isna(last["disagreement"])


def test_models_are_averaged_by_how_well_they_explain_the_experiment():
    models = {
        "wrong": credits_of([100.0, 2000.0, 20.0, 10.0, 3000.0, 5.0]),
        "hazard": credits_of(MODELLED),
    }
    effects = effects_of(np.array(MODELLED) * 1.05, 100.0)
    averaged, facts = combine_all(models, effects)
    weight = facts.groupby("model")["weight"].first()
    assert weight["hazard"] > 0.99
    # The rest is the probability that neither has a vote.
    assert 0.999 < weight["hazard"] + weight["wrong"] < 1.0
    alone = combine_one(models["hazard"], effects)
    assert numbers_of(averaged) == pytest.approx(numbers_of(alone), rel=0.02)


def test_controls_without_an_experiment_are_evidence_about_a_model():
    quiet, loud = credits_of([*MODELLED, 5.0]), credits_of([*MODELLED, 4000.0])
    effects = effects_of(np.array(MODELLED) + 300.0, 400.0)
    both = {"quiet": quiet, "loud": loud}
    _, plain = combine_all({name: credits_of(MODELLED) for name in both}, effects)
    combined, found = combine_all(both, effects, controls=1)
    weights = [each.groupby("model")["weight"].first()["quiet"] for each in (plain, found)]
    assert weights[0] == pytest.approx(0.5, abs=0.15)
    assert weights[1] > 0.95
    assert combined.iloc[6].tolist() == pytest.approx([0.0] * 3)
    moved = [
        numbers_of(combine_one(each, effects, controls=1)) - np.array(MODELLED) for each in (loud, quiet)
    ]
    assert moved[0].mean() > 2 * moved[1].mean()


def test_controls_without_credit_keep_a_model_if_the_experiment_is_noise():
    """A confounded model would credit two nodes of six with about as much as any other."""
    effects = effects_of(np.add(MODELLED, [-900.0, -600.0, 800.0, 300.0, -1000.0, 1100.0]), 850.0)
    without = combine_one(credits_of(MODELLED, error=60.0), effects)
    silent = credits_of([*MODELLED, 10.0, -10.0], error=60.0)
    found = combine_one(silent, effects, controls=2)
    moved = [np.abs(numbers_of(each) - MODELLED).sum() for each in (without, found)]
    assert moved[1] < moved[0] / 3


def test_controls_are_no_evidence_about_a_model_that_assumes_them():
    """A credit of exactly 0 for controls is no evidence, and must not outweigh a noisy experiment."""
    models = {
        "assuming": credits_of([1500.0, 100.0, 900.0, 1900.0, 300.0, 150.0, 0.0, 0.0]),
        "honest": credits_of([*MODELLED, 60.0, -60.0]),
    }
    _, facts = combine_all(models, effects_of(np.array(MODELLED), 500.0), controls=2)
    assert facts.groupby("model")["weight"].first()["assuming"] < 0.1


def test_order_and_units_do_not_matter():
    effects = effects_of([700.0, 100.0, 900.0, 1500.0, 600.0, 100.0], 250.0)
    first = combine_one(credits_of(MODELLED), effects)
    backwards = combine_one(credits_of(MODELLED[::-1]), effects_of(effects[0][::-1], 250.0))
    thousands = combine_one(
        credits_of(np.array(MODELLED) * 1000, error=20_000.0), effects_of(effects[0] * 1000, 250_000.0)
    )
    for column in ("combined", "low", "high"):
        assert numbers_of(backwards, column)[::-1] == pytest.approx(numbers_of(first, column))
        assert numbers_of(thousands, column) == pytest.approx(1000 * numbers_of(first, column), rel=1e-6)


def test_a_contrast_is_that_of_the_mixture():
    """Two hypotheses of equal weight: the difference is 100 with a deviation of 5 = √(9 + 16), or -100."""
    mixture = Mixture(
        np.array([0.5, 0.5]),
        np.array([[150.0, 50.0], [50.0, 150.0]]),
        np.array([[3.0, 4.0]] * 2),
        Measurement(np.full(2, np.nan), np.full(2, np.nan)),
    )
    level, low, high = mixture.ranges(np.array([[1.0, -1.0]]), 0.9)
    assert level == pytest.approx([0.0])
    # A tail of 5 % of the whole is one of 10 % of a half: 1.2816 standard deviations.
    assert high == pytest.approx([100 + 1.281552 * 5], rel=1e-6)
    assert low == pytest.approx([-100 - 1.281552 * 5], rel=1e-6)


@pytest.mark.few(4)
@pytest.mark.parametrize("verdict", ["clear", "cannot tell", "confounded"])
@pytest.mark.parametrize("error", [20.0, 200.0])
@pytest.mark.parametrize("proven", [900.0, -900.0, -1200.0])
def test_a_sign_that_the_experiment_proves_is_kept(verdict, error, proven):
    """One node of six is three or four standard errors from 0; the model says something else of all."""
    for modelled in ([100.0, 80, 60, 90, 70, 85], [-100.0, -80, -60, -90, -70, -85], [0.0] * 6):
        measured = effects_of([proven, 50, -100, 80, 200, -50], 300.0)
        found = combine_one(credits_of(modelled, error=error, verdict=verdict), measured)
        row = found.iloc[0][["combined", "low", "high"]].astype(float) * np.sign(proven)
        assert min(row["low"], row["high"], row["combined"]) >= abs(proven) - 2.575830 * 300.0 > 0


@pytest.mark.parametrize("verdict", ["clear", "cannot tell", "confounded"])
def test_a_combination_is_symmetric_in_sign(verdict):
    measured = [900.0, 50, -100, 80, 200, -700]
    plus, minus = (
        combine_one(
            credits_of(sign * np.array(MODELLED), verdict=verdict),
            effects_of(sign * np.array(measured), 300.0),
        )
        for sign in (1, -1)
    )
    assert numbers_of(minus) == pytest.approx(-numbers_of(plus), rel=1e-9)
    assert numbers_of(minus, column="low") == pytest.approx(-numbers_of(plus, column="high"), rel=1e-9)


def test_an_experiment_and_a_model_that_is_not_confirmed_claim_no_effect_together():
    """The experiment is within 1.96 standard errors of 0 for all nodes, and the model is confounded."""
    measured = effects_of([500.0, 550, 580, 450, 500, 560], 300.0)
    found = combine_one(credits_of([550.0] * 6, verdict="confounded"), measured)
    assert found["weight"][0] < 0.95
    assert (found["low"] == 0.0).all()
    trusted = combine_one(credits_of([550.0] * 6, verdict="clear"), measured)
    assert trusted["weight"][0] > 0.95
    assert (trusted["low"] > 0.0).all()


def frame_of(nodes=NODES, caused=MODELLED, error=100.0, **columns):
    return pd.DataFrame({"node_id": nodes, "caused": caused, "error": error, **columns})


def test_effects_of_other_experiments_are_read_by_currency():
    euros, dollars = measurements(
        pd.concat([frame_of(currency="EUR"), frame_of(["radio"], [7.0], currency="USD")]),
        ["radio", "tv"],
        ["EUR", "USD"],
    )
    assert euros.effect.tolist() == pytest.approx([500.0, np.nan], nan_ok=True)
    assert dollars.effect.tolist() == pytest.approx([7.0, np.nan], nan_ok=True)
    (plain,) = measurements(frame_of(), ["radio"], [None])
    assert (plain.effect.tolist(), plain.error.tolist()) == ([500.0], [100.0])


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (frame_of().drop(columns="error"), "experiment: no column 'error'"),
        (frame_of(error=0.0), "node 'display' has an effect that is infinite, or a standard error that is"),
        (frame_of(error=np.nan), "a standard error that is missing or not above 0"),
        (frame_of(caused=[np.inf] * 6), "node 'display' has an effect that is infinite"),
        (frame_of(error="a"), "'caused' or 'error' is not numeric"),
        (pd.concat([frame_of()] * 2), "node 'display' occurs twice"),
        (frame_of(["tv"], [1.0]), "no node has both a model and an experiment"),
        (frame_of(currency="USD"), "in the same currency; allowed: nodes such as radio, mail"),
        (3, "experiment: "),
    ],
)
def test_experiments_that_cannot_be_used_are_refused(experiment, message):
    with pytest.raises(InvalidRequest, match=message):
        measurements(experiment, ["radio", "mail"], [None])
