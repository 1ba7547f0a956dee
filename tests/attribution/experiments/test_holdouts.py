"""Effects from randomised holdouts: examples by hand, invariances and refused arguments."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import t as student

from attrib_ds import Paths, simulate
from attrib_ds.attribution.experiments.contrasts import contrast
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.errors import HoldoutWarning, InvalidRequest

START = pd.Timestamp("2025-01-01", tz="UTC")


def day(number):
    return START + pd.Timedelta(days=number)


def users_of(count, **columns):
    names = [f"u{number:02d}" for number in range(count)]
    return pd.DataFrame({"user_id": names, "since": day(0), "until": day(30), **columns})


def touches(*rows):
    frame = pd.DataFrame(rows, columns=["user_id", "node_id", "date"])
    return frame.assign(date=[day(each) for each in frame["date"]])


def converted(*rows, value=10.0):
    """Conversions of users (by number) on days."""
    return pd.DataFrame(
        {
            "event_id": [f"e{number}" for number in range(len(rows))],
            "user_id": [f"u{user:02d}" for user, _ in rows],
            "date": [day(when) for _, when in rows],
            "value": value,
            "currency": "EUR",
        }
    )


def held(node, *users, **columns):
    return pd.DataFrame({"user_id": [f"u{user:02d}" for user in users], "node_id": node, **columns})


@pytest.fixture
def ten():
    """A node withheld from four users, of whom one converts; three of the other six convert."""
    points = touches(("u04", "ads", 1), ("u05", "ads", 1), ("u05", "ads", 2), ("u09", "mail", 1))
    return Paths.from_frames(
        points, converted((0, 5), (4, 5), (5, 6), (6, 7)), users=users_of(10, tall=[True] * 5 + [False] * 5)
    )


def drawn(*users, flags=None, **columns):
    """Participants by number, with the draw of each; by default that of :data:`HELD`."""
    return held("ads", *users, withheld=[user < 4 for user in users] if flags is None else flags, **columns)


def found_in(paths, withheld, **options):
    """Effects and groups in one frame, with the standard error of the effects."""
    effects = holdout_effects(paths, withheld, **options)
    found = effects.groups().merge(effects.table(), on=["node_id", "node_name", "currency"])
    return found.assign(error=(found["high"] - found["low"]) / (2 * 1.9599639845400545))


def row_of(*arguments, **options):
    (row,) = found_in(*arguments, **options).to_dict("records")
    return row


def logged(withheld, log):
    """Withheld users with the opportunities that they had."""
    return withheld.merge(log, how="left")


HELD = held("ads", 0, 1, 2, 3)


def test_one_holdout_is_a_difference_of_means_with_the_sum_of_both_variances():
    buyers = [*((user, 5) for user in range(10)), *((user, 5) for user in range(20, 35))]
    paths = Paths.from_frames(touches(("u20", "ads", 1)), converted(*buyers), users=users_of(40))
    row = row_of(paths, held("ads", *range(20)))
    # 40 users times (15/20 - 10/20). Sample variances: p (1 - p) 20/19 on either side.
    assert row["caused"] == pytest.approx(10.0)
    assert row["error"] == pytest.approx(40 * np.sqrt((0.1875 + 0.25) / 19))


def test_with_few_conversions_the_withheld_get_the_variance_of_the_others(ten):
    row = row_of(ten, HELD)
    # 10 users times (3/6 - 1/4). The sample variance is 0.3 of six users; that of the other four is 0.25.
    assert row["caused"] == pytest.approx(2.5)
    assert row["error"] == pytest.approx(10 * np.sqrt(0.3 / 6 + 0.3 / 4))
    assert row["low"] == pytest.approx(2.5 - 1.959964 * row["error"])
    assert row["high"] == pytest.approx(2.5 + 1.959964 * row["error"])
    assert (row["rate"], row["withheld_rate"]) == pytest.approx((0.5, 0.25))
    assert (row["users"], row["withheld"], row["reached"], row["contaminated"]) == (10, 4, 2, 0)
    assert row["value"] == pytest.approx(25.0)
    assert row["value_high"] == pytest.approx(25.0 + 1.959964 * 10 * row["error"])
    assert (row["node_id"], row["node_name"], row["currency"]) == ("ads", "ads", "EUR")


def test_the_columns_and_their_types(ten):
    found = found_in(ten, HELD)
    numbers = ["rate", "withheld_rate", "caused", "error", "low", "high", "value", "value_low", "value_high"]
    counts = ["users", "withheld", "reached", "contaminated"]
    assert set(found.columns) == {"node_id", "node_name", "currency", *counts, *numbers}
    table = holdout_effects(ten, HELD).table()
    assert list(table.columns) == ["node_id", "node_name", "currency", *numbers[2:3], *numbers[4:]]
    assert {str(found[name].dtype) for name in counts} == {"Int64"}
    assert {str(found[name].dtype) for name in numbers} == {"float64"}


def test_effects_of_two_holdouts_are_separated():
    """Four groups of two users each: neither withheld, one, the other, both."""
    points = touches(("u00", "ads", 1), ("u00", "mail", 1))
    paths = Paths.from_frames(points, converted((0, 5), (1, 5), (2, 5), (4, 5), (6, 5)), users=users_of(8))
    both = pd.concat([held("ads", 2, 3, 6, 7), held("mail", 4, 5, 6, 7)])
    found = found_in(paths, both).set_index("node_id")["caused"]
    # 8 users times the mean of 1 and 1/2, less the mean of 1/2 and 1/2; the same for the other.
    assert found.to_dict() == pytest.approx({"ads": 2.0, "mail": 2.0})


def test_overlapping_holdouts_do_not_absorb_each_others_effect():
    """Only ads have an effect, and mail is mostly withheld from the same users."""
    points = touches(("u00", "ads", 1), ("u00", "mail", 1))
    buyers = [(user, 5) for user in range(10)]
    paths = Paths.from_frames(points, converted(*buyers), users=users_of(20))
    both = pd.concat([held("ads", *range(10, 20)), held("mail", *range(2, 10), 18, 19)])
    found = found_in(paths, both).set_index("node_id")["caused"]
    assert found.to_dict() == pytest.approx({"ads": 20.0, "mail": 0.0}, abs=1e-9)


@pytest.mark.slow
def test_a_covariate_gives_the_mean_over_its_groups():
    # Tall: 2 of 4 and 0 of 2 convert. Short: 4 of 4 and 3 of 4.
    users = users_of(14, tall=[True] * 6 + [False] * 8)
    buyers = [(user, 5) for user in (0, 1, 6, 7, 8, 9, 10, 11, 12)]
    paths = Paths.from_frames(touches(("u00", "ads", 1)), converted(*buyers), users=users)
    row = row_of(paths, held("ads", 4, 5, 10, 11, 12, 13), covariates=["tall"])
    assert row["caused"] == pytest.approx(6 * 0.5 + 8 * 0.25)
    text = users.assign(tall=np.where(users["tall"], "tall", "short"))
    paths = Paths.from_frames(touches(("u00", "ads", 1)), converted(*buyers), users=text)
    again = found_in(paths, held("ads", 4, 5, 10, 11, 12, 13), covariates=["tall"])
    assert again["caused"][0] == pytest.approx(5.0)
    assert again["error"][0] == pytest.approx(row["error"])


def test_a_covariate_that_is_the_same_for_all_changes_nothing(ten):
    users = users_of(10, here=True)
    points = touches(("u04", "ads", 1))
    paths = Paths.from_frames(points, converted((0, 5), (4, 5), (5, 6), (6, 7)), users=users)
    found = found_in(paths, HELD, covariates=["here"])
    assert found["caused"][0] == pytest.approx(2.5)
    assert found["error"][0] == pytest.approx(found_in(ten, HELD)["error"][0])


@pytest.mark.slow
def test_only_conversions_within_the_window_count(ten):
    within = HELD.assign(since=day(5), until=day(6))
    row = row_of(ten, within)
    # The conversion of day 7 is out: 2 of 6 and 1 of 4. A bound is within.
    assert row["caused"] == pytest.approx(10 * (2 / 6 - 1 / 4))
    assert row["reached"] == 0
    late = HELD.assign(since=day(5.5))
    assert found_in(ten, late)["caused"][0] == pytest.approx(10 * (2 / 6))


def test_participants_define_the_comparison_and_its_windows(ten):
    participants = drawn(*range(8))
    row = row_of(ten, participants)
    assert (row["users"], row["withheld"]) == (8, 4)
    assert row["caused"] == pytest.approx(8 * (3 / 4 - 1 / 4))
    own = participants.assign(until=[day(30)] * 6 + [day(6)] * 2)
    assert found_in(ten, own)["caused"][0] == pytest.approx(8 * (2 / 4 - 1 / 4))


def test_opportunities_leave_out_who_could_not_be_reached_and_what_came_before():
    points = touches(*((f"u{user:02d}", "ads", 2) for user in (4, 5, 6, 7)))
    # User 4 converted before the touchpoint, 8 without one, 3 without an opportunity, 0 before it.
    buyers = converted((4, 1), (5, 3), (6, 3), (8, 3), (3, 3), (0, 1), (1, 3))
    paths = Paths.from_frames(points, buyers, users=users_of(10))
    log = touches(*((f"u{user:02d}", "ads", 2) for user in (0, 1)), ("u01", "ads", 9), ("u09", "mail", 1))
    row = row_of(paths, logged(HELD, log))
    assert (row["users"], row["withheld"], row["reached"]) == (6, 2, 4)
    assert (row["rate"], row["withheld_rate"]) == pytest.approx((2 / 4, 1 / 2))
    assert row["caused"] == pytest.approx(0.0)


def test_a_log_with_the_draws_is_enough():
    # Users 4 to 7 were shown the placement on day 2; user 1 asked twice.
    log = drawn(0, 1, 4, 5, 6, 7, 1).assign(date=[*[day(2)] * 6, day(9)])
    # Users 4 and 0 converted before it, and user 8 had no opportunity.
    paths = Paths.from_frames(
        touches(("u09", "ads", 1)), converted((4, 1), (5, 3), (6, 3), (8, 3), (0, 1), (1, 3))
    )
    row = row_of(paths, log)
    assert (row["users"], row["withheld"]) == (6, 2)
    assert (row["rate"], row["withheld_rate"]) == pytest.approx((2 / 4, 1 / 2))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_participants_with_their_draws_are_enough(ten, library):
    participants = library(
        drawn(*range(8), since=[day(0)] * 8, until=[day(30)] * 6 + [day(6)] * 2).to_dict("list")
    )
    row = row_of(ten, participants)
    assert (row["users"], row["withheld"]) == (8, 4)
    assert row["caused"] == pytest.approx(8 * (2 / 4 - 1 / 4))


def test_participants_with_their_draws_can_have_opportunities_too():
    points = touches(*((f"u{user:02d}", "ads", 2) for user in (4, 5, 6, 7)))
    paths = Paths.from_frames(points, converted((5, 3), (6, 3), (8, 3), (1, 3)))
    log = touches(*((f"u{user:02d}", "ads", 2) for user in (0, 1)))
    row = row_of(paths, logged(drawn(*range(10)), log))
    assert (row["users"], row["withheld"]) == (6, 2)
    assert (row["rate"], row["withheld_rate"]) == pytest.approx((2 / 4, 1 / 2))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("withheld", "message"),
    [
        (drawn(0).iloc[:0], "withheld has no rows"),
        (drawn(4, 5, 6), "withheld from 0 of 3 participants"),
        (drawn(0, 1, 4), "withheld from 2 of 3 participants"),
        (
            drawn(0, 1, 4, 5, 0, flags=[True, True, False, False, False]),
            "withheld: user 'u00' and node 'ads' occur as withheld and as not withheld",
        ),
        (drawn(0, 1, flags=["yes", "no"]), "'withheld' holds string; allowed: true and false"),
        (drawn(0, 1, flags=[1, 2]), "'withheld' holds int64; allowed: true and false"),
        (drawn(0, 1, flags=[True, None]), "'withheld' is missing"),
    ],
)
def test_draws_that_are_missing_or_contradict_are_refused(ten, withheld, message):
    with pytest.raises(InvalidRequest, match=f"^.*{re.escape(message)}"):
        holdout_effects(ten, withheld)


@pytest.mark.large
@pytest.mark.slow
def test_opportunities_make_the_error_smaller_and_leave_the_effect_where_it_is():
    world = simulate("random", users=20_000, seed=5, holdout=0.2)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    plain = found_in(paths, world.withheld)
    narrower = found_in(paths, logged(world.withheld, world.opportunities))
    assert (narrower["error"] < 0.8 * plain["error"]).all()
    assert (np.abs(narrower["caused"] - plain["caused"]) < 3 * plain["error"]).all()


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_an_incomplete_log_of_opportunities_causes_a_warning():
    world = simulate("random", users=10_000, seed=5, holdout=0.3)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    log = world.opportunities[world.opportunities["user_id"] < "u00005000"]
    with pytest.warns(HoldoutWarning, match=r"display \(1.\..% instead of (29|30)\..%\), email"):
        found_in(paths, logged(world.withheld, log))


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_withheld_users_with_touchpoints_stay_withheld_and_cause_a_warning(ten):
    with pytest.warns(HoldoutWarning, match=r"touchpoints of the withheld node: 1 of 4 \(ads\)"):
        row = row_of(ten, held("ads", 0, 1, 2, 5))
    assert (row["withheld"], row["contaminated"], row["reached"]) == (4, 1, 1)
    assert row["caused"] == pytest.approx(10 * (2 / 6 - 2 / 4))


def test_a_touchpoint_outside_the_window_is_no_contamination(ten):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = found_in(ten, held("ads", 0, 1, 2, 5).assign(since=day(3)))
    assert found["contaminated"][0] == 0
    # User 5 is reached on days 1 and 2.
    assert row_of(ten, HELD.assign(since=day(1.5)))["reached"] == 1


def test_each_currency_has_its_row():
    buyers = converted((4, 5), (5, 5), (0, 5)).assign(currency=["EUR", "USD", "USD"], value=[3.0, 5.0, 7.0])
    paths = Paths.from_frames(touches(("u04", "ads", 1)), buyers, users=users_of(10))
    found = found_in(paths, HELD).set_index("currency")
    assert found["caused"].to_dict() == pytest.approx({"EUR": 10 / 6, "USD": 10 * (1 / 6 - 1 / 4)})
    assert found["value"].to_dict() == pytest.approx({"EUR": 30 / 6, "USD": 10 * (5 / 6 - 7 / 4)})


def test_conversions_without_value_have_no_effect_on_value():
    buyers = converted((4, 5), (0, 5)).drop(columns=["value", "currency"])
    paths = Paths.from_frames(touches(("u04", "ads", 1)), buyers, users=users_of(10))
    row = row_of(paths, HELD)
    assert row["caused"] == pytest.approx(10 * (1 / 6 - 1 / 4))
    assert np.isnan(row["value"])
    assert pd.isna(row["currency"])


def test_a_contrast_knows_that_nodes_share_users():
    """The same users saw both: by hand from the influence of each user on the two differences of means."""
    random = np.random.default_rng(3)
    count = 400
    is_held = random.random((2, count)) < 0.5
    bought = np.flatnonzero(random.random(count) < 0.3)
    orders = converted(*((user, 5) for user in bought)).assign(user_id=[f"u{user:03d}" for user in bought])
    users = users_of(count).assign(user_id=[f"u{user:03d}" for user in range(count)])
    paths = Paths.from_frames(touches(("u999", "ads", 1), ("u999", "mail", 1)), orders, users=users)
    frames = [
        pd.DataFrame({"user_id": users["user_id"][held], "node_id": node, "until": day(30)})
        for node, held in zip(("ads", "mail"), is_held, strict=True)
    ]
    effects = holdout_effects(paths, pd.concat(frames))
    # With a window, each node has a regression of its own: a difference of means, given the other holdout.
    outcome = np.isin(np.arange(count), bought).astype(float)
    design = np.stack([np.ones(count), *is_held.astype(float)], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    projected = design @ inverse
    residual = outcome - design @ inverse @ design.T @ outcome
    scores = projected[:, 1:] * (residual / np.sqrt(1 - (projected * design).sum(axis=1)))[:, None]
    error = count * np.sqrt(((scores[:, 0] - scores[:, 1]) ** 2).sum())
    (row,) = effects.contrast("ads", "mail").to_dict("records")
    table = effects.table().set_index("node_id")["caused"]
    assert row["difference"] == pytest.approx(table["ads"] - table["mail"])
    assert row["high"] - row["difference"] == pytest.approx(1.959964 * error, rel=1e-5)


@pytest.mark.large
@pytest.mark.slow
def test_order_and_names_do_not_matter():
    world = simulate("synergy", users=6_000, seed=3, holdout=0.3)
    frames = [world.touchpoints, world.conversions, world.users, world.withheld, world.opportunities]
    renamed = [each.assign(user_id="x" + each["user_id"].str[::-1]) for each in frames]
    renamed = [
        each.assign(node_id=each["node_id"].str[::-1]) if "node_id" in each.columns else each
        for each in renamed
    ]
    shuffled = [each.sample(frac=1, random_state=1) for each in renamed]

    def found(points, buyers, users, withheld, log):
        paths = Paths.from_frames(points, buyers, users=users)
        return found_in(paths, logged(withheld, log), covariates=["trait"])

    first = found(*frames)
    again = found(*shuffled)
    again["node_id"] = again["node_id"].str[::-1]
    again = again.sort_values("node_id", ignore_index=True)
    numbers = first.select_dtypes("number").columns
    pd.testing.assert_frame_equal(first[numbers], again[numbers], rtol=1e-9)


def test_twice_the_users_have_twice_the_effect(ten):
    names = ["u" + str(number).zfill(2) for number in range(20)]
    points = touches(*((f"u{user:02d}", "ads", 1) for user in (4, 5, 14, 15)))
    buyers = converted(*((user + more, 5) for user in (0, 4, 5, 6) for more in (0, 10)))
    paths = Paths.from_frames(points, buyers, users=users_of(20).assign(user_id=names))
    found = found_in(paths, held("ads", 0, 1, 2, 3, 10, 11, 12, 13))
    assert found["caused"][0] == pytest.approx(2 * found_in(ten, HELD)["caused"][0])


def regressed(outcome, before, is_withheld):
    """Difference of means adjusted with a slope of its own for each group, and its HC2 standard error."""
    mean, difference, variance = before.mean(), 0.0, 0.0
    for sign, group in ((1, ~is_withheld), (-1, is_withheld)):
        design = np.stack([np.ones(group.sum()), before[group] - mean], axis=1)
        coefficients, *_ = np.linalg.lstsq(design, outcome[group], rcond=None)
        inverse = np.linalg.inv(design.T @ design)
        residual = outcome[group] - design @ coefficients
        scores = (design @ inverse)[:, 0] * residual / np.sqrt(1 - np.sum(design @ inverse * design, axis=1))
        difference += sign * coefficients[0]
        variance += np.sum(scores**2)
    return difference, np.sqrt(variance)


def two_periods(seed, count=600, loyalty=1.0, has_value=True):
    """Conversions before and after day 10 of users, of whom some convert again and again."""
    random = np.random.default_rng(seed)
    rate = random.gamma(1 / loyalty, loyalty, count) if loyalty else np.ones(count)
    before, after = random.poisson(rate), random.poisson(rate)
    rows = [(user, when) for user in range(count) for when in [5] * before[user] + [15] * after[user]]
    orders = converted(*rows).assign(user_id=[f"u{user:03d}" for user, _ in rows])
    if not has_value:
        orders = orders.drop(columns=["value", "currency"])
    users = users_of(count).assign(user_id=[f"u{user:03d}" for user in range(count)])
    paths = Paths.from_frames(touches(("u000", "ads", 1)), orders, users=users)
    is_withheld = random.random(count) < 0.4
    is_withheld[0] = False
    withheld = pd.DataFrame({"user_id": users["user_id"][is_withheld], "node_id": "ads", "since": day(10)})
    return paths, withheld, before, after, is_withheld


def test_conversions_before_the_experiment_are_a_covariate():
    paths, withheld, before, after, is_withheld = two_periods(1)
    row = row_of(paths, withheld)
    difference, error = regressed(after, before, is_withheld)
    assert (row["caused"], row["error"]) == pytest.approx((600 * difference, 600 * error))
    assert (row["value"], row["value_high"]) == pytest.approx(
        (6_000 * difference, 6_000 * (difference + 1.959964 * error))
    )
    # CUPED (Deng et al. 2013, eq. 5) has one slope for both groups, which differs little.
    theta = np.cov(after, before)[0, 1] / before.var(ddof=1)
    cuped = after - theta * before
    assert difference == pytest.approx(cuped[~is_withheld].mean() - cuped[is_withheld].mean(), abs=error / 10)
    plain = row_of(paths, withheld, cuped=False)
    assert plain["caused"] == pytest.approx(600 * (after[~is_withheld].mean() - after[is_withheld].mean()))
    assert row["error"] < 0.95 * plain["error"]
    # Rates are not adjusted.
    assert (row["rate"], row["withheld_rate"]) == (plain["rate"], plain["withheld_rate"])


@pytest.mark.large
@pytest.mark.slow
def test_earlier_conversions_that_say_nothing_change_no_error_for_the_worse():
    for seed in range(2):
        paths, withheld, *_ = two_periods(seed, loyalty=0.0)
        errors = [found_in(paths, withheld, cuped=each)["error"][0] for each in (True, False)]
        assert errors[0] <= errors[1]
        assert errors[0] == pytest.approx(errors[1], rel=0.02)


def test_conversions_without_value_are_adjusted():
    paths, withheld, before, after, is_withheld = two_periods(1, has_value=False)
    row = row_of(paths, withheld)
    assert row["error"] == pytest.approx(600 * regressed(after, before, is_withheld)[1])


def test_intervals_adjusted_for_earlier_outcomes_cover_as_often_as_they_say():
    random, covered = np.random.default_rng(11), []
    for _ in range(600):
        rate = random.gamma(0.5, 2.0, 400)
        before, after, is_withheld = random.poisson(rate), random.poisson(rate), random.random(400) < 0.3
        found = contrast(
            after[:, None] * 1.0,
            is_withheld[None],
            np.zeros((400, 0)),
            nodes=[0],
            node_ids=["ads"],
            prior=before[:, None] * 1.0,
        )
        covered.append(abs(found.difference[0, 0]) < 1.959964 * found.error[0, 0])
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)


def test_intervals_cover_as_often_as_they_say():
    """Two holdouts, a covariate that matters and acts differently on either side, three hundred draws."""
    random = np.random.default_rng(1)
    count, covered = 1_500, []
    for _ in range(300):
        trait = random.random(count) < 0.4
        withheld = random.random((2, count)) < np.array([[0.2], [0.3]])
        chance = 0.1 + 0.3 * trait + ~withheld[0] * (0.05 + 0.1 * trait) - 0.04 * ~withheld[1]
        outcome = (random.random(count) < chance).astype(float)[:, None]
        found = contrast(outcome, withheld, trait[:, None].astype(float), nodes=[0, 1], node_ids=["a", "b"])
        # The effects among the users who were drawn.
        truth = np.array([0.05 + 0.1 * trait.mean(), -0.04])
        covered.append(np.abs(found.difference[:, 0] - truth) < 1.96 * found.error[:, 0])
    assert 0.92 <= np.mean(covered) <= 0.98


def test_withheld_users_without_conversions_by_chance_are_no_evidence():
    """A hundred withheld users have three expected conversions, and there is no effect."""
    random = np.random.default_rng(2)
    found = []
    for _ in range(300):
        withheld = np.arange(2_000) < 100
        outcome = (random.random((2_000, 1)) < 0.03).astype(float)
        each = contrast(outcome, withheld[None], np.zeros((2_000, 0)), nodes=[0], node_ids=["a"])
        found.append(abs(each.difference[0, 0]) > 1.96 * each.error[0, 0])
    assert np.mean(found) <= 0.06


@pytest.mark.large
@pytest.mark.slow
def test_intervals_cover_what_channels_cause():
    covered = []
    for seed in range(6):
        world = simulate("random", users=25_000, seed=seed, holdout=0.2)
        paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
        truth = world.truth().set_index("node_id")["removal"]
        for withheld in (world.withheld, logged(world.withheld, world.opportunities)):
            found = holdout_effects(paths, withheld).table().set_index("node_id")
            expected = truth.reindex(found.index)
            covered.append((found["low"] <= expected) & (expected <= found["high"]))
    assert np.mean(covered) >= 0.9


@pytest.mark.few(6)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"withheld": HELD.iloc[:0]}, "withheld has no rows; allowed"),
        ({"withheld": held("ads", 0)}, "withheld from 1 of 10 participants"),
        ({"withheld": held("ads", *range(10))}, "withheld from 10 of 10 participants"),
        ({"withheld": held("adds", 0, 1)}, "did you mean 'ads'"),
        ({"withheld": held("ads", 0, 1, 77)}, "1 row of users who did not take part, such as 'u77'"),
        ({"withheld": HELD.drop(columns="node_id")}, "withheld: there is no column 'node_id'"),
        (
            {"withheld": pd.concat([HELD, held("mail", 0, 1, 2, 3)])},
            "'ads' was withheld from the same users as 'mail'",
        ),
        (
            {"withheld": HELD.assign(since=[day(each) for each in range(4)])},
            "'since' differs between the users of node 'ads'",
        ),
        (
            {"withheld": pd.concat([HELD.assign(since=day(1)), HELD.assign(since=day(2))])},
            "user 'u00' and node 'ads' occur with different since or until",
        ),
        (
            {"withheld": HELD.assign(since=day(40))},
            "withheld: no conversion of a participant counts for node 'ads'",
        ),
        (
            {"withheld": HELD.assign(since=day(9), until=day(2))},
            "withheld: since is after until, for example for user 'u00' and node 'ads'",
        ),
        (
            {"withheld": HELD.assign(date=pd.NaT)},
            "withheld: no withheld user of node 'ads' has an opportunity",
        ),
        ({"covariates": ["small"]}, "covariates: 'small' is not allowed"),
        ({"covariates": ["until"]}, "covariates: 'until' is not allowed"),
        ({"covariates": "tall"}, r"allowed: a list of columns, as in \['tall'\]"),
    ],
)
def test_invalid_arguments_are_refused(ten, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        found_in(ten, **{"withheld": HELD} | arguments)


def test_participants_are_required_without_users():
    paths = Paths.from_frames(touches(("u04", "ads", 1)), converted((4, 5)))
    with pytest.raises(
        InvalidRequest, match="withheld: the paths have no users, so the participants are unknown"
    ):
        found_in(paths, HELD)
    found = found_in(paths, drawn(*range(10)))
    assert found["caused"][0] == pytest.approx(10 / 6)


def test_aggregated_paths_have_no_users():
    sequences = pd.DataFrame({"path": ["ads"], "n": [3]})
    with pytest.raises(InvalidRequest, match="an experiment needs users"):
        found_in(Paths.from_sequences(sequences, path="path", conversions="n"), HELD)


def test_a_currency_without_conversions_that_count_has_no_effect_and_no_error():
    buyers = converted((0, 5), (4, 5), (5, 6), (6, 20)).assign(currency=["EUR", "EUR", "EUR", "USD"])
    paths = Paths.from_frames(touches(("u04", "ads", 1)), buyers, users=users_of(10))
    found = found_in(paths, HELD.assign(until=day(10))).set_index("currency")
    assert found.loc["EUR", "caused"] == pytest.approx(10 * (2 / 6 - 1 / 4))
    assert found.loc["USD", ["caused", "error", "low", "high", "value", "value_low"]].isna().all()


def test_covariates_that_are_no_categories_are_refused():
    users = users_of(120, name=[f"n{number}" for number in range(120)], joined=day(0))
    paths = Paths.from_frames(touches(("u04", "ads", 1)), converted((4, 5)), users=users)
    with pytest.raises(InvalidRequest, match="covariates: the covariate 'name' has 120 different values"):
        found_in(paths, HELD, covariates=["name"])
    with pytest.raises(InvalidRequest, match="covariates: the covariate 'joined' is of the type timestamp"):
        found_in(paths, HELD, covariates=["joined"])


def test_missing_values_of_a_covariate_are_refused():
    users = users_of(10, tall=[1.0] * 9 + [None])
    paths = Paths.from_frames(touches(("u04", "ads", 1)), converted((4, 5)), users=users)
    with pytest.raises(InvalidRequest, match="'tall' is missing for 1 users"):
        found_in(paths, HELD, covariates=["tall"])


def test_groups_in_which_all_or_none_convert():
    """Twelve withheld of thirty: one user more with a conversion and one more without (Agresti and Caffo)."""
    for buyers, caused, shares in (
        (range(30), 0.0, (13 / 14, 19 / 20)),
        (range(12, 30), 30.0, (1 / 14, 19 / 20)),
        (range(12), -30.0, (13 / 14, 1 / 20)),
    ):
        paths = Paths.from_frames(
            touches(("u20", "ads", 1)), converted(*((user, 5) for user in buyers)), users=users_of(30)
        )
        row = row_of(paths, held("ads", *range(12)))
        assert row["caused"] == pytest.approx(caused, abs=1e-12)
        variance = sum(share * (1 - share) / count for share, count in zip(shares, (14, 20), strict=True))
        assert row["error"] == pytest.approx(30 * np.sqrt(variance))


def test_a_covariate_that_is_the_outcome_is_refused():
    bought = [user % 3 == 0 for user in range(60)]
    buyers = [(user, 5) for user in range(60) if bought[user]]
    paths = Paths.from_frames(
        touches(("u20", "ads", 1)), converted(*buyers), users=users_of(60, bought=bought)
    )
    with pytest.raises(InvalidRequest, match="covariates: one of them shows exactly who converted"):
        holdout_effects(paths, held("ads", *range(20)), covariates=["bought"])


def by_store(*rates, users=10):
    """Users by store, of whom a number convert: paths and the stores."""
    count = len(rates) * users
    stores = [f"s{number}" for number in np.repeat(np.arange(len(rates)), users)]
    buyers = [(store * users + place, 5) for store, rate in enumerate(rates) for place in range(rate)]
    return Paths.from_frames(
        touches((f"u{count - 1:02d}", "ads", 1)), converted(*buyers), users=users_of(count, store=stores)
    )


def test_stores_drawn_as_a_whole_are_compared_by_their_means():
    """Three stores withheld, four not, ten users each: the t test of two samples of stores' means."""
    paths = by_store(1, 2, 3, 4, 6, 5, 9)
    effects = holdout_effects(paths, held("ads", *range(30)), cluster="store")
    (row,) = effects.table().to_dict("records")
    # Means of 0.6 and 0.2; sample variances of the stores' means: 14/3 and 1, by 100.
    assert row["caused"] == pytest.approx(70 * 0.4)
    error = 70 * np.sqrt(0.14 / 3 / 4 + 0.01 / 3)
    # Equal variances are assumed for the degrees of freedom only (Bell and McCaffrey).
    degrees = (1 / 3 + 1 / 4) ** 2 / (1 / (9 * 2) + 1 / (16 * 3))
    assert row["high"] - row["caused"] == pytest.approx(student.ppf(0.975, degrees) * error)
    assert row["caused"] - row["low"] == pytest.approx(row["high"] - row["caused"])
    assert effects.identified.startswith("caused: the total effect")
    assert "drawn by store" in effects.identified


