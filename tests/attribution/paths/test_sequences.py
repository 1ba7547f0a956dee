"""Coded sequences: transforms, and jackknife intervals of models that compare whole paths."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from scipy.stats import gamma, norm
from scipy.stats import t as student
from support.journeys_as_paths import HOUR, NOON, credited, journeys, paths_of, users_of
from support.law_examples import examples

from attrib_ds import Paths, attribute
from attrib_ds.attribution.conversion_rates import PathClasses
from attrib_ds.attribution.models import ConversionRateShapley, Fractribution, Markov
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

#: The example of Google's documentation of its transforms.
LONG = ("d", "a", "b", "b", "c", "d", "c", "c")


def classes_of(paths, model):
    sequences = Sequences.of(paths)
    classes = PathClasses.of(sequences, model)
    nodes = len(sequences.node_ids)
    shown = [
        [(sequences.node_ids[code % nodes], int(code) // nodes + 1) for code in classes.codes(path)]
        for path in classes.paths
    ]
    counts = np.zeros((len(shown), 2))
    np.add.at(counts, classes.outcomes.row, classes.outcomes.counts[:, :2])
    return {tuple(path): tuple(count) for path, count in zip(shown, counts.tolist(), strict=True)}


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("transform", "steps", "expected"),
    [
        pytest.param("unique", None, "d a b b c d c c", marks=pytest.mark.slow),
        pytest.param("unique", 3, "d c c", marks=pytest.mark.slow),
        pytest.param("unique", 9, "d a b b c d c c", marks=pytest.mark.slow),
        pytest.param("exposure", None, "d a b c d c", marks=pytest.mark.slow),
        ("exposure", 5, "b c d c"),  # the last five, then the transform
        pytest.param("first", None, "d a b c", marks=pytest.mark.slow),
        ("first", 4, "c d"),
        pytest.param("frequency", None, "d2 a b2 c3", marks=pytest.mark.slow),
        ("frequency", 4, "c3 d"),
    ],
)
@pytest.mark.parametrize("made", [paths_of, pytest.param(users_of, marks=pytest.mark.slow)])
def test_transforms(transform, steps, expected, made):
    paths = made([(LONG, 2, 5.0, 3)])
    wanted = tuple((step[0], int(step[1:] or 1)) for step in expected.split())
    assert classes_of(paths, Markov(transform=transform, steps=steps)) == {wanted: (2.0, 3.0)}


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        (LONG, {"remove_if_not_all": ("c",)}, "d a b b d"),
        (LONG, {"remove_if_not_all": ("c", "d")}, "a b b"),
        (LONG, {"remove_if_last_and_not_all": ("c",)}, "d a b b c d"),
        (LONG, {"remove_if_last_and_not_all": ("c", "d")}, "d a b b"),
        (LONG, {"remove_if_last_and_not_all": ("d",)}, "d a b b c d c c"),
        (LONG, {"remove_if_not_all": ("d",), "remove_if_last_and_not_all": ("c",)}, "a b b"),
        (LONG, {"remove_if_not_all": ("a", "d"), "transform": "exposure"}, "b c"),
        (LONG, {"remove_if_not_all": ("c",), "steps": 2}, "c c"),  # the last two, then nothing else is left
        (("c", "c"), {"remove_if_not_all": ("c",)}, "c c"),
        (("c", "c"), {"remove_if_last_and_not_all": ("c",)}, "c c"),
        (("c", "a"), {"remove_if_last_and_not_all": ("c",)}, "c a"),
    ],
)
@pytest.mark.parametrize("made", [paths_of, users_of])
def test_nodes_are_removed_from_paths_that_contain_others(path, options, expected, made):
    rest = [(("d", "c", "b", "a"), 1, 1.0, 0)]
    found = classes_of(made([(path, 2, 5.0, 3), *rest]), Markov(**options))
    assert {tuple((step, 1) for step in expected.split()): (2.0, 3.0)}.items() <= found.items()


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=examples(15))
@given(journeys("abc"))
def test_removing_nodes_equals_paths_without_them(drawn):
    assume({"a", "c"} <= {node for path, *_ in drawn for node in path})
    without = [(tuple(node for node in path if node != "a") or path, *rest) for path, *rest in drawn]
    shortened = [(tuple(" ".join(path).rstrip("c ").split()) or path, *rest) for path, *rest in drawn]
    for options, expected in (
        ({"remove_if_not_all": ("a",)}, without),
        ({"remove_if_last_and_not_all": ("c",)}, shortened),
    ):
        for model in (Fractribution, Markov):
            found = credited(paths_of(drawn), model(**options))
            assert found == pytest.approx(credited(paths_of(expected), model()), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("model", [Markov, Fractribution])
def test_nodes_to_remove_may_be_missing_from_all_paths(model):
    paths = paths_of([(("a", "b"), 1, 1.0, 0)])
    plain = credited(paths, model())
    for argument in ("remove_if_not_all", "remove_if_last_and_not_all"):
        assert credited(paths, model(**{argument: ("direct",)})) == plain
        assert credited(paths, model(**{argument: ("direct", "b")})) == {"a": 1.0}
    for wrong in ("a", 5, (None,)):
        with pytest.raises(InvalidRequest, match="remove_if_not_all: .* allowed: a list of node ids"):
            model(remove_if_not_all=wrong)


@pytest.mark.large
@pytest.mark.slow
def test_cached_counts_depend_on_the_removed_nodes():
    paths = paths_of([(("d", "a"), 2, 1.0, 1), (("a", "d"), 1, 1.0, 4), (("d",), 1, 1.0, 2)])
    models = [Markov(order=2), Markov(remove_if_not_all=("d",)), Markov(remove_if_last_and_not_all=("d",))]
    together = attribute(paths, models)
    alone = pd.concat([attribute(paths, model) for model in models], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone, check_exact=False, rtol=1e-12)
    assert together["model"].unique().tolist()[1:] == [
        "markov(remove_if_not_all=(d,))",
        "markov(remove_if_last_and_not_all=(d,))",
    ]


def test_under_frequency_a_node_is_credited_whatever_its_count():
    rows = [(("a", "a", "b"), 2, 1.0, 1), (("a", "b"), 1, 1.0, 4)]
    credits = attribute(paths_of(rows), [Markov(transform="frequency"), Fractribution(transform="frequency")])
    assert set(credits["node_id"]) == {"a", "b"}
    assert credits.groupby("model")["conversions"].sum().tolist() == pytest.approx([3.0, 3.0])
    # Every converting walk reaches a, once or twice, and b.
    assert credits["conversions"].tolist()[:2] == pytest.approx([1.5, 1.5])


def test_conversions_without_a_touchpoint_are_an_empty_path():
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [NOON]})
    touchpoints = pd.DataFrame({"user_id": ["v"], "node_id": ["a"], "date": [NOON]})
    classes = PathClasses.of(Sequences.of(Paths.from_frames(touchpoints, conversions)), Markov())
    assert classes.outcomes.has_touch.tolist() == [False, True]


class TestIntervals:
    """The grouped jackknife over users."""

    models = [Markov(order=2), ConversionRateShapley(), Fractribution(transform="exposure")]

    @pytest.fixture
    def frames(self):
        random = np.random.default_rng(4)
        touched, converted = [], []
        for number in range(160):
            path = random.choice(list("abc"), random.integers(1, 5), p=[0.5, 0.3, 0.2])
            touched += [(f"u{number}", node, NOON + back * HOUR) for back, node in enumerate(path)]
            if random.random() < 0.1 + 0.2 * ("c" in path):
                converted.append((f"e{number}", f"u{number}", NOON + 9 * HOUR))
        converted.append(("late", "u0", NOON + 99 * 24 * HOUR))
        touchpoints = pd.DataFrame(touched, columns=["user_id", "node_id", "date"])
        return touchpoints, pd.DataFrame(converted, columns=["event_id", "user_id", "date"])

    @pytest.mark.large
    @pytest.mark.slow
    def test_bounds_equal_those_of_leaving_out_each_group(self, frames):
        touchpoints, conversions = frames
        users = pd.concat([touchpoints["user_id"], conversions["user_id"]]).unique()
        # A twentieth of all values that eight digits of the hash can have makes a group.
        digits = {user: hashlib.md5(user.encode()).hexdigest()[:8] for user in users}
        groups = {user: int(text, 16) * 20 // 16**8 for user, text in digits.items()}
        assert set(groups.values()) == set(range(20))
        keys = ["model", "node_id"]
        whole = attribute(Paths.from_frames(*frames), self.models, confidence=0.9).fillna({"node_id": "?"})
        whole = whole.set_index(keys)
        left = []
        for group in range(20):
            rest = [frame[frame["user_id"].map(groups) != group] for frame in frames]
            credits = attribute(Paths.from_frames(*rest), self.models).fillna({"node_id": "?"})
            left.append(credits.set_index(keys)["conversions"])
        scaled = pd.concat(left, axis=1).fillna(0.0) * 20 / 19
        variance = 19 / 20 * scaled.sub(scaled.mean(axis=1), axis=0).pow(2).sum(axis=1)
        variance = variance.reindex(whole.index)
        is_signed = whole.index.get_level_values("model") == "conversion_rate_shapley"
        reach = student.ppf(0.95, 19) * variance.pow(0.5)
        found = (whole["high"] - whole["conversions"])[is_signed]
        pd.testing.assert_series_equal(found, reach[is_signed], check_names=False, rtol=1e-8)
        assert (whole["low"] < 0).any()
        # Non-negative credits have a gamma distribution with the same mean and, because groups are few, a
        # variance that is scaled as Student's t distribution is wider.
        credited, low = whole.loc[~is_signed, "conversions"], whole.loc[~is_signed, "low"]
        wider = variance[~is_signed] * (student.ppf(0.95, 19) / norm.ppf(0.95)) ** 2
        quantile = gamma.ppf(0.05, credited**2 / wider, scale=wider / credited)
        # The variance of a non-negative sum is at most its square; the rest is noise, truncated at 0.
        expected = np.where(wider > credited**2, 0.0, quantile)
        assert low.tolist() == pytest.approx(expected.tolist(), rel=1e-6)

    def test_aggregated_paths_have_none(self):
        credits = attribute(paths_of([(("a", "b"), 3, 0.0, 2)]), ["markov", "linear"], confidence=0.9)
        missing = credits.groupby("model")[["low", "high"]].agg(lambda bounds: bounds.isna().all())
        assert missing.loc["markov"].all()
        assert not missing.loc["linear"].any()

    @pytest.mark.large
    @pytest.mark.slow
    def test_the_credits_themselves_are_the_same(self, frames):
        paths = Paths.from_frames(*frames)
        plain = attribute(paths, self.models)
        for intervals in ("closed_form", "bootstrap"):
            credits = attribute(paths, self.models, confidence=0.9, intervals=intervals, replicates=3)
            pd.testing.assert_frame_equal(credits[plain.columns], plain, check_exact=False, rtol=1e-12)
