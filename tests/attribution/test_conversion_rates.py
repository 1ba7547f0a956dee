"""Shapley values of conversion rates: by hand, by the definition, and sampled."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.journeys_as_paths import credited, journeys, paths_of, users_of
from support.law_examples import examples
from support.reference_path_models import conversion_rates as reference_credits
from support.reference_path_models import fractribution as reference_fractribution

from attrib_ds import Paths, attribute, errors
from attrib_ds.attribution.models import ConversionRateShapley, Fractribution

few = settings(max_examples=examples(8))


@pytest.mark.slow
def test_by_hand():
    # Rates: {a} 1/4, {b} 0 of 2, {a, b} 1/2. In {a, b}: a (1/4 + 1/2) / 2 = 3/8, b (0 + 1/4) / 2 = 1/8.
    rows = [(("a",), 1, 10.0, 3), (("b",), 0, 0.0, 2), (("b", "a"), 2, 8.0, 2)]
    assert credited(paths_of(rows), "conversion_rate_shapley") == pytest.approx({"a": 1 + 1.5, "b": 0.5})
    assert credited(paths_of(rows), "conversion_rate_shapley", "value") == pytest.approx(
        {"a": 16.0, "b": 2.0}
    )


def test_values_may_be_negative_and_still_add_up():
    # {a} 1/2, {b} unobserved, {a, b} 1/4: b lowers the rate. a (1/2 + 1/4) / 2 = 3/8, b (0 - 1/4) / 2 = -1/8.
    rows = [(("a",), 2, 0.0, 2), (("a", "b"), 1, 0.0, 3)]
    found = credited(paths_of(rows), "conversion_rate_shapley")
    assert found == pytest.approx({"a": 2 + 1.5, "b": -0.5})
    assert sum(found.values()) == pytest.approx(3.0)


def test_shrinkage_pulls_sets_towards_the_overall_rate():
    # 3 of 8 converted; with 8 pseudo-users {a} has (2 + 3) / 12, {a, b} (1 + 3) / 12, and {b} 3/8.
    rows = [(("a",), 2, 0.0, 2), (("a", "b"), 1, 0.0, 3)]
    a, b, both = 5 / 12, 3 / 8, 4 / 12
    of_b = (b + both - a) / 2 / both
    found = credited(paths_of(rows), ConversionRateShapley(shrinkage=8))
    assert found == pytest.approx({"a": 2 + 1 - of_b, "b": of_b})


@pytest.mark.large
@pytest.mark.slow
@few
@given(journeys("abcde", max_size=8), st.sampled_from([0, 0, 3]))
@example([(("a", "b", "c", "d", "e"), 2, 1.0, 3), (("c", "a"), 1, 1.0, 1), (("e", "d", "b"), 1, 2.0, 0)], 0)
@example([(("a", "b", "b", "a"), 1, 1.0, 0), (("b", "a"), 1, 1.0, 2), (("a",), 0, 0.0, 2)], 3)
def test_values_equal_the_definition_within_each_set(drawn, shrinkage):
    found = credited(paths_of(drawn), ConversionRateShapley(shrinkage=shrinkage))
    assert found == pytest.approx(reference_credits(drawn, shrinkage=shrinkage), abs=1e-9)
    assert sum(found.values()) == pytest.approx(sum(converted for _, converted, _, _ in drawn))


@pytest.mark.slow
def test_a_node_that_changes_no_rate_earns_nothing():
    rows = [(("a",), 1, 0.0, 3), (("b",), 0, 0.0, 9), (("a", "b"), 2, 0.0, 6)]
    assert credited(paths_of(rows), "conversion_rate_shapley") == pytest.approx({"a": 3.0, "b": 0.0})


def test_symmetric_nodes_earn_the_same():
    rows = [(("a",), 1, 0.0, 3), (("b",), 1, 0.0, 3), (("a", "c", "b"), 2, 0.0, 6), (("c",), 1, 0.0, 1)]
    found = credited(paths_of(rows), "conversion_rate_shapley")
    assert found["a"] == pytest.approx(found["b"], abs=1e-12)


def test_without_null_paths_every_observed_set_has_rate_one():
    found = credited(paths_of([(("a", "b"), 4, 0.0, 0), (("a",), 1, 0.0, 0)]), "conversion_rate_shapley")
    # {b} is unobserved: a adds 1 in both orders, b adds 0.
    assert found == pytest.approx({"a": 5.0, "b": 0.0})


class TestDrawn:
    """Sets too large to compute exactly."""

    names = [f"node {index:02d}" for index in range(8)]

    @pytest.fixture
    def rows(self):
        random = np.random.default_rng(8)
        rows = [(tuple(self.names), 40, 0.0, 60)]
        for _ in range(150):
            chosen = tuple(random.permutation(self.names)[: random.integers(1, 8)].tolist())
            rows.append((chosen, 0, 0.0, int(random.integers(1, 5))))
            rows.append((chosen, int(random.integers(0, 3)), 0.0, 0))
        return rows

    @pytest.mark.slow
    def test_sampled_values_are_within_the_sampling_error_and_add_up(self, rows):
        paths = paths_of(rows)
        drawn = ConversionRateShapley(exact_size=7, permutations=400)
        exact, estimated = (credited(paths, model) for model in (ConversionRateShapley(), drawn))
        # Only the 40 conversions of the largest set are sampled, at a rate of 0.4.
        error = 40 / 0.4 * drawn.sampling_error(confidence=0.999)
        largest = max(abs(exact[node] - estimated[node]) for node in self.names)
        assert 0 < largest < error
        assert sum(estimated.values()) == pytest.approx(sum(exact.values()), rel=1e-12)

    def test_a_decisive_node_earns_everything_in_every_permutation(self):
        sets = [each for size in range(1, 6) for each in itertools.combinations(self.names[:5], size)]
        rows = [(each, int(self.names[2] in each), 0.0, 1) for each in sets]
        drawn = ConversionRateShapley(exact_size=1, permutations=3)
        others = dict.fromkeys([*self.names[:2], *self.names[3:5]], 0.0)
        found = credited(paths_of(rows), drawn)
        assert found == pytest.approx(others | {self.names[2]: 16.0}, abs=1e-12)

    @pytest.mark.slow
    def test_the_seed_determines_the_samples(self, rows):
        paths = paths_of(rows[:60])
        first, again, other = (
            credited(paths, ConversionRateShapley(exact_size=3, permutations=5, seed=seed))
            for seed in (1, 1, 2)
        )
        assert first == again
        assert first != other

    def test_the_sampling_error_is_the_bound_of_hoeffding(self):
        # 2 r sqrt(ln(2 / 0.05) / (2 m))
        error = ConversionRateShapley(permutations=200).sampling_error(rate=0.5)
        assert error == pytest.approx((np.log(40) / 400) ** 0.5)

    @pytest.mark.parametrize("asked", [{"confidence": 1}, {"confidence": 2}, {"rate": -0.1}])
    def test_the_sampling_error_requires_a_rate_and_a_level(self, asked):
        with pytest.raises(errors.InvalidRequest, match="allowed"):
            ConversionRateShapley().sampling_error(**asked)


def test_more_nodes_than_bits_of_a_number():
    names = [f"node {index:03d}" for index in range(150)]
    random = np.random.default_rng(150)
    rows = [
        (tuple(names[at] for at in random.integers(0, 150, size)), int(random.integers(0, 4)), 0.0, 2)
        for size in random.integers(1, 5, 120)
    ]
    rows += [((names[70],), 1, 0.0, 1), ((names[140], names[70]), 2, 0.0, 1), ((names[140],), 1, 0.0, 4)]
    found = credited(paths_of(rows), "conversion_rate_shapley")
    assert found == pytest.approx(reference_credits(rows), abs=1e-9)


def test_currencies_share_the_rates():
    rows = [(("a",), 1, 10.0, 3), (("b",), 0, 0.0, 2), (("b", "a"), 2, 8.0, 2)]
    credits = attribute(paths_of(rows), "conversion_rate_shapley")
    assert credits["currency"].isna().all()
    assert credits["share"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "options",
    [
        {"shrinkage": -1},
        {"shrinkage": float("nan")},
        {"shrinkage": "much"},
        {"exact_size": 0},
        {"exact_size": 17},
        {"permutations": 0},
        {"seed": -1},
        {"seed": 1.5},
    ],
)
def test_parameters_out_of_bounds_are_refused(options):
    with pytest.raises(errors.InvalidRequest, match="allowed"):
        ConversionRateShapley(**options)


def test_a_set_is_worth_the_rate_of_the_paths_that_have_exactly_its_nodes():
    """The nine paths of docs/coming-from/marketing-attribution-models.md, worked out by hand there.

    The package of that page, version 2.1.1, gives the same numbers.
    """
    nine = ["a", "b", "c", "a > b", "b > a", "a > c", "a > b > c", "c > b > a", "b > a > c"]
    paths = Paths.from_sequences(pd.DataFrame({"path": nine, "n": 3}), path="path", conversions="n")
    credits = attribute(paths, ["conversion_rate_shapley", "shapley"])
    found = credits.pivot(index="model", columns="node_id", values="conversions")
    assert found.loc["conversion_rate_shapley"].tolist() == pytest.approx([13.5, 7.5, 6.0], abs=1e-9)
    assert found.loc["shapley"].tolist() == pytest.approx([10.5, 9.0, 7.5], abs=1e-9)


# Fractribution: by hand, by the definition, and after transforms.

few_fractribution = settings(max_examples=examples(10))


def test_by_hand_of_fractribution():
    # Rates: a > b 3/4, a 1/4, b 1/2. Without a, 3/4 - 1/2 = 1/4 is lost; without b, 3/4 - 1/4 = 1/2.
    rows = [(("a", "b"), 3, 30.0, 1), (("a",), 1, 5.0, 3), (("b",), 2, 8.0, 2)]
    assert credited(paths_of(rows), "fractribution") == pytest.approx({"a": 1 + 1.0, "b": 2 + 2.0})
    assert credited(paths_of(rows), "fractribution", "value") == pytest.approx({"a": 5 + 10.0, "b": 8 + 20.0})


def test_an_unobserved_path_has_rate_zero():
    # Without a or c the path is unobserved: 1/2 is lost; without b, a > c remains, at 1/4.
    rows = [(("a", "b", "c"), 5, 0.0, 5), (("a", "c"), 1, 0.0, 3)]
    found = credited(paths_of(rows), "fractribution")
    assert found == pytest.approx({"a": 5 * 0.4 + 0.5, "b": 5 * 0.2, "c": 5 * 0.4 + 0.5})


def test_a_touchpoint_without_which_the_rate_is_higher_earns_nothing():
    # Rates: a > b 1/2, b 3/5, a 1/10: without a nothing is lost, without b 2/5.
    rows = [(("a", "b"), 4, 0.0, 4), (("b",), 3, 0.0, 2), (("a",), 1, 0.0, 9)]
    assert credited(paths_of(rows), "fractribution") == pytest.approx({"a": 1.0, "b": 4.0 + 3.0})


def test_without_losses_the_last_touchpoint_earns_everything():
    rows = [(("a", "b"), 1, 2.0, 3), (("a",), 1, 1.0, 1), (("b",), 1, 1.0, 1)]
    assert credited(paths_of(rows), "fractribution") == pytest.approx({"a": 1.0, "b": 2.0})


def test_paths_that_are_equal_after_the_transform_are_summed():
    # Both are a > b after the transform, and no other path is observed: half each.
    rows = [(("a", "a", "b"), 1, 10.0, 0), (("a", "b", "b"), 2, 20.0, 3), (("a", "b"), 1, 4.0, 1)]
    paths = paths_of(rows)
    model = Fractribution(transform="exposure")
    assert credited(paths, model) == pytest.approx({"a": 2.0, "b": 2.0})
    assert credited(paths, model, "value") == pytest.approx({"a": 17.0, "b": 17.0})


def test_shrinkage():
    # 6 of 12 converted; with 4 pseudo-users a > b has (3 + 2) / 8, a (1 + 2) / 8, b (2 + 2) / 8.
    rows = [(("a", "b"), 3, 30.0, 1), (("a",), 1, 5.0, 3), (("b",), 2, 8.0, 2)]
    found = credited(paths_of(rows), Fractribution(shrinkage=4))
    assert found == pytest.approx({"a": 1 + 3 / 3, "b": 2 + 3 * 2 / 3})


@pytest.mark.large
@pytest.mark.slow
@few_fractribution
@given(journeys("abc", max_size=9, max_length=4), st.sampled_from([0, 0, 2]))
@example([(("a", "a", "a"), 2, 1.0, 3), (("a", "a"), 1, 1.0, 1), (("a",), 1, 1.0, 0)], 0)
@example([(("a", "b"), 0, 0.0, 1), (("b", "a", "b"), 1, 3.0, 0), (("b", "b"), 1, 3.0, 4)], 2)
def test_credits_equal_the_definition(drawn, shrinkage):
    found = credited(paths_of(drawn), Fractribution(shrinkage=shrinkage))
    expected = reference_fractribution(drawn, shrinkage=shrinkage)
    assert found == pytest.approx(expected, abs=1e-9)
    assert sum(found.values()) == pytest.approx(sum(converted for _, converted, _, _ in drawn))


def test_users_are_ordered_before_paths_are_distinguished():
    rows = [(("a", "b"), 3, 30.0, 1), (("b", "a"), 1, 3.0, 5), (("a",), 1, 5.0, 3), (("b",), 2, 8.0, 2)]
    assert credited(users_of(rows), "fractribution") == pytest.approx(
        reference_fractribution(rows), abs=1e-12
    )


@pytest.mark.parametrize("options", [{"shrinkage": -1}, {"transform": "none"}, {"steps": 0}, {"steps": 2.5}])
def test_parameters_out_of_bounds_are_refused_of_fractribution(options):
    with pytest.raises(errors.InvalidRequest, match="allowed"):
        Fractribution(**options)


def test_the_transform_is_part_of_the_name():
    models = [Fractribution(), Fractribution(transform="exposure", steps=3)]
    credits = attribute(paths_of([(("a", "b"), 1, 1.0, 0)]), models)
    assert list(dict.fromkeys(credits["model"])) == [
        "fractribution",
        "fractribution(transform=exposure, steps=3)",
    ]