def test_clusters_of_one_user_are_the_users(ten):
    names = np.random.default_rng(3).permutation(10)
    alone = Paths.from_frames(
        ten.touchpoints.to_pyarrow().to_pandas(),
        converted((0, 5), (4, 5), (5, 6), (6, 7)),
        users=users_of(10, tall=[True, False] * 5, home=names),
    )
    by_home = holdout_effects(alone, HELD, cluster="home", covariates=["tall"])
    singly = holdout_effects(alone, HELD, covariates=["tall"])
    assert by_home.caused == pytest.approx(singly.caused)
    assert by_home.error == pytest.approx(singly.error)


def test_stores_need_another_method_than_single_users():
    paths = by_store(1, 2, 3, 4, 6, 5, 9)
    message = r"cluster: node 'ads' was withheld from all users of 3 of 7 values of 'store'.*cluster='store'"
    with pytest.raises(InvalidRequest, match=message):
        holdout_effects(paths, held("ads", *range(30)))
    singly = holdout_effects(paths, held("ads", *range(30)), cluster="user_id")
    assert singly.error.max() < holdout_effects(paths, held("ads", *range(30)), cluster="store").error.max()
    # One user more or less, and the stores were not drawn as a whole.
    assert len(holdout_effects(paths, held("ads", *range(29))).table()) == 1


