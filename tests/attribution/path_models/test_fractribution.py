"""Fractribution: by hand, by the definition, and after transforms."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.journeys_as_paths import credited, journeys, paths_of, users_of
from support.law_examples import examples
from support.reference_path_models import fractribution as reference_credits

from attrib_ds import attribute, errors
from attrib_ds.attribution.models.path_models import Fractribution

few = settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_by_hand():
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


@pytest.mark.slow
@few
@given(journeys("abc", max_size=9, max_length=4), st.sampled_from([0, 0, 2]))
@example([(("a", "a", "a"), 2, 1.0, 3), (("a", "a"), 1, 1.0, 1), (("a",), 1, 1.0, 0)], 0)
@example([(("a", "b"), 0, 0.0, 1), (("b", "a", "b"), 1, 3.0, 0), (("b", "b"), 1, 3.0, 4)], 2)
def test_credits_equal_the_definition(drawn, shrinkage):
    found = credited(paths_of(drawn), Fractribution(shrinkage=shrinkage))
    expected = reference_credits(drawn, shrinkage=shrinkage)
    assert found == pytest.approx(expected, abs=1e-9)
    assert sum(found.values()) == pytest.approx(sum(converted for _, converted, _, _ in drawn))


def test_users_are_ordered_before_paths_are_distinguished():
    rows = [(("a", "b"), 3, 30.0, 1), (("b", "a"), 1, 3.0, 5), (("a",), 1, 5.0, 3), (("b",), 2, 8.0, 2)]
    assert credited(users_of(rows), "fractribution") == pytest.approx(reference_credits(rows), abs=1e-12)


@pytest.mark.parametrize("options", [{"shrinkage": -1}, {"transform": "none"}, {"steps": 0}, {"steps": 2.5}])
def test_parameters_out_of_bounds_are_refused(options):
    with pytest.raises(errors.InvalidRequest, match="allowed"):
        Fractribution(**options)


def test_the_transform_is_part_of_the_name():
    models = [Fractribution(), Fractribution(transform="exposure", steps=3)]
    credits = attribute(paths_of([(("a", "b"), 1, 1.0, 0)]), models)
    assert list(dict.fromkeys(credits["model"])) == [
        "fractribution",
        "fractribution(transform=exposure, steps=3)",
    ]
