"""Intervals by closed forms and by a bootstrap, against independent computations."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, gamma
from support.law_examples import examples

from attrib_ds import Paths, attribute, simulate
from attrib_ds.attribution.credits.path_credits import credit
from attrib_ds.attribution.intervals import Uncertainty, poisson_weights, random_bits
from attrib_ds.attribution.models.named import model_named
from attrib_ds.attribution.models.path_models import Fractribution, Markov
from attrib_ds.attribution.models.rules import Linear
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.attribution.rules import ReplicatedCredits
from attrib_ds.errors import InvalidRequest

START = datetime(2025, 1, 1, tzinfo=UTC)
Z = 1.959963984540054
RULES = ["linear", "last_touch", "participation"]
BY_PATH = ["markov", "markov_2", "conversion_rate_shapley", "fractribution"]

users = st.sampled_from(["u", "v", "w", "x"])
touches = st.lists(
    st.tuples(
        users, st.sampled_from(["a", "b", "c"]), st.integers(0, 20).map(lambda day: START + timedelta(day))
    ),
    max_size=12,
)
conversions = st.lists(
    st.tuples(users, st.integers(0, 24).map(lambda day: START + timedelta(day)), st.integers(-9, 50)),
    max_size=5,
).map(lambda rows: [(f"e{index}", *row) for index, row in enumerate(rows)])
few = settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def paths_of(touched, converted):
    touchpoints = pd.DataFrame(touched, columns=["user_id", "node_id", "date"])
    events = pd.DataFrame(converted, columns=["event_id", "user_id", "date", "value"])
    for frame in (touchpoints, events):
        frame["date"] = pd.to_datetime(frame["date"], utc=True)
    return Paths.from_frames(touchpoints, events)


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=3_000, seed=5)


@pytest.fixture(scope="module")
def paths(world):
    return Paths.from_frames(world.touchpoints, world.conversions)


def replicated(paths, name, replicates, seed=0):
    """Conversions of each node and unattributed ones, in replicates and of all users."""
    model = model_named(name)
    if name in BY_PATH:
        sequences = Sequences.of(paths, bootstrap=Uncertainty(0.95, replicates, seed))
        tally = credit(model, sequences)
        return tally.replicates[:, 0].sum(axis=2), tally.conversions.sum(axis=1)
    found = ReplicatedCredits.of(paths, [model], range(replicates), seed)
    return found.of_model(0)[:, 0], found.whole(0)["conversions"].to_numpy()


class TestClosedForm:
    def test_shares_and_values_by_hand(self):
        # u: 2 conversions worth 10 and 20 by a alone; v: one worth 5, half a, half b; w: one unattributed, worth 1.
        day = START + timedelta(5)
        touched = [("u", "a", START), ("v", "a", START), ("v", "b", START + timedelta(1))]
        converted = [("e", "u", day, 10), ("f", "u", day, 20), ("g", "v", day, 5), ("h", "w", day, 1)]
        credits = attribute(paths_of(touched, converted), "linear", confidence=0.95).set_index("node_id")
        a = credits.loc["a"]
        assert (a["conversions"], a["value"], a["share"]) == pytest.approx((2.5, 32.5, 0.625))
        # The gamma variable with this mean and variance, and for the upper bound with variance / mean more.
        mean, variance = 32.5, 30**2 + 2.5**2
        assert a["value_low"] == pytest.approx(gamma.ppf(0.025, mean**2 / variance, scale=variance / mean))
        upper = gamma.ppf(0.975, mean**2 / variance + 1, scale=variance / mean)
        assert a["value_high"] == pytest.approx(upper)
        # 2 ** 2 + 0.5 ** 2 of 2.5 conversions.
        mean, variance = 2.5, 4.25
        assert a["low"] == pytest.approx(gamma.ppf(0.025, mean**2 / variance, scale=variance / mean))
        upper = gamma.ppf(0.975, mean**2 / variance + 1, scale=variance / mean)
        assert a["high"] == pytest.approx(upper)
        # For each user, the credit of a minus 0.625 times all credit: 0.75, -0.125, -0.625. The users who
        # have one conversion each would give the share this variance; all credits together, whose squares
        # are 4.25, 0.25 and 1, are less than that.
        users, usual = 0.625 * 0.375 / ((0.75**2 + 0.125**2 + 0.625**2) / 16), 4**2 / 5.5
        mean = 0.625 + 0.375 / (usual + 1)
        spread = mean * (1 - mean) / (users + 2) + (0.375 / (usual + 1)) ** 2 - (0.375 / (users + 1)) ** 2
        total = mean * (1 - mean) / spread - 1
        assert a["share_high"] == pytest.approx(beta.ppf(0.975, mean * total, (1 - mean) * total))

    def test_few_conversions_have_the_exact_bounds_of_a_poisson_number(self):
        # Four conversions by a, none by b: 1.0899 to 10.2416 and 0 to 3.6889, by published tables.
        touched = [(user, node, START + timedelta(day)) for user in "uvwx" for day, node in enumerate("ab")]
        paths = paths_of(touched, [(f"e{user}", user, START + timedelta(9), 10) for user in "uvwx"])
        credits = attribute(paths, "first_touch", confidence=0.95).set_index("node_id")
        a, b = credits.loc["a"], credits.loc["b"]
        assert (a["low"], a["high"]) == pytest.approx((1.0899, 10.2416), abs=1e-4)
        assert (b["low"], b["high"], b["conversions"]) == pytest.approx((0, 3.6889, 0), abs=1e-4)
        assert (b["value_low"], b["value_high"]) == pytest.approx((0, 36.889), abs=1e-3)
        # None of four: up to 0.6024, by published tables of exact binomial intervals.
        assert (b["share_low"], b["share_high"]) == pytest.approx((0, 0.6024), abs=1e-4)

    def test_equal_values_have_the_exact_bounds_of_a_poisson_number(self):
        # Four conversions: 1.0899 to 10.2416 of them, by published tables.
        converted = [(f"e{user}", user, START, 10) for user in "uvwx"]
        paths = paths_of([(user, "a", START) for user in "uvwx"], converted)
        row = attribute(paths, "linear", confidence=0.95).iloc[0]
        assert (row["value_low"], row["value_high"]) == pytest.approx((10.899, 102.416), abs=1e-3)

    @pytest.mark.slow
    def test_a_value_of_zero_has_zero_bounds(self):
        row = attribute(
            paths_of([("u", "a", START)], [("e", "u", START, 0)]), "linear", confidence=0.95
        ).iloc[0]
        assert (row["value_low"], row["value"], row["value_high"]) == (0, 0, 0)

    def test_values_that_may_be_negative_have_bounds_below_zero(self):
        converted = [("e", "u", START, 10), ("f", "v", START, -8)]
        paths = paths_of([("u", "a", START), ("v", "a", START)], converted)
        row = attribute(paths, "linear", confidence=0.95).iloc[0]
        assert row["value_low"] == pytest.approx(2 - Z * 164**0.5)

    def test_a_share_of_everything_is_certain(self):
        paths = paths_of([("u", "a", START)], [("e", "u", START, 10)])
        row = attribute(paths, "linear", confidence=0.95).iloc[0]
        assert (row["share_low"], row["share_high"]) == pytest.approx((1.0, 1.0))

    @pytest.mark.slow
    def test_a_jackknife_of_additive_credits_is_close_to_their_variance(self, paths):
        # Credit of paths of one touchpoint is a sum over users under Fractribution too.
        one = Fractribution(steps=1)
        both = attribute(paths, {"last": "last_touch", "one": one}, confidence=0.95).set_index(
            ["model", "node_id"]
        )
        for low, high in (("low", "high"), ("value_low", "value_high"), ("share_low", "share_high")):
            reach = (both[high] - both[low]).unstack("model").sum()
            assert 0.7 < reach["one"] / reach["last"] * Z / 2.093 < 1.35


class TestBootstrap:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", [*RULES, *BY_PATH])
    def test_replicates_are_credits_of_resampled_users(self, name):
        # Repeating each user as often as the weight, as different users, gives the same credits.
        random = np.random.default_rng(4)
        touched = [
            (f"u{user}", "abc"[random.integers(3)], START + timedelta(int(day)))
            for user in range(40)
            for day in range(random.integers(1, 4))
        ]
        converted = [(f"e{user}", f"u{user}", START + timedelta(9), float(user)) for user in range(0, 40, 3)]
        paths = paths_of(touched, converted)
        found, _ = replicated(paths, name, 3, seed=2)
        counts = Sequences.of(paths, bootstrap=Uncertainty(0.95, 3, 2))
        ids = paths.touchpoints.select("user_id").distinct()
        keys = ids.mutate(key=counts.fold(ids.user_id)).to_pyarrow().to_pandas()
        bits = random_bits(keys["key"].to_numpy().astype(np.uint64), seed=2, replicates=range(3))
        weights = pd.DataFrame(poisson_weights(bits), index=keys["user_id"])
        for replicate in range(3):
            times = weights[replicate].to_dict()
            again = [(f"{u}.{n}", *rest) for u, *rest in touched for n in range(times[u])]
            events = [(f"{e}.{n}", f"{u}.{n}", *rest) for e, u, *rest in converted for n in range(times[u])]
            expected = attribute(paths_of(again, events), name)["conversions"].sort_values().to_numpy()
            mine = np.sort(found[replicate])
            np.testing.assert_allclose(mine[np.abs(mine) > 1e-9], expected, atol=1e-9)

    @pytest.mark.slow
    @few
    @given(touches, conversions, st.integers(0, 3))
    @example([], [], 0)
    @example([], [("e0", "u", START, 1)], 0)
    @example([("u", "a", START)], [("e0", "u", START, 0), ("e1", "u", START, 0)], 1)
    @example([("u", "a", START), ("v", "a", START)], [("e0", "u", START, -5)], 2)
    def test_every_replicate_conserves_the_conversions(self, touched, converted, seed):
        paths = paths_of(touched, converted)
        totals = {name: replicated(paths, name, 4, seed) for name in ["linear", "last_touch", *BY_PATH]}
        expected = totals["last_touch"][0].sum(axis=1)
        # Conversions of users who count a whole number of times.
        np.testing.assert_allclose(expected, expected.round(), atol=1e-9)
        for found, whole in totals.values():
            np.testing.assert_allclose(found.sum(axis=1), expected, atol=1e-9)
            assert whole.sum() == pytest.approx(len(converted), abs=1e-9)

    @pytest.mark.parametrize("name", ["linear", "participation", "markov", *BY_PATH[2:]])
    def test_the_mean_of_replicates_is_near_the_credit(self, paths, name):
        if name in BY_PATH[2:]:
            # Rates of rare sets and paths are biased in replicates, as they are in samples; these paths are frequent.
            rows = {"path": ["a > b", "b", "a"], "n": [400, 60, 90], "lost": [900, 700, 800]}
            paths = Paths.from_sequences(pd.DataFrame(rows), path="path", conversions="n", nulls="lost")
        found, whole = replicated(paths, name, 200)
        error = found.std(axis=0) / np.sqrt(len(found))
        # Four: there are nine nodes, and five models.
        assert (np.abs(found.mean(axis=0) - whole) <= 4 * error + 1e-9).all()

    @pytest.mark.slow
    def test_a_bootstrap_and_the_closed_form_agree(self, paths):
        models = ["linear", "participation", "markov"]
        found = {
            kind: attribute(paths, models, confidence=0.9, intervals=kind, replicates=400).set_index(
                ["model", "node_id"]
            )
            for kind in ("closed_form", "bootstrap")
        }
        for low, high in (("low", "high"), ("value_low", "value_high"), ("share_low", "share_high")):
            widths = {kind: (each[high] - each[low]).groupby("model").mean() for kind, each in found.items()}
            ratio = widths["bootstrap"] / widths["closed_form"]
            assert ratio[["linear", "participation"]].between(0.85, 1.15).all()
            assert 0.65 < ratio["markov"] < 1.4

    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_bytes_and_order_of_rows_changes_nothing(self, world):
        def credits(frame, seed):
            return attribute(
                Paths.from_frames(frame, world.conversions),
                ["linear", "markov"],
                confidence=0.9,
                intervals="bootstrap",
                replicates=30,
                seed=seed,
            )

        shuffled = world.touchpoints.sample(frac=1.0, random_state=1)
        first, again, turned, other = (
            credits(world.touchpoints, 1),
            credits(world.touchpoints, 1),
            credits(shuffled, 1),
            credits(world.touchpoints, 2),
        )
        for each in (again, turned):
            pd.testing.assert_frame_equal(each.round(9), first.round(9), check_exact=True)
        assert (other["low"] != first["low"]).mean() > 0.9
        pd.testing.assert_series_equal(other["conversions"], first["conversions"])

    @pytest.mark.slow
    def test_duplicating_all_users_narrows_shares_by_the_root_of_two(self, world):
        twins = [
            frame.assign(user_id=frame["user_id"] + "'", **extra)
            for frame, extra in (
                (world.touchpoints, {}),
                (world.conversions, {"event_id": world.conversions["event_id"] + "'"}),
            )
        ]
        both = [
            pd.concat(pair, ignore_index=True)
            for pair in zip((world.touchpoints, world.conversions), twins, strict=True)
        ]
        models = ["linear", "markov", "conversion_rate_shapley", "fractribution"]
        once, twice = (
            attribute(Paths.from_frames(*frames), models, confidence=0.95).set_index(["model", "node_id"])
            for frames in ((world.touchpoints, world.conversions), both)
        )
        twice = twice.reindex(once.index)
        pd.testing.assert_series_equal(twice["conversions"], 2 * once["conversions"], rtol=1e-9)
        pd.testing.assert_series_equal(twice["share"], once["share"], rtol=1e-9)
        width = [(each["share_high"] - each["share_low"]).loc["linear"] for each in (once, twice)]
        # The additional user of upper bounds has less weight among twice as many users.
        assert (width[0] / width[1]).between(2**0.5, 1.08 * 2**0.5).all()

    @pytest.mark.slow
    def test_aggregated_paths_have_intervals_of_every_model(self):
        sequences = pd.DataFrame(
            {"path": ["a > b", "b", "a"], "n": [400, 30, 10], "lost": [900, 100, 1000], "v": [4e3, 20, 30]}
        )
        paths = Paths.from_sequences(sequences, path="path", conversions="n", nulls="lost", value="v")
        models = ["linear", "markov", "conversion_rate_shapley", "fractribution"]
        credits = attribute(paths, models, confidence=0.95, intervals="bootstrap", replicates=400)
        assert (
            credits[["low", "high", "value_low", "value_high", "share_low", "share_high"]]
            .notna()
            .all(axis=None)
        )
        a = credits[(credits["model"] == "linear") & (credits["node_id"] == "a")].iloc[0]
        # Poisson numbers of 400 halves and 10 wholes: variance 110.
        assert (a["high"] - a["low"]) / 2 == pytest.approx(Z * 110**0.5, rel=0.15)
        assert a["low"] < 210 < a["high"]


class TestLimits:
    @pytest.mark.slow
    @pytest.mark.parametrize("intervals", ["closed_form", "bootstrap"])
    def test_bounds_of_non_negative_credits_are_non_negative(self, intervals):
        world = simulate("random", users=900, seed=8)
        paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
        models = [
            "linear",
            "first_touch",
            "time_decay",
            "participation",
            "markov",
            Markov(order=3),
            "fractribution",
        ]
        credits = attribute(paths, models, confidence=0.95, intervals=intervals, replicates=40)
        for name, low, high in (
            ("conversions", "low", "high"),
            ("value", "value_low", "value_high"),
            ("share", "share_low", "share_high"),
        ):
            assert (credits[low] >= 0).all()
            assert (credits[low] <= credits[name] + 1e-9).all()
            assert (credits[name] <= credits[high] + 1e-9).all()
            # Few conversions: no bound is exactly the estimate.
            assert (credits[low] < credits[high]).all()
        assert (credits["share_high"] <= 1).all()
        # The exact upper bound of all conversions.
        assert (credits["high"] < 2 * len(world.conversions)).all()

    def test_a_bootstrap_of_few_conversions_is_near_the_exact_bounds(self):
        # Eight conversions of a: 3.45 to 15.76 by published tables; replicates estimate the variance to 5 %.
        rows = pd.DataFrame({"path": ["a", "b"], "n": [8, 100], "v": [80.0, 1000.0]})
        paths = Paths.from_sequences(rows, path="path", conversions="n", value="v")
        credits = attribute(paths, "linear", confidence=0.95, intervals="bootstrap", replicates=400)
        a = credits.set_index("node_id").loc["a"]
        assert (a["low"], a["high"]) == pytest.approx((3.45, 15.76), rel=0.12)
        assert (a["value_low"], a["value_high"]) == pytest.approx((34.5, 157.6), rel=0.12)
        # 8 of 108: 0.0325 to 0.1407, Clopper and Pearson.
        assert (a["share_low"], a["share_high"]) == pytest.approx((0.0325, 0.1407), rel=0.12)

    @pytest.mark.slow
    @pytest.mark.parametrize("model", ["linear", "markov", "fractribution"])
    def test_a_bootstrap_of_values_of_both_signs_goes_below_zero(self, model):
        touched = [(f"u{number}", "ab"[number % 2], START) for number in range(40)]
        converted = [(f"e{number}", f"u{number}", START, (-1) ** (number // 2) * 10) for number in range(20)]
        paths = paths_of(touched, converted)
        credits = attribute(paths, model, confidence=0.95, intervals="bootstrap", replicates=99)
        rows = credits[credits["conversions"] > 0]
        assert (rows["value_low"] < 0).all()
        if model == "linear":
            found = ReplicatedCredits.of(paths, [model_named(model)], range(99), 0)
            # The 2.5th and 97.5th of the 100 intervals between 99 replicates.
            percentiles = np.quantile(found.of_model(0)[:, 1], [0.025, 0.975], axis=0, method="weibull")
            by_node = rows.set_index("node_id").loc[[node for node, _ in found.cells]]
            np.testing.assert_allclose(by_node[["value_low", "value_high"]].to_numpy().T, percentiles)
        assert (rows["low"] > 0).all()
        jackknife = attribute(paths, model, confidence=0.95)
        assert (jackknife["value_low"][jackknife["conversions"] > 0] < 0).all()


class TestArguments:
    @pytest.mark.parametrize(
        "given_arguments",
        [
            {"intervals": "exact"},
            {"replicates": 1},
            {"replicates": 2.5},
            {"seed": -1},
        ],
    )
    def test_invalid_arguments_are_refused(self, paths, given_arguments):
        (argument,) = given_arguments
        with pytest.raises(InvalidRequest, match=argument):
            attribute(paths, Linear(), confidence=0.9, **given_arguments)

    def test_models_of_many_steps_have_no_bootstrap(self, paths):
        with pytest.raises(InvalidRequest, match=r"intervals: discrete_hazard .* 'closed_form'"):
            attribute(paths, ["linear", "discrete_hazard"], confidence=0.9, intervals="bootstrap")

    def test_results_say_how_they_were_made(self, paths):
        credits = attribute(paths, "linear", confidence=0.9, intervals="bootstrap", replicates=9, seed=4)
        told = {name: credits.attrs[name] for name in ("confidence", "intervals", "replicates", "seed")}
        assert told == {"confidence": "0.9", "intervals": "bootstrap", "replicates": "9", "seed": "4"}
