"""Evidence against a model: the credit of negative controls, and nodes at the checkout."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, estimate_effects, simulate
from attrib_ds.attribution.experiments import verdict
from attrib_ds.attribution.experiments.verdict import checkout_nodes
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import ConfoundingWarning

START = pd.Timestamp("2025-01-01", tz="UTC")
#: Minutes before the conversion.
LAST, HOURS = 5, 60 * 30


def paths_of(minutes, *, whole_days=False):
    """Return paths of users who convert at the same time; touchpoints are given in minutes before it."""
    rows = [(user, node, ago) for user, touches in enumerate(minutes) for node, ago in touches]
    touchpoints = pd.DataFrame(rows, columns=["user_id", "node_id", "ago"])
    # All at midnight, conversions are days.
    bought = START + pd.Timedelta(days=8, minutes=0 if whole_days else 1)
    unit = pd.Timedelta(days=1) if whole_days else pd.Timedelta(minutes=1)
    touchpoints["date"] = bought - touchpoints.pop("ago") * unit
    touchpoints["user_id"] = "u" + touchpoints["user_id"].astype(str)
    users = sorted(set(touchpoints["user_id"]))
    conversions = pd.DataFrame({"event_id": [f"e{user}" for user in users], "user_id": users, "date": bought})
    return Paths.from_frames(touchpoints, conversions)


def found_in(paths):
    return checkout_nodes(Sequences.of(paths))


def test_a_node_is_at_the_checkout_if_its_touchpoints_cluster_there():
    # 20 conversions: the coupon precedes 15 of its 20 by five minutes, ads none of theirs, and a shop's mails
    # one in twenty, which is more than its rate implies, and few.
    minutes = [
        [("coupon", LAST if user < 15 else HOURS), ("ad", HOURS), ("mail", LAST if user == 0 else HOURS)]
        for user in range(20)
    ]
    found = found_in(paths_of(minutes))
    assert found["share"].to_dict() == {"ad": 0.0, "coupon": 0.75, "mail": 0.05}
    assert found["is_at_checkout"].to_dict() == {"ad": False, "coupon": True, "mail": False}


def test_dates_without_times_of_day_tell_nothing():
    found = found_in(paths_of([[("a", 0), ("a", 2)], [("a", 0)]] * 20, whole_days=True))
    assert found["share"].isna().all()
    assert not found["is_at_checkout"].any()


def test_frequent_touchpoints_are_not_at_the_checkout():
    minutes = [[("app", ago) for ago in range(10 + user % 50, 60 * 24 * 6, 60)] for user in range(20)]
    assert not found_in(paths_of(minutes))["is_at_checkout"].any()


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_a_site_with_coupons_is_named_and_marked():
    world = simulate("promotions", users=8_000, seed=1)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with pytest.warns(ConfoundingWarning, match=r"conversions: coupon \d+% of the conversions") as caught:
        effects = estimate_effects(paths, DiscreteHazard(comparisons=2))
    rows = effects.checkout().set_index("node_id")
    assert [each.filename for each in caught if each.category is ConfoundingWarning] == [__file__]
    assert rows["is_at_checkout"].to_dict() == {node: node == "coupon" for node in rows.index}
    assert rows.loc["coupon", "share"] > 0.9
    assert rows.loc["video", "share"] < 0.1


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["random", "intent", "synergy", "intent_synergy"])
def test_no_other_channel_is_at_the_checkout(scenario):
    world = simulate(scenario, users=60_000, seed=2)
    found = found_in(Paths.from_frames(world.touchpoints, world.conversions, users=world.users))
    assert not found["is_at_checkout"].any()


def sampled(amounts, errors):
    """Return credits of all users, then without each of 20 groups, whose jackknife errors are independent."""
    groups = np.arange(20)
    rows = [amounts]
    for group in groups:
        waves = [np.cos(2 * np.pi * (node + 1) * group / 20) for node in range(len(amounts))]
        # Squares of a wave sum to 10.
        deviations = np.array(errors) * waves * np.sqrt(20 / 19 / 10)
        rows.append((np.array(amounts) + deviations) * 19 / 20)
    return np.array(rows)


def checked(controls, controls_error, others, others_error):
    credits = sampled([*controls, *others], [*controls_error, *others_error])
    is_control = np.arange(credits.shape[1]) < len(controls)
    return verdict.check_controls(credits, is_control, ["a", "b"][: len(controls)], confidence=0.95)


def test_the_samples_have_the_errors_that_they_should():
    credits = sampled([5.0, 7.0], [1.0, 2.0])
    assert verdict.jackknife_error(credits[1:]).tolist() == pytest.approx([1, 2])
    assert verdict.jackknife_error(credits[1:].sum(axis=1)) == pytest.approx(np.sqrt(5))


@pytest.mark.parametrize(
    ("controls", "error", "others", "failed"),
    [
        # Two controls: the mean square of 3 and 4 is 12.5, above the 7.1 that chance reaches once in 200.
        ([30.0, -40.0], 13.2, [100.0, 100.0], True),  # 7.2
        ([30.0, -40.0], 13.4, [100.0, 100.0], False),  # 7.0
        ([30.0, -40.0], 10.0, [140.0, 130.0], True),
        ([30.0, -40.0], 10.0, [150.0, 140.0], False),  # less than a quarter of the others
        ([-30.0, -40.0], 10.0, [100.0, 100.0], True),  # harm is no effect either
        ([0.0, 0.0], 0.0, [100.0, 100.0], False),
        ([60.0, 0.0], 0.0, [100.0, 100.0], True),
        # A net near zero: more than a quarter of it, and less or more than a twentieth of the sizes.
        ([70.0, 70.0], 10.0, [1_500.0, -1_400.0], False),
        ([75.0, 75.0], 10.0, [1_500.0, -1_400.0], True),
    ],
)
def test_controls_fail_if_their_credit_is_significant_and_large(controls, error, others, failed):
    assert (checked(controls, [error] * 2, others, [0.0, 0.0]).result == "failed") == failed


def test_harm_and_benefit_of_the_others_do_not_cancel_in_the_share():
    found = checked([30.0], [1.0], [1_500.0, -500.0], [0.0, 0.0])
    assert found.share == pytest.approx(0.015)


@pytest.mark.parametrize(
    ("total", "error", "others", "others_error", "result", "bounds"),
    [
        # With an exact denominator the bounds are those of a t distribution with 19 degrees of freedom: 2.093;
        # one-sided tests at 10 % reach 1.328.
        (30.0, 20.0, 1_000.0, 0.0, "passed", (-0.01186, 0.07186)),
        (30.0, 165.0, 1_000.0, 0.0, "passed", (-0.31535, 0.37535)),
        (30.0, 166.0, 1_000.0, 0.0, "cannot tell", (-0.31744, 0.37744)),
        (-30.0, 166.0, 1_000.0, 0.0, "cannot tell", (-0.37744, 0.31744)),
        (580.0, 185.0, 1_000.0, 0.0, "cannot tell", (0.19279, 0.96721)),
        (580.0, 120.0, 1_000.0, 0.0, "failed", (0.32884, 0.83116)),
        # Others that may have no credit at all leave the share unbounded.
        (0.0, 1.0, 10.0, 8.0, "cannot tell", (-np.inf, np.inf)),
        (0.0, 1.0, 0.0, 0.0, "cannot tell", (-np.inf, np.inf)),
    ],
)
def test_controls_pass_only_if_their_share_is_certainly_small(
    total, error, others, others_error, result, bounds
):
    found = checked([total], [error], [others], [others_error])
    assert found.result == result
    assert (found.low, found.high) == pytest.approx(bounds, abs=1e-4)


@pytest.mark.parametrize(
    ("adjusted", "unadjusted", "net", "result"),
    [
        # Without the adjustment: 100 + 1.328 * 100 is less than a quarter of 1,000, 120 + 1.328 * 100 is more.
        (-200.0, -100.0, 1_000.0, "passed"),
        (-200.0, -120.0, 1_000.0, "cannot tell"),
        # A quarter of 1,500 is 375; beyond that, the models disagree on the net effect.
        (-200.0, 240.0, 1_500.0, "passed"),
        (-200.0, 0.0, 1_510.0, "cannot tell"),
        (-600.0, -100.0, 1_000.0, "cannot tell"),  # the tests disagree
        (-600.0, -400.0, 1_000.0, "failed"),
        (-600.0, 0.0, 1_510.0, "failed"),
    ],
)
def test_controls_with_credit_due_to_the_adjustment_for_activity(adjusted, unadjusted, net, result):
    is_control = np.array([True, False])
    check = checked([adjusted], [100.0], [1_000.0], [0.0])
    credits, equal = sampled([adjusted, 1_000.0], [100.0, 0.0]), sampled([unadjusted, net], [100.0, 0.0])
    found = verdict.reconsidered(check, credits, equal, is_control)
    assert found.result == result
    assert ("disagree" in found.explanation) == (check.result != "cannot tell" and result == "cannot tell")
    assert bool(found.settled_by) == (result != "passed")


def test_controls_that_cannot_tell_say_how_many_more_users_it_takes():
    # The room is 250 - 30 = 220 and the reach 1.328 * 300 = 398: (398 / 220) ** 2 = 3.3 times as many.
    found = checked([30.0], [300.0], [1_000.0], [0.0])
    assert found.settled_by.startswith("3.3 times as many users, or a randomised holdout")
    hopeless = checked([300.0], [180.0], [1_000.0], [0.0])
    assert hopeless.settled_by.startswith("a randomised holdout")


def test_bounds_of_a_ratio_know_that_its_parts_vary_together():
    # A part that is always a tenth of the whole has a certain share.
    (whole,) = sampled([1_000.0], [100.0]).T
    assert verdict.ratio_bounds(whole / 10, whole, 0.95) == pytest.approx((0.1, 0.1, 0.1), abs=1e-6)


@pytest.mark.parametrize(("net", "result"), [(28.0, "cannot tell"), (29.0, "passed"), (-29.0, "cannot tell")])
def test_effects_that_may_be_nothing_or_are_below_zero_are_not_confirmed(net, result):
    # 2.861 standard errors at 1 % with 19 degrees of freedom.
    check = verdict.check_effects(sampled([net], [10.0])[:, 0])
    assert check.result == result
    assert ("prevent conversions" in check.explanation) == (net < 0)


@pytest.mark.parametrize(
    ("unadjusted", "error", "result"),
    [(1_300.0, 100.0, "failed"), (1_300.0, 110.0, "passed"), (1_240.0, 10.0, "passed")],
)
def test_the_adjustment_for_activity_matters_if_effects_change_by_more_than_chance(unadjusted, error, result):
    # 300 / 100 is more than 2.861 standard errors, 300 / 110 is less; 240 is less than a quarter.
    change = sampled([unadjusted - 1_000.0], [error])[:, 0]
    net = sampled([1_000.0], [0.0])[:, 0]
    assert verdict.check_activity(net, net + change, confidence=0.95).result == result


@pytest.mark.parametrize(
    ("anyway", "error", "result"),
    [(900.0, 100.0, "passed"), (900.0, 120.0, "cannot tell"), (100.0, 10.0, "cannot tell")],
)
def test_sessions_that_may_have_come_anyway_leave_effects_open(anyway, error, result):
    # 100 + 1.328 * 100 is less than a quarter of 1,000; 100 + 1.328 * 120 is more.
    net = sampled([1_000.0], [0.0])[:, 0]
    change = sampled([anyway - 1_000.0], [error])[:, 0]
    assert verdict.check_sessions(net, net + change, confidence=0.95).result == result


@pytest.mark.parametrize(
    ("change", "error", "result"),
    [
        ([0.0, -400.0], 30.0, "failed"),
        # A quarter of the effects' sizes is no more than that, and 400 may be 0 if the error is 200.
        ([0.0, -200.0], 30.0, "passed"),
        ([0.0, -400.0], 200.0, "passed"),
        # Changes of different nodes do not cancel.
        ([290.0, -300.0], 30.0, "failed"),
    ],
)
def test_effects_that_earlier_conversions_change_are_open(change, error, result):
    credits = sampled([100.0, 700.0], [0.0, 0.0])
    adjusted = credits + sampled(change, [error, error])
    found = verdict.check_earlier_conversions(credits, adjusted, ["ad", "letter"])
    assert found.result == result
    assert ("letter would cause" in found.explanation) == (result == "failed")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="to customers"),
        pytest.param(False, id="to all", marks=pytest.mark.slow),
    ],
)
def subscribers(request):
    """Users who buy by chance and again every ten days, and letters without an effect: to customers or to all."""
    random, users, days = np.random.default_rng(4), 300, 40
    first = random.integers(0, 60, users)
    bought = [(user, day) for user in range(users) for day in range(first[user], days, 10)]
    since = first if request.param else np.zeros(users)
    is_sent = random.random((users, days)) < 0.2
    sent = [(user, day) for user, day in zip(*np.nonzero(is_sent), strict=True) if day > since[user]]
    seen = list(zip(*np.nonzero(random.random((users, days)) < 0.05), strict=True))

    def rows(kind, pairs, hour):
        user, day = np.transpose(pairs)
        date = (
            pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(day, unit="D") + pd.Timedelta(hours=hour)
        )
        return pd.DataFrame({"user_id": [f"u{each}" for each in user], "date": date, **kind})

    touchpoints = pd.concat([rows({"node_id": "letter"}, sent, 8), rows({"node_id": "direct"}, seen, 9)])
    conversions = rows({}, bought, 20)
    conversions["event_id"] = [f"e{number}" for number in range(len(conversions))]
    begin = pd.Timestamp("2026-01-01", tz="UTC")
    observed = pd.DataFrame({"user_id": [f"u{user}" for user in range(users)], "since": begin})
    observed["until"] = begin + pd.Timedelta(days=days)
    return request.param, Paths.from_frames(touchpoints, conversions, users=observed)


@pytest.mark.large
def test_letters_to_customers_who_buy_again_are_found_out(subscribers):
    is_to_customers, paths = subscribers
    if is_to_customers:
        with pytest.warns(ConfoundingWarning, match="letter would cause"):
            effects = estimate_effects(paths, controls=["direct"])
        found = effects.verdict().set_index("test").loc["earlier conversions"]
        assert (found["verdict"], found["result"]) == ("cannot tell", "failed")
        # A first conversion has none before it, as periods of users who have not converted.
        sample = effects.sample
        so_far = sample.after_conversions().design.plain[:, len(sample.model.half_lives) + 1]
        assert so_far[sample.periods.is_case].min() == so_far.min()
    else:
        effects = estimate_effects(paths, controls=["direct"])
        assert (
            "failed" not in effects.verdict().set_index("test")["result"].drop("activity of users").tolist()
        )


def nodes_at(*, is_at_checkout, share=0.5):
    return pd.DataFrame({"share": [share, 0.0], "is_at_checkout": [is_at_checkout, False]}, index=["a", "b"])


@pytest.mark.parametrize(
    ("nodes", "controls", "result"),
    [
        (nodes_at(is_at_checkout=True), [], "failed"),
        (nodes_at(is_at_checkout=True), ["a"], "passed"),
        (nodes_at(is_at_checkout=False), [], "passed"),
        (nodes_at(is_at_checkout=False).assign(share=np.nan), [], "not applicable"),
    ],
)
def test_nodes_at_the_checkout_are_a_test(nodes, controls, result):
    found = verdict.check_checkout(nodes, controls)
    assert found.result == result
    assert ("holdout of a" in found.settled_by) == (result == "failed")


def check(result):
    return verdict.Check("", result, "")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (["passed", "passed", "passed"], "clear"),
        (["passed", "passed", "not applicable"], "clear"),
        (["not applicable", "passed", "passed"], "cannot tell"),
        (["passed", "cannot tell", "passed"], "cannot tell"),
        (["passed", "passed", "failed"], "cannot tell"),
        (["cannot tell", "passed", "passed"], "cannot tell"),
        (["failed", "passed", "passed"], "confounded"),
    ],
)
def test_tests_that_disagree_settle_nothing(results, expected):
    assert verdict.judge([check(result) for result in results]).verdict == expected
