"""Errors: one tree, a status each, picklable."""

import inspect
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.errors import InvalidRequest

EVERY = [
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.AttribError)
]
STATUSES = {
    "AttribError": 500,
    "Conflict": 409,
    "Forbidden": 403,
    "InvalidRequest": 400,
    "NotFound": 404,
    "NotSupported": 501,
    "ProjectInUse": 503,
    "ServiceFailure": 500,
    "TooManyRequests": 429,
    "Unauthorized": 401,
    "Unavailable": 503,
}


def test_each_stands_for_a_status():
    assert {each.__name__: each.status for each in EVERY} == STATUSES


def test_each_is_picklable_with_all_it_knows():
    for kind in EVERY:
        details = [{"attribute": "limit", "problem": "-1 is not allowed"}]
        error = kind(
            "limit: -1 is not allowed", field="limit", request_id="r-1", details=details, retry_after=1.5
        )
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is kind, kind
        assert (back.message, back.field, back.request_id, back.details, back.retry_after) == (
            error.message,
            "limit",
            "r-1",
            details,
            1.5,
        ), kind
        assert str(back) == "limit: -1 is not allowed (request r-1)", kind


def test_the_tree_is_drawn_in_the_docstring():
    for kind in EVERY:
        assert kind.__name__ in (errors.__doc__ or ""), kind


def test_builtins_catch_what_they_mean():
    assert issubclass(errors.InvalidRequest, ValueError)
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.Forbidden, PermissionError)


def test_a_choice_names_what_came_what_is_allowed_and_the_closest():
    error = errors.InvalidRequest.choice("level", "Campain", ["ad", "campaign"])
    assert str(error) == "level: 'Campain' is not allowed (did you mean 'campaign'?); allowed: ad, campaign"
    assert error.field == "level"
    assert str(errors.InvalidRequest.choice("level", 3, ["ad"])) == "level: 3 is not allowed; allowed: ad"
    assert str(errors.InvalidRequest.choice("state", "won", [])) == (
        "state: 'won' is not allowed; there is none to choose from yet"
    )


def test_what_was_reached_travels_with_an_error():
    error = errors.Unavailable("busy")
    assert error.partial is None
    error.partial = pd.DataFrame({"status": ["failed", "unsent"]})
    assert pickle.loads(pickle.dumps(error)).partial["status"].tolist() == ["failed", "unsent"]


def paths():
    rows = pd.DataFrame({"path": ["a > b", "b", "a"], "conversions": [3, 1, 2]})
    return at.Paths.from_sequences(rows, path="path", conversions="conversions")


NUMBERS = {
    "order": lambda number: at.models.Markov(order=number(2)).name == "markov(order=2)",
    "rate": lambda number: at.models.ConversionRateShapley().sampling_error(rate=number(1)) < 1,
    "users": lambda number: len(at.simulate("random", users=number(100), seed=number(1)).users) == 100,
    "top": lambda number: len(paths().summary(top=number(1))) == 1,
}


@pytest.mark.parametrize("number", [int, np.int64, np.uint8, float, np.float32, Fraction, Decimal])
@pytest.mark.parametrize("argument", NUMBERS)
def test_whole_numbers_of_any_type_are_numbers(argument, number):
    assert NUMBERS[argument](number)


def test_numbers_of_numpy_are_numbers_of_a_comparison():
    world = at.simulate("random", users=200, seed=1)
    paths = at.Paths.from_frames(world.touchpoints, world.conversions)
    plan = at.experiments.plan_holdout(
        users=1_000, rate=Fraction(1, 10), effect=Decimal(9), power=Fraction(4, 5)
    )
    assert len(plan) == 1
    assert at.models.PositionBased(milestones={"lead": Fraction(1, 10)}).milestones == (("lead", 0.1),)
    bootstrap = {"intervals": "bootstrap", "replicates": np.int16(2), "confidence": Fraction(9, 10)}
    assert len(at.attribute(paths, "linear", **bootstrap))
    assert len(at.compare_orders(paths, orders=np.int64(1), folds=np.int64(2), smoothing=Fraction(1, 2))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        *(True, np.True_, 1.5, np.float64("nan"), "1", None, -1, np.int64(-1), 1 + 0j, np.array(1)),
        *(Fraction(1, 3), Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), Fraction(-(10**400))),
    ],
)
def test_what_is_no_whole_number_is_refused(wrong):
    with pytest.raises(InvalidRequest, match=r"top: .* is not allowed; allowed: whole numbers, 0 or more"):
        errors.check_whole("top", wrong, minimum=0)


def test_bounds_are_told_as_they_are_checked():
    for half in (np.float32(0.5), Fraction(1, 2), Decimal("0.5")):
        assert errors.check_number("share", half, "0 to 1", minimum=0, maximum=1) == 0.5
    for endless in (10**400, Fraction(10**400), Decimal("1e400"), Decimal("sNaN"), np.inf):
        with pytest.raises(InvalidRequest, match=r"share: .* is not allowed; allowed: 0 to 1"):
            errors.check_number("share", endless, "0 to 1", minimum=0, maximum=1)
    with pytest.raises(InvalidRequest, match=r"confidence: 1\.0 is not allowed; allowed: between 0 and 1"):
        at.models.ConversionRateShapley().sampling_error(confidence=1.0)
