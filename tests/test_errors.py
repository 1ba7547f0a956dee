"""Errors: one tree, a status each, picklable."""

import inspect
import pickle

import pandas as pd

from attrib_ds import errors

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
