"""Intervals by closed forms and by a bootstrap, against independent computations."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chisquare, gamma, poisson
from support.law_examples import examples

from attrib_ds import Paths, attribute, simulate
from attrib_ds.attribution.credits.path_credits import credit
from attrib_ds.attribution.intervals import Bounds, Uncertainty, Units, poisson_weights, random_bits
from attrib_ds.attribution.models import Fractribution, Linear, Markov, model_named
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
few = settings(max_examples=examples(12))


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
    @pytest.mark.large
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

    @pytest.mark.large
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

    @pytest.mark.slow
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

    @pytest.mark.large
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

    @pytest.mark.large
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

    @pytest.mark.large
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
    @pytest.mark.large
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


# Bounds of sums, shares and signed effects, against published tables, exact distributions and simulation.

Z_BOUNDS = 1.959963984540054
#: Of Student's distribution with 19 degrees of freedom.
T = 2.093024054408263
FORM = Bounds(0.95)


def one(method, *numbers, **more):
    arrays = [np.array([each], dtype=float) for each in numbers]
    low, high = method(*arrays, **{name: np.array([each], float) for name, each in more.items()})
    return float(low[0]), float(high[0])


def share(*numbers, users, form=FORM):
    low, high = form.of_share(*(np.array([each], float) for each in numbers), users=users)
    return float(low[0]), float(high[0])


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Exact limits of a Poisson number at 95 %: Garwood (1936), as reprinted in tables of epidemiology.
    [
        (0, 0, 3.6889),
        (1, 0.02532, 5.57164),
        (4, 1.0899, 10.2416),
        (8, 3.4538, 15.7632),
        (50, 37.1110, 65.9188),
    ],
)
@pytest.mark.parametrize("part", [1.0, 0.25, 30.0])
def test_sums_of_equal_parts_have_exact_poisson_bounds(count, low, high, part):
    found = one(FORM.of_sum, count * part, count * part**2, weight=part)
    assert found == pytest.approx((low * part, high * part), rel=1e-4, abs=1e-4)


def test_sums_of_many_parts_have_normal_bounds():
    assert one(FORM.of_sum, 1e6, 5e5, weight=0.5) == pytest.approx(
        (1e6 - Z_BOUNDS * 5e5**0.5, 1e6 + Z_BOUNDS * 5e5**0.5), abs=2.0
    )
    assert one(FORM.around, 3.0, 4.0) == pytest.approx((3 - 2 * Z_BOUNDS, 3 + 2 * Z_BOUNDS))


@pytest.mark.parametrize("parts", [(1.0, 0.5, 1 / 3, 0.25, 0.1), (1.0, 0.01), (5.0, 1.0, 0.2)])
@pytest.mark.parametrize("users", [2, 5, 10, 30, 100])
def test_bounds_of_sums_of_few_unequal_parts_cover(parts, users):
    weights = np.array(parts)
    chance = 1 / np.arange(1, len(parts) + 1)[::-1]
    chance /= chance.sum()
    counts = np.random.default_rng(users).poisson(chance * users, (20_000, len(parts)))
    truth = users * chance @ weights
    usual = np.full(len(counts), chance @ weights**2 / (chance @ weights))
    low, high = FORM.of_sum(counts @ weights, counts @ weights**2, weight=usual)
    assert (truth < low).mean() < 0.03
    assert (truth > high).mean() < 0.06
    assert ((low <= truth) & (truth <= high)).mean() > 0.925


def test_a_variance_larger_than_any_sum_has_is_noise():
    # 0.1 conversions with a standard deviation of 1: both 0 and 2 are inside the interval.
    low, high = one(FORM.of_sum, 0.1, 1.0, weight=0.2)
    assert low == 0
    assert high == pytest.approx(0.1 + Z_BOUNDS)


def test_zero_variances_are_certain_and_missing_ones_stay_missing():
    assert one(FORM.of_sum, 7.0, 0.0, weight=1.0) == (7.0, 7.0)
    assert one(FORM.of_sum, 0.0, 0.0, weight=0.0) == (0.0, 0.0)
    assert np.isnan(one(FORM.of_sum, np.nan, np.nan, weight=1.0)).all()
    assert share(1.0, 0.0, users=4) == (1.0, 1.0)
    assert share(0.5, 0.0, users=4) == (0.5, 0.5)


@pytest.mark.parametrize(("has", "users"), [(0, 10), (1, 10), (5, 10), (3, 200), (199, 200)])
def test_shares_of_equal_users_have_clopper_pearson_bounds(has, users):
    part = has / users
    low, high = share(part, part * (1 - part) / users, users=users)
    assert high == pytest.approx(beta.ppf(0.975, has + 1, users - has))
    assert low == pytest.approx(beta.ppf(0.025, has, users - has + 1) if has else 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("users", "part"), [(20, 0.3), (200, 0.03), (1000, 0.3)])
def test_bounds_of_shares_of_unequal_users_cover(users, part):
    random = np.random.default_rng(users)
    weights, chance = np.array([1.0, 0.3, 0.01]), np.array([0.3, 0.4, 0.3])
    mine, others = (
        random.poisson(users * part * chance, (3_000, 3)),
        random.poisson(users * (1 - part), 3_000),
    )
    total = mine.sum(axis=1) + others
    found = mine @ weights / total
    spread = ((mine * (weights - found[:, None]) ** 2).sum(axis=1) + others * found**2) / total**2
    squares = mine @ (weights**2 + (1 - weights) ** 2) + others
    truth, held = part * weights @ chance, 0
    for number in range(len(found)):
        low, high = share(found[number], spread[number], users=total[number] ** 2 / squares[number])
        held += low <= truth <= high
    assert 0.94 < held / len(found) < 0.998


def test_variances_of_few_samples_use_students_t():
    few = Bounds(0.95, freedom=19)
    assert few.reach == pytest.approx(T)
    assert one(few.around, 3.0, 4.0) == pytest.approx((3 - 2 * T, 3 + 2 * T))
    wide = one(FORM.of_sum, 100.0, 60.0 * (T / Z_BOUNDS) ** 2, weight=0.6 * (T / Z_BOUNDS) ** 2)
    assert one(few.of_sum, 100.0, 60.0, weight=0.6) == pytest.approx(wide)
    wide = share(0.3, 0.01 * (T / Z_BOUNDS) ** 2, users=21 / (T / Z_BOUNDS) ** 2)
    assert share(0.3, 0.01, users=21, form=few) == pytest.approx(wide)


amounts = st.floats(0, 1e9)


@settings(max_examples=60)
@given(amounts, amounts, amounts, st.floats(0.01, 0.999))
@example(0.0, 0.0, 0.0, 0.95)
@example(0.0, 1.0, 1.0, 0.95)
@example(1e-300, 1e-300, 1.0, 0.95)
@example(1e9, 1e-9, 1e9, 0.5)
def test_bounds_enclose_the_estimate_and_are_never_negative(estimate, variance, weight, confidence):
    form = Bounds(confidence)
    low, high = one(form.of_sum, estimate, variance, weight=weight)
    assert low >= 0
    assert low <= estimate * (1 + 1e-9) or confidence < 0.5
    assert estimate * (1 - 1e-9) <= high
    part = min(estimate / 1e9, 1.0)
    low, high = share(part, min(variance, 1.0), users=max(weight, 0.0), form=form)
    assert 0 <= low <= high <= 1


# Intervals over repeated worlds: their width matches the spread of credits, and they cover the mean.

WORLDS = 30
MODELS = ["linear", "participation", "markov"]
Z_COVERAGE = 1.959963984540054
#: Of Student's distribution with 19 degrees of freedom.
T_COVERAGE = 2.093024054408263


@pytest.fixture(scope="module")
def credits():
    """Credits of worlds of 3,000 users, in closed form and by a bootstrap."""
    parts = []
    for number in range(WORLDS):
        world = simulate("synergy", users=3_000, seed=500 + number)
        paths = Paths.from_frames(world.touchpoints, world.conversions)
        for intervals in ("closed_form", "bootstrap"):
            credited = attribute(
                paths, MODELS, confidence=0.95, intervals=intervals, replicates=100, seed=number
            )
            credited.attrs = {}
            parts.append(credited.assign(intervals=intervals, world=number))
    credited = pd.concat(parts)
    return credited[credited["node_id"].notna()]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("intervals", ["closed_form", "bootstrap"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("conversions", "low", "high"),
        ("value", "value_low", "value_high"),
        ("share", "share_low", "share_high"),
    ],
)
def test_intervals_are_as_wide_as_credits_spread(credits, intervals, model, name, low, high):
    rows = credits[(credits["intervals"] == intervals) & (credits["model"] == model)]
    nodes = rows.groupby("node_id")
    reach = T_COVERAGE if (model, intervals) == ("markov", "closed_form") else Z_COVERAGE
    told = (nodes[high].mean() - nodes[low].mean()) / 2 / reach
    # The spread over 30 worlds is known to about 13 % for each of eight nodes, which are partly correlated.
    ratio = np.sqrt((told**2).mean() / nodes[name].var().mean())
    assert 0.8 < ratio < 1.25
    truth = rows["node_id"].map(nodes[name].mean())
    held = ((rows[low] <= truth) & (truth <= rows[high])).mean()
    assert 0.9 < held < 0.99


# Weights of users in replicates, against the Poisson distribution and a loop in plain Python.

KEYS = np.arange(40_000, dtype=np.uint64)
WORD = (1 << 64) - 1


def mixed(number):
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & WORD
    return number ^ (number >> 31)


def weight(key, seed, replicate):
    """The definition, one user at a time."""
    golden = 0x9E3779B97F4A7C15
    start = mixed(key ^ mixed((seed + golden) & WORD))
    draw = (mixed((start + (replicate + 1) * golden) & WORD) >> 11) / 2**53
    return int(poisson.ppf(draw, 1.0)) if draw else 0


def test_bits_equal_the_published_test_vectors():
    # The first outputs of splitmix64 started at 1234567, as in the test vectors of other implementations.
    start = np.uint64(1234567)
    steps = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [mixed(int(start + step) & WORD) for step in steps] == expected
    drawn = random_bits(np.array([5], np.uint64), seed=7, replicates=range(2, 4))
    golden = 0x9E3779B97F4A7C15
    base = mixed(5 ^ mixed(7 + golden))
    assert drawn.tolist() == [[mixed((base + number * golden) & WORD) >> 11 for number in (3, 4)]]


def test_weights_are_poisson_quantiles():
    draws = np.array([0.0, 0.36787, 0.36788, 0.73575, 0.73576, 0.9999, 0.99999, 1 - 1e-9, 1 - 2**-53])
    found = poisson_weights((draws * 2**53).astype(np.uint64)).tolist()
    assert found == [0, *poisson.ppf(draws[1:-1], 1.0).astype(int).tolist(), found[-1]]
    # The last draw has the probability 2 ** -53.
    assert 16 <= found[-1] <= 18


def test_weights_have_a_poisson_distribution():
    weights = poisson_weights(random_bits(KEYS, seed=3, replicates=range(20)))
    counts = np.bincount(np.minimum(weights, 5).ravel(), minlength=6)
    chances = [*poisson.pmf(range(5), 1.0), poisson.sf(4, 1.0)]
    assert chisquare(counts, np.array(chances) * weights.size).pvalue > 1e-4
    # Neighbouring replicates, users and seeds are uncorrelated.
    other = poisson_weights(random_bits(KEYS, seed=4, replicates=range(20)))
    pairs = [(weights[:, 0], weights[:, 1]), (weights[1:, 0], weights[:-1, 0]), (weights[:, 0], other[:, 0])]
    for left, right in pairs:
        assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(len(left))


rows = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 3), st.floats(-5, 5), st.floats(0, 5)), max_size=40
)


@settings(max_examples=examples(30))
@given(rows, st.integers(0, 5), st.integers(1, 6))
@example([], 0, 2)
@example([(7, 0, 1.0, 1.0), (7, 0, 1.0, 1.0)], 0, 3)
def test_sums_equal_a_loop(given_rows, seed, replicates):
    keys = np.array([row[0] for row in given_rows], np.int64)
    cell = np.array([row[1] for row in given_rows], np.int64)
    amounts = np.array([row[2:] for row in given_rows], np.float64).reshape(-1, 2)
    found = Units.of(keys).sums(cell, amounts, cells=4, replicates=range(replicates), seed=seed)
    expected = np.zeros((replicates, 2, 4))
    for key, place, *pair in given_rows:
        for replicate in range(replicates):
            expected[replicate, :, place] += weight(key, seed, replicate) * np.array(pair)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_blocks_of_units_and_replicates_change_nothing(monkeypatch):
    keys = np.random.default_rng(0).integers(0, 5_000, 20_000)
    units, cell, amounts = Units.of(keys), keys % 7, (keys % 3 + 1.0)[:, None]
    whole = units.sums(cell, amounts, cells=7, replicates=range(9), seed=1)
    parts = [
        units.sums(cell, amounts, cells=7, replicates=block, seed=1) for block in (range(4), range(4, 9))
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    bootstrap = Uncertainty(0.95, replicates=9, seed=1)
    monkeypatch.setattr("attrib_ds.attribution.intervals._MOST_SUMS", 4 * 7)
    alone = list(units.replicates(cell, amounts, cells=7, bootstrap=bootstrap))
    np.testing.assert_array_equal(whole.transpose(0, 2, 1), alone)


def test_a_unit_of_many_users_has_the_mean_of_their_weights():
    units = Units.of(np.arange(2_000)).sized(np.full(2_000, 25.0))
    found = units.sums(np.arange(2_000), np.full((2_000, 1), 25.0), cells=2_000, replicates=range(5), seed=0)
    # The Poisson distribution with mean 25.
    np.testing.assert_allclose(found, found.round(), atol=1e-9)
    assert found.mean() == pytest.approx(25, abs=0.25)
    assert found.var() == pytest.approx(25, rel=0.08)
