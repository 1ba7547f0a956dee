"""The public form of ``sort``, translated to requests."""

import pytest

from attrib_ds.contract import OPERATIONS, wire_order
from attrib_ds.errors import InvalidRequest


@pytest.mark.parametrize(
    ("sort", "attributes"),
    [
        (None, {"sort": None}),
        ([], {"sort": None}),
        ("startDate", {"sort": {"startDate": 1}}),
        ("-startDate", {"sort": {"startDate": -1}}),
        (["geo.city", "-startDate", "_id"], {"sort": {"geo.city": 1, "startDate": -1, "_id": 1}}),
        (("-_id",), {"sort": {"_id": -1}}),
    ],
)
def test_names_become_directions(sort, attributes):
    translated = wire_order(OPERATIONS["search_interactions"], sort)
    assert translated == attributes
    # The first name counts most.
    assert list(translated["sort"] or {}) == list(attributes["sort"] or {})


@pytest.mark.parametrize(
    ("sort", "attributes"),
    [
        (None, {"sort": None}),
        ("amount", {"sort": "amount", "order": "ASC"}),
        ("-amount", {"sort": "amount", "order": "DESC"}),
        (["-amount"], {"sort": "amount", "order": "DESC"}),
    ],
)
def test_one_name_becomes_a_name_and_an_order(sort, attributes):
    assert wire_order(OPERATIONS["list_outlays"], sort) == attributes


@pytest.mark.parametrize(
    ("operation", "sort", "message"),
    [
        (
            "search_interactions",
            {"startDate": -1},
            "sort: {'startDate': -1} is not allowed; allowed: a column name or a list of names, with '-' in front "
            "for descending",
        ),
        (
            "search_interactions",
            [("startDate", -1)],
            "sort: [('startDate', -1)] is not allowed; allowed: a column name or a list of names, with '-' in "
            "front for descending",
        ),
        (
            "search_interactions",
            ["_id", "-_id"],
            "sort: ['_id', '-_id'] is not allowed; allowed: each column once",
        ),
        (
            "search_users",
            ["_id", "eventCount"],
            "sort: ['_id', 'eventCount'] is not allowed; allowed: one column name, with '-' in front for "
            "descending",
        ),
    ],
)
def test_other_forms_are_refused(operation, sort, message):
    with pytest.raises(InvalidRequest) as caught:
        wire_order(OPERATIONS[operation], sort)
    assert (caught.value.message, caught.value.field) == (message, "sort")
