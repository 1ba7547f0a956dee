"""Simulated journeys: frames, causal effects, and common random numbers across counterfactuals."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, simulate
from attrib_ds.errors import InvalidRequest
from attrib_ds.simulation import daily_simulation
from attrib_ds.simulation.scenarios import SCENARIOS, Channel, Scenario, varied_scenario

IDLE = Channel("poster", half_life=5, rate=0.1)


@pytest.fixture(scope="module", params=list(SCENARIOS))
def world(request):
    return simulate(request.param, users=20_000, seed=7, holdout=0.1)


@pytest.mark.large
@pytest.mark.slow
def test_paths_can_be_built_from_the_frames(world):
    assert list(world.touchpoints.columns) == ["user_id", "node_id", "date"]
    assert list(world.conversions.columns) == ["event_id", "user_id", "date", "value", "currency"]
    assert str(world.touchpoints["date"].dtype) == "datetime64[us, UTC]"
    channels = {channel.node_id for channel in world.scenario.channels}
    assert set(world.touchpoints["node_id"]) == {*channels, "organic", "direct"}
    credits = attribute(Paths.from_frames(world.touchpoints, world.conversions), "linear")
    assert credits["conversions"].sum() == pytest.approx(len(world.conversions))


@pytest.mark.slow
def test_there_are_no_touches_after_the_conversion_and_no_second_conversions(world):
    until = world.users.set_index("user_id")["until"]
    assert (world.touchpoints["date"] < world.touchpoints["user_id"].map(until)).all()
    assert world.conversions["user_id"].is_unique
    bought = world.conversions.set_index("user_id")["date"]
    assert (until.loc[bought.index] == bought).all()
    others = until.drop(bought.index)
    assert (others == pd.Timestamp("2025-01-31", tz="UTC")).all()


def test_a_withheld_channel_never_touches_the_user(world):
    held = pd.MultiIndex.from_frame(world.withheld)
    touched = pd.MultiIndex.from_frame(world.touchpoints[["user_id", "node_id"]])
    assert not touched.isin(held).any()
    # 10 % of 20,000 users, six times: 12,000 with a standard deviation of 104.
    assert abs(len(held) - 12_000) < 5 * math.sqrt(12_000 * 0.9)


def test_results_depend_on_the_seed():
    first, same, other = (simulate("intent", users=3_000, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.touchpoints, same.touchpoints)
    pd.testing.assert_frame_equal(first.conversions, same.conversions)
    assert not first.touchpoints.equals(other.touchpoints)


def test_a_holdout_changes_nothing_for_other_users():
    plain, tried = (simulate("random", users=3_000, seed=1, holdout=share) for share in (0.0, 0.2))
    is_unaffected = ~plain.users["user_id"].isin(tried.withheld["user_id"])
    unaffected = set(plain.users.loc[is_unaffected, "user_id"])
    for name in ("touchpoints", "conversions"):
        frames = [getattr(simulation, name) for simulation in (plain, tried)]
        # The time of day is drawn independently.
        selected = [
            rows[rows["user_id"].isin(unaffected)].assign(date=lambda rows: rows["date"].dt.floor("D"))
            for rows in frames
        ]
        columns = [column for column in selected[0].columns if column != "value"]
        sorted_rows = [rows[columns].sort_values(columns, ignore_index=True) for rows in selected]
        assert len(sorted_rows[0])
        pd.testing.assert_frame_equal(*sorted_rows)


def test_exposure_has_the_rate_of_the_channel():
    world = simulate(Scenario((IDLE,)), users=50_000, seed=3)
    observed = (world.users["until"] - pd.Timestamp("2025-01-01", tz="UTC")) / pd.Timedelta(days=1)
    # A user who converts on a day was exposed to the touchpoints of that day.
    days = np.ceil(observed).sum()
    touched = (world.touchpoints["node_id"] == "poster").sum()
    assert touched == pytest.approx(0.1 * days, abs=5 * math.sqrt(0.09 * days))


def converting(growth):
    """Compute the conversion rate from the Markov chain of intents, integrated over propensity and trait.

    ``growth`` is the factor on the hazard of all users on each day.
    """
    start, hazard = np.array([0.84, 0.12, 0.04]), np.array([0.00025, 0.0015, 0.010])
    moves = np.array([[0.994, 0.006, 0], [0.05, 0.915, 0.035], [0, 0.07, 0.93]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    expected = 0.0
    for node, weight in zip(nodes, weights / math.sqrt(2 * math.pi), strict=True):
        for trait, share in ((0, 0.7), (1, 0.3)):
            alive = start.copy()
            for factor in growth:
                alive = (alive @ moves) * np.exp(-hazard * factor * math.exp(0.5 * trait + 0.5 * node))
            expected += weight * share * (1 - alive.sum())
    return expected


@pytest.mark.slow
def test_without_effects_conversions_match_the_hazards():
    users, expected = 200_000, converting([1.0] * 30)
    conversions = len(simulate(Scenario((IDLE,)), users=users, seed=11).conversions)
    assert conversions == pytest.approx(users * expected, abs=4 * math.sqrt(users * expected))


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("adstock", ["fading", "delayed"])
@pytest.mark.parametrize(
    ("saturates", "level"),
    [
        ("hyperbola", lambda a: a / (1 + 0.5 * a)),
        ("logarithm", lambda a: math.log(1 + 0.5 * a) / 0.5),
        ("exponential", lambda a: (1 - math.exp(-0.5 * a)) / 0.5),
    ],
)
def test_conversions_match_the_adstock_and_saturation_of_a_channel_that_reaches_everybody(
    adstock, saturates, level
):
    """Everybody has the same adstock: one exposure a day, half of which is left after two days."""
    radio = Channel("radio", half_life=2, rate=1, direct=1.5)
    scenario = Scenario((radio,), saturation=0.5, saturates=saturates, adstock=adstock)
    fade, stock, pending, growth = 2**-0.5, 0.0, 0.0, []
    for _ in range(30):
        stock *= fade
        if adstock == "fading":
            stock += 1
        else:
            # Half of the pending effect arrives today; today's exposure is pending.
            pending /= 2
            stock += pending
            pending += 1
        growth.append(1 + 1.5 * level(stock))
    users, expected = 100_000, converting(growth)
    conversions = len(simulate(scenario, users=users, seed=4).conversions)
    assert conversions == pytest.approx(users * expected, abs=4 * math.sqrt(users * expected))


def test_touchpoints_at_the_checkout_come_minutes_before_conversions():
    world = simulate("promotions", users=8_000, seed=1)
    coupons = world.touchpoints[world.touchpoints["node_id"] == "coupon"]
    last = coupons.groupby("user_id")["date"].max()
    bought = world.conversions.set_index("user_id")["date"]
    ages = (bought - last).dropna().dt.total_seconds() / 60
    assert 0.4 * len(bought) < (ages <= 60).sum() < 0.65 * len(bought)
    truth = world.truth().set_index("node_id")["removal"]
    assert truth["coupon"] == 0
    assert truth["popup"] <= 0 < truth[["video", "display", "email"]].sum()


def test_purchases_are_made_in_sessions():
    world = simulate("sessions", users=8_000, seed=1)
    last = world.touchpoints.groupby("user_id")["date"].max()
    bought = world.conversions.set_index("user_id")["date"]
    ages = (bought - last[bought.index]).dt.total_seconds() / 60
    assert ages.notna().all()
    assert ages.between(1.9, 63).all()
    # Sessions of a channel without an effect would have been direct visits.
    assert world.truth().set_index("node_id").loc["brand_search", "removal"] == 0


def test_display_leads_to_brand_searches():
    """Without display, a user has the rate of brand search alone; an exposure of yesterday raises it."""
    channels = (Channel("display", 7, 0.2), Channel("brand", 1, 0.02))
    world = simulate(Scenario(channels, mediations=(("display", "brand", 6.0),)), users=20_000, seed=4)
    day = (world.touchpoints["date"] - pd.Timestamp("2025-01-01", tz="UTC")).dt.days
    seen, searched = (
        set(world.touchpoints.loc[(day == number) & (world.touchpoints["node_id"] == node), "user_id"])
        for number, node in ((0, "display"), (1, "brand"))
    )
    # Of yesterday's exposure 2^(-1/7) = 0.906 is left, saturated 0.906 / (1 + 0.35 * 0.906) = 0.688; 1 + 6 * 0.688 is
    # 5.13, so the rate is 0.1025 instead of 0.02.
    for rate, count, found in (
        (0.1025, len(seen), len(seen & searched)),
        (0.02, len(world.users) - len(seen), len(searched - seen)),
    ):
        assert found == pytest.approx(rate * count, abs=4 * math.sqrt(rate * count))


def test_the_total_effect_of_a_channel_includes_what_it_leads_to_and_the_direct_effect_does_not():
    channels = (Channel("display", 7, 0.2), Channel("brand", 2, 0.02, direct=4.0))
    world = simulate(Scenario(channels, mediations=(("display", "brand", 6.0),)), users=20_000, seed=4)
    truth = world.truth(direct=True).set_index("node_id")
    assert truth.loc["display", "direct"] == 0
    # Display leads to most brand searches, so most of what these cause is lost without it.
    assert 0.5 < truth.loc["display", "removal"] / truth.loc["brand", "removal"] < 1
    assert truth.loc["brand", "direct"] == truth.loc["brand", "removal"] > 50


def test_direct_effects_hold_intent_and_visits_unchanged_and_include_synergies():
    channels = (Channel("radio", 7, 0.2, upstream=1.0), Channel("mail", 7, 0.2))
    truth = simulate(Scenario(channels, follows_intent=True), users=10_000, seed=4).truth(direct=True)
    assert truth.loc[0, "removal"] > 10
    assert truth["direct"].tolist() == [0, 0, 0, 0]
    scenario = Scenario((Channel("a", 7, 0.2), Channel("b", 7, 0.2)), synergies=(("a", "b", 2.0),))
    truth = simulate(scenario, users=5_000, seed=4).truth(direct=True)
    assert truth.loc[0, "direct"] == truth.loc[0, "removal"] > 5


def test_promotions_raise_conversions_and_the_exposure_to_promoted_channels():
    world = simulate("promotions", users=8_000, seed=1)
    days = SCENARIOS["promotions"].promotions
    first = world.users["since"].min()

    def rate(rows):
        day = (rows["date"] - first).dt.days
        counts = day.value_counts().reindex(range(30), fill_value=0)
        return counts[list(days)].mean() / counts.drop(list(days)).mean()

    assert 2 < rate(world.conversions) < 4.5
    assert 3 < rate(world.touchpoints[world.touchpoints["node_id"] == "video"]) < 5
    assert 0.8 < rate(world.touchpoints[world.touchpoints["node_id"] == "display"]) < 1.2


def test_a_varied_scenario_has_the_same_channels_and_other_parameters():
    scenarios = [varied_scenario("intent_synergy", seed) for seed in range(20)]
    assert scenarios[0] == varied_scenario("intent_synergy", 0)
    assert {scenario.saturates for scenario in scenarios} == {"hyperbola", "logarithm", "exponential"}
    assert {scenario.adstock for scenario in scenarios} == {"fading", "delayed"}
    for scenario in scenarios:
        assert scenario.follows_intent
        assert [c.node_id for c in scenario.channels] == [c.node_id for c in SCENARIOS["intent"].channels]
        assert scenario.channels[0].half_life != 7


def test_only_channels_with_an_effect_cause_conversions():
    scenario = Scenario((IDLE, Channel("radio", half_life=7, rate=0.2, direct=1.0)))
    truth = simulate(scenario, users=20_000, seed=5).truth(shapley=True).set_index("node_id")
    assert truth.loc["poster"].tolist() == [0.0, 0.0]
    assert truth.loc["radio", "removal"] > 100
    # With a single effective channel, removal and Shapley value agree.
    assert truth.loc["radio", "removal"] == truth.loc["radio", "shapley"]
    assert truth.loc[["organic", "direct"]].to_numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.slow
def test_shapley_values_add_up_to_the_total_effect_and_removals_count_synergies_twice():
    channels = (Channel("a", 7, 0.2, direct=0.5), Channel("b", 7, 0.2, direct=0.5))
    world = simulate(Scenario(channels, synergies=(("a", "b", 2.0),)), users=30_000, seed=2)
    truth = world.truth(shapley=True)
    without_effects = simulate(Scenario((Channel("a", 7, 0.2), Channel("b", 7, 0.2))), users=30_000, seed=2)
    caused = len(world.conversions) - len(without_effects.conversions)
    assert truth["shapley"].sum() == pytest.approx(caused)
    assert truth["removal"].sum() > 1.2 * caused


@pytest.mark.parametrize("name", ["random", "synergy"])
def test_the_number_of_users_does_not_depend_on_batches(name, monkeypatch):
    monkeypatch.setattr("attrib_ds.simulation.simulate._BATCH_SIZE", 1_000)
    world = simulate(name, users=2_500, seed=1)
    assert world.users["user_id"].is_unique
    assert len(world.users) == 2_500
    assert set(world.touchpoints["user_id"]) <= set(world.users["user_id"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": 0}, "users: 0 is not allowed; allowed: whole numbers, 1 or more"),
        ({"seed": -1}, "seed: -1 is not allowed"),
        ({"holdout": 0.6}, "holdout: 0.6 is not allowed; allowed: 0 to 0.5"),
        ({"scenario": "rnadom"}, "did you mean 'random'"),
        ({"scenario": ["random"]}, r"scenario: \['random'\] is not allowed"),
        ({"users": True}, "users: True is not allowed"),
        ({"seed": 1.5}, "seed: 1.5 is not allowed; allowed: whole numbers, 0 or more"),
        ({"holdout": "half"}, "holdout: 'half' is not allowed"),
        ({"start": "spring"}, "start: 'spring' is not allowed; allowed: a day such as '2025-01-31'"),
        ({"start": ""}, "start: '' is not allowed"),
        ({"start": None}, "start: None is not allowed"),
        ({"start": "1600-01-01"}, "start: '1600-01-01' is not allowed"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        simulate(**{"scenario": "random", "users": 10, "seed": 1} | arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Channel("radio", half_life=0, rate=0.1), "half_life: 0 is not allowed"),
        (lambda: Channel("radio", half_life=1, rate=1.5), "rate: 1.5 is not allowed"),
        (lambda: Channel("radio", half_life=1, rate=0.5, upstream=-1), "upstream: -1 is not allowed"),
        (lambda: Scenario(()), "channels"),
        (lambda: Scenario((IDLE, IDLE)), "channels"),
        (lambda: Scenario((Channel("direct", 1, 0.1),)), "channels"),
        (lambda: Scenario((IDLE,), synergies=(("poster", "postre", 1.0),)), "did you mean 'poster'"),
        (lambda: Scenario((IDLE,), days=0), "days: 0"),
        (
            lambda: Scenario((IDLE,), mediations=(("poster", "poster", 1.0),)),
            "mediations: 'poster' is not allowed as a mediator of 'poster'; allowed: another channel",
        ),
        (
            lambda: Scenario(
                (IDLE, Channel("radio", 1, 0.1)), follows_intent=True, mediations=(("poster", "radio", 1.0),)
            ),
            "mediations: 'radio' is not allowed as a mediator of 'poster'",
        ),
        (
            lambda: Scenario((IDLE, Channel("radio", 1, 0.1)), mediations=(("poster", "radio", -1.0),)),
            "mediations: -1.0 is not allowed; allowed: an effect of 0 or more",
        ),
        (lambda: Scenario((IDLE,), mediations=(("poster", "postre", 1.0),)), "did you mean 'poster'"),
        (lambda: Scenario((IDLE,), saturation=-1), "saturation: -1 is not allowed"),
        (lambda: Scenario((IDLE,), saturates="hyperbole"), "did you mean 'hyperbola'"),
        (lambda: Scenario((IDLE,), adstock="slow"), "adstock: 'slow'"),
        (lambda: Channel("radio", half_life="7D", rate=0.1), "half_life: '7D' is not allowed; allowed: days"),
        (lambda: Channel("radio", half_life=1, rate=0.1, direct=math.inf), "direct: inf is not allowed"),
        (lambda: Channel("radio", 1, 0.1, "visitor"), "delivery: 'visitor' .*did you mean 'visitors'"),
        (lambda: Channel("", 1, 0.1), "node_id: '' is not allowed; allowed: a text"),
        (lambda: Scenario(("radio",)), "channels: .'radio'. is not allowed"),
        (
            lambda: Scenario(tuple(replace(IDLE, node_id=f"c{number}") for number in range(101))),
            "one to 100 channels with distinct names",
        ),
        (
            lambda: Scenario((IDLE,), synergies=("poster", "poster", 1.0)),
            "synergies: 'poster' is not allowed",
        ),
        (lambda: Scenario((IDLE,), synergies=(("poster", "poster", "x"),)), "synergies: 'x' is not allowed"),
        (
            lambda: Scenario((IDLE,), days=2.5),
            "days: 2.5 is not allowed; allowed: whole numbers, 1 to 1,000",
        ),
        (lambda: varied_scenario("random", seed=-1), "seed: -1 is not allowed"),
    ],
)
def test_an_invalid_scenario_is_refused(make, message):
    with pytest.raises(InvalidRequest, match=message):
        make()


def test_lists_and_numpy_numbers_give_the_same_scenario():
    first = simulate(Scenario([replace(IDLE, rate=np.float64(0.1))]), users=np.int64(50), seed=np.int64(1))
    second = simulate(Scenario((IDLE,)), users=50, seed=1, start="2025-01-01T01:00:00+01:00")
    assert hash(first.scenario) == hash(second.scenario)
    pd.testing.assert_frame_equal(first.touchpoints, second.touchpoints)


def test_counterfactuals_use_common_random_numbers():
    """Adding a channel never removes a conversion: the same draw is compared with a higher hazard."""
    channels = tuple(Channel(name, 5, 0.2, direct=0.5) for name in "abc")
    world = simulate(Scenario(channels), users=5_000, seed=9)
    for running in itertools.product((True, False), repeat=3):
        for position in range(3):
            with_it = (*running[:position], True, *running[position + 1 :])
            assert world._conversions(with_it) >= world._conversions(running)


def test_a_search_channel_that_does_not_run_brings_no_visits():
    """Its visits would trigger retargeting, which alone has an effect here."""
    channels = (
        Channel("brand", 2, 0.5, delivery="brand_search"),
        Channel("again", 5, 0.5, direct=2.0, delivery="visitors"),
    )
    world = simulate(Scenario(channels, follows_intent=True), users=3_000, seed=2)
    assert world._conversions((False, True)) < world._conversions((True, True))


def test_opportunities_are_the_touchpoints_that_withheld_users_would_have_had():
    """On the first day no exposure has had an effect yet, so both simulations agree."""
    plain, tried = (simulate("random", users=5_000, seed=3, holdout=holdout) for holdout in (0.0, 0.3))
    first_day = [
        rows.loc[rows["date"] < "2025-01-02", ["user_id", "node_id"]]
        for rows in (plain.touchpoints, tried.touchpoints, tried.opportunities)
    ]
    all_touches, remaining, prevented = (pd.MultiIndex.from_frame(rows) for rows in first_day)
    assert len(prevented)
    assert prevented.isin(pd.MultiIndex.from_frame(tried.withheld)).all()
    assert sorted([*remaining, *prevented]) == sorted(all_touches)
    assert plain.opportunities.empty
    assert plain.opportunities.dtypes.equals(tried.opportunities.dtypes)


def test_retargeting_follows_visits_of_the_last_seven_days_only():
    """Users without a visit in the last seven days are never reached."""
    scenario = replace(SCENARIOS["intent"], days=160)
    world = simulate(scenario, users=3_000, seed=6)
    touched = world.touchpoints.assign(day=lambda rows: rows["date"].dt.floor("D"))
    visits = touched[
        touched["node_id"].isin(["organic", "direct", "generic_search", "brand_search", "email"])
    ]
    reached = touched[touched["node_id"] == "retargeting"]
    # The last visit on an earlier day: visits of the same day may come after the exposure.
    before = pd.merge_asof(
        reached.sort_values("day"),
        visits[["user_id", "day"]].assign(visited=visits["day"]).sort_values("day"),
        on="day", by="user_id", allow_exact_matches=False,
    )  # fmt: skip
    assert len(before) > 1_000
    assert ((before["day"] - before["visited"]) <= pd.Timedelta(days=7)).all()


@pytest.mark.slow
def test_searches_without_an_advertisement_end_with_organic_clicks(monkeypatch):
    """Half of the searches have an advertisement; 7 of 10 others, and of withheld users', end with a click."""
    monkeypatch.setitem(daily_simulation._QUERIES, "category_search", np.zeros(3, np.float32))
    channel = Channel("brand", 1, 0.5, "brand_search")
    world = simulate(Scenario((channel,), follows_intent=True), users=120_000, seed=8, holdout=0.5)
    held = set(world.withheld["user_id"])
    clicks = world.touchpoints[world.touchpoints["node_id"] == "organic"]["user_id"].isin(held)
    served = world.touchpoints["node_id"].eq("brand").sum()
    missed = len(world.opportunities)
    # Of 200 searches 100 are served, and 70 clicks follow the others; withheld, 140 clicks follow the 200. A search
    # adds -0.7, 1 or 0 to the first difference (0.5, 0.35, 0.15), with variance 0.595, that is 1.7 per click
    # expected; to the second a click of 0.7 and, apart from it, -1.4 of 0.5: 0.7, that is 1 per click.
    for observed, expected, variance in (
        ((~clicks).sum(), 0.7 * served, 1.7),
        (clicks.sum(), 1.4 * missed, 1.0),
    ):
        assert expected > 5_000
        assert observed == pytest.approx(expected, abs=4 * math.sqrt(variance * expected))