@pytest.mark.parametrize(
    ("options", "users", "message"),
    [
        ({"cluster": "shop"}, range(30), "cluster: 'shop' is not allowed; allowed: store, user_id"),
        (
            {"cluster": "store"},
            range(10),
            "withheld from 1 of 7 clusters; allowed: at least 2 withheld and 2",
        ),
    ],
)
def test_refused_clusters(options, users, message):
    with pytest.raises(InvalidRequest, match=message):
        holdout_effects(by_store(1, 2, 3, 4, 6, 5, 9), held("ads", *users), **options)


@pytest.mark.large
@pytest.mark.slow
def test_intervals_of_clusters_without_an_effect_hold_zero_as_often_as_they_say():
    """Stores differ: of 5 of 16 stores, intervals at 90 % exclude zero in one of ten currencies."""
    random, excludes, singly = np.random.default_rng(4), [], []
    for _ in range(20):
        bought, currencies = [], []
        for currency in ("CHF", "EUR", "GBP", "SEK", "USD"):
            numbers = random.binomial(30, random.beta(2, 5, 16))
            bought += [(store * 30 + user, 5) for store in range(16) for user in range(numbers[store])]
            currencies += [currency] * numbers.sum()
        names = [f"u{number:02d}" for number in range(480)]
        users = pd.DataFrame({"user_id": names, "since": day(0), "until": day(30)})
        users["store"] = np.repeat(np.arange(16), 30)
        conversions = converted(*bought).assign(currency=currencies)
        paths = Paths.from_frames(touches(("u00", "ads", 1)), conversions, users=users)
        withheld = users[users["store"].isin(random.choice(16, 5, replace=False))][["user_id"]].assign(
            node_id="ads"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldoutWarning)
            for cluster, found in (("store", excludes), ("user_id", singly)):
                rows = holdout_effects(paths, withheld, cluster=cluster).table(0.9)
                found += ((rows["low"] > 0) | (rows["high"] < 0)).tolist()
    assert len(excludes) == 100
    # With a hundred intervals, 3 to 17 of 100 are within chance at one of ten.
    assert 0.03 <= np.mean(excludes) <= 0.17
    assert np.mean(singly) > 0.3


def test_values_whose_squares_have_no_sum_are_refused():
    with pytest.raises(InvalidRequest, match=r"value.* is beyond 1e\+100 in size"):
        Paths.from_frames(touches(("u01", "ads", 1)), converted((1, 5), value=1e101), users=users_of(4))
    row = holdout_effects(
        Paths.from_frames(touches(("u01", "ads", 1)), converted((1, 5), value=1e100), users=users_of(4)),
        held("ads", 2, 3),
    ).table().iloc[0]  # fmt: skip
    assert row["value"] == pytest.approx(2e100)
    assert np.isfinite([row["value_low"], row["value_high"]]).all()
