"""Users and audiences as DataFrames."""

import json

import pandas as pd
import pytest
from support.dtype_names import dtype_names

from attrib_ds import (
    get_user,
    search_users,
    user,
)
from attrib_ds.api.admin import create_audience, delete_audience, get_audience, list_audiences
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.records.frames import TEXT

ANNA, BEN, CARL = (f"{number:024x}" for number in (10, 11, 12))
KEYS = {
    "_id": "str",
    "fields.email": "str",
    "eventTypesCount.order": "Int64",
    "metrics.turnover.sum": "float64",
    "metrics.confirmed.count": "Int64",
    "eventCount": "Int64",
    "averageHitCount": "float64",
    "firstEventDate": "datetime64[us, UTC]",
    "firstInteractionNodeId": "str",
    "audienceIds": "object",
}


@pytest.mark.slow
def test_columns_and_dtypes_do_not_depend_on_the_rows(shop):
    keys = list(KEYS)[1:]
    for found in (
        search_users(shop, columns=keys),
        search_users(shop, columns=keys, where=user("eventCount") > 9),
    ):
        assert dtype_names(found) == KEYS
    assert found.attrs["total"] == 0


def test_counters_of_the_small_shop(shop):
    keys = ["eventTypesCount.order", "metrics.turnover.sum", "metrics.confirmed.sum", "interactionCount"]
    found = search_users(shop, columns=keys, sort="-metrics.turnover.sum")
    # One of Ben's three visits is a bot's, and one is filtered.
    expected = pd.DataFrame(
        {
            "_id": pd.Series([ANNA, BEN, CARL], dtype=TEXT),
            "eventTypesCount.order": pd.array([1, 1, 1], "Int64"),
            "metrics.turnover.sum": [90.0, 40.0, 20.0],
            "metrics.confirmed.sum": [1.0, 0.0, 1.0],
            "interactionCount": pd.array([3, 1, 1], "Int64"),
        }
    )
    pd.testing.assert_frame_equal(found, expected)
    assert found.attrs["total"] == 3


@pytest.mark.slow
def test_users_by_filter_and_page(shop):
    rich = search_users(shop, columns=[], where=user("metrics.turnover.max") > 30)
    assert rich["_id"].tolist() == [ANNA, BEN]
    last = search_users(shop, columns=[], offset=1, limit=1, sort="-_id")
    assert (last["_id"].tolist(), last.attrs["total"]) == ([BEN], 3)


@pytest.mark.slow
def test_users_by_sql(shop):
    found = search_users(
        shop, columns=["eventCount"], sql="SELECT userId FROM events WHERE eventType = 'lead'"
    )
    assert found["_id"].tolist() == [ANNA]


@pytest.mark.slow
def test_values_of_fields_are_text(shop):
    from attrib_ds import load

    shown = {
        "email": "dora@x.org",
        "age": 30,
        "member": True,
        "home": {"formattedAddress": "Oslo"},
        "tags": [1],
    }
    visits = [
        {"_id": f"{90 + n:024x}", "userId": f"{20 + n:024x}", "nodeId": "direct", "startDate": "2025-01-01T00:00:00Z",
         "userData": json.dumps(data)}
        for n, data in enumerate([shown, {"email": "ed@x.org"}])
    ]  # fmt: skip
    assert load(shop, interactions=pd.DataFrame(visits)).rejected.empty
    keys = [f"fields.{key}" for key in shown]
    found = search_users(shop, columns=keys, offset=3)
    assert found.iloc[0].tolist()[1:] == ["dora@x.org", "30", "true", "Oslo", "[1]"]
    assert found.iloc[1].isna().sum() == 4


@pytest.mark.slow
def test_one_user_is_a_series(shop):
    anna = get_user(shop, ANNA)
    assert anna.name == anna["_id"] == ANNA
    assert json.loads(anna["eventTypesCount"]) == {"lead": 1, "order": 1}
    with pytest.raises(NotFound):
        get_user(shop, f"{99:024x}")
    with pytest.raises(InvalidRequest, match="^id: "):
        get_user(shop, "anna")


@pytest.mark.slow
def test_audiences(shop):
    buyers = create_audience(shop, "Rich", user("metrics.turnover.sum") > 30)
    assert (buyers["name"], buyers["size"], buyers.name) == ("Rich", 2, buyers["_id"])
    member = {"type": "audience", "operator": "in", "value": [buyers["_id"]]}
    assert search_users(shop, columns=[], audience=member)["_id"].tolist() == [ANNA, BEN]
    assert get_audience(shop, buyers["_id"])["condition"] == buyers["condition"]
    listed = list_audiences(shop)
    assert listed["name"].tolist() == ["Rich"]
    assert listed.attrs["total"] == 1
    assert dtype_names(listed) == {
        "_id": "str",
        "projectId": "str",
        "name": "str",
        "condition": "str",
        "size": "Int64",
        "computedAt": "datetime64[us, UTC]",
    }
    assert delete_audience(shop, buyers["_id"]) == 1
    assert list_audiences(shop).empty


@pytest.mark.slow
def test_errors_name_the_argument(shop):
    with pytest.raises(InvalidRequest, match=r"^columns/0: 'fields.emial' .*did you mean 'fields.email'"):
        search_users(shop, columns=["fields.emial"])
    with pytest.raises(InvalidRequest, match="^multi_field_mode: "):
        search_users(shop, columns=[], multi_field_mode="first")
