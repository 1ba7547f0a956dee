"""Offline interactions as an analyst sends them: a frame of calls."""

import json

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.errors import InvalidRequest


@pytest.fixture
def centre():
    """A project with an integration for phone calls and one campaign of it."""
    with at.connect("my-shop", path=":memory:") as project:
        project.send("create_integration", vendor_id="phone", name="Call centre")
        at.create_campaign(project, "phone", "flyer", name="Flyer")
        yield project


def calls(*rows, columns=("date", "userData.email", "nodeData.vendorId"), index=None):
    return pd.DataFrame(list(rows), columns=list(columns), index=index)


@pytest.mark.slow
def test_each_row_is_an_interaction(centre):
    """R028, R029, R030, R185, R187."""
    rows = calls(
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "flyer"),
        ("2025-02-01T12:00:00Z", "ANNA@example.com ", "phone", None),
        ("2025-02-01T12:00:00Z", None, "phone", "flyer"),
        ("2025-02-01", "anna@example.com", "phone", "flyer"),
        ("2025-02-01T12:00:00Z", "anna@example.com", "fax", "flyer"),
        (None, "anna@example.com", "phone", "flyer"),
        ("2025-02-01T12:00:00Z", "anna@example.com", None, "flyer"),
        columns=("date", "userData.email", "nodeData.vendorId", "nodeData.campaignSlug"),
        index=list("abcdefg"),
    )
    before = rows.copy()
    result = at.create_offline_interactions(centre, rows)
    pd.testing.assert_frame_equal(rows, before)
    assert result.index.tolist() == list("abcdefg")
    assert result["status"].tolist() == ["created", "created", *["rejected"] * 5]
    assert [error.partition(":")[0] for error in result["error"].dropna()] == [
        "user_data",
        "date",
        "node_data/vendorId",
        "date",
        "node_data",
    ]
    first, second = (at.get_interaction(centre, id) for id in result["id"].dropna())
    assert (first["type"], first["userLifetimeIndex"], second["userLifetimeIndex"]) == ("offline", 1, 2)
    assert first["userId"] == second["userId"]
    assert first["startDate"] == pd.Timestamp("2025-01-31T12:00:00Z")
    flyer = at.list_campaigns(centre, "phone", campaign_slug="flyer")["id"].item()
    assert first["nodeId"] == flyer
    assert json.loads(first["rawNodeData"]) == {"vendorId": "phone", "campaignSlug": "flyer"}
    assert json.loads(second["rawNodeData"]) == {"vendorId": "phone"}
    assert at.search_interactions(centre).attrs["total"] == 2


def test_an_external_id_makes_a_second_run_harmless(centre):
    """G-143."""
    columns = ("date", "userData.email", "nodeData.vendorId", "externalId")
    rows = calls(
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "call-1"),
        ("2025-01-31T12:00:00Z", "ben@example.com", "phone", "call-2"),
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "call-1"),
        columns=columns,
    )
    first = at.create_offline_interactions(centre, rows)
    assert first["status"].tolist() == ["created", "created", "present"]
    again = at.create_offline_interactions(centre, rows)
    assert again["status"].tolist() == ["present"] * 3
    assert again["id"].tolist() == first["id"].tolist()
    assert first["id"][0] == first["id"][2]


def test_ids_that_a_file_holds_as_numbers_are_ids(centre):
    """A missing cell turns whole numbers into floats, and ids must not end in .0."""
    columns = ("date", "userData.vendorUserId", "nodeData.vendorId", "nodeData.campaignId", "externalId")
    rows = calls(
        ("2025-01-31T12:00:00Z", 5.0, "phone", 7.0, 1.0),
        ("2025-01-31T12:00:00Z", 5.0, "phone", None, None),
        columns=columns,
    )
    assert at.create_offline_interactions(centre, rows)["error"].isna().all()
    found = at.search_interactions(centre, columns=["rawNodeData", "userData", "externalId"], sort="_id")
    assert json.loads(found["rawNodeData"][0]) == {"vendorId": "phone", "campaignId": 7}
    assert json.loads(found["userData"][0]) == {"vendorUserId": "5"}
    assert found["externalId"][0] == "1"


def test_dates_may_be_instants(centre):
    moments = pd.to_datetime(["2025-01-31T13:00:00+01:00"], utc=True)
    rows = pd.DataFrame({"date": moments, "userData.phone": ["1"], "nodeData.vendorId": ["phone"]})
    assert at.create_offline_interactions(centre, rows)["status"].tolist() == ["created"]
    assert at.search_interactions(centre)["startDate"].tolist() == [pd.Timestamp("2025-01-31T12:00:00Z")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["userData.email"], "frame: has no column 'date'"),
        (["date", "email"], "has an unknown column 'email'; allowed: date, externalId, userData.<key>"),
        (["date", "userData"], "has an unknown column 'userData'"),
        (["date", "external_id"], r"'external_id' \(did you mean 'externalId'\?\)"),
    ],
)
def test_a_frame_of_another_form_is_refused_as_a_whole(centre, columns, message):
    with pytest.raises(InvalidRequest, match=message):
        at.create_offline_interactions(centre, pd.DataFrame(columns=columns))


def test_a_key_that_identifies_nobody_is_named(centre):
    """R186."""
    rows = calls(
        ("2025-01-31T12:00:00Z", "anna@example.com", "phone", "Anna"),
        columns=("date", "userData.email", "nodeData.vendorId", "userData.firstName"),
    )
    (error,) = at.create_offline_interactions(centre, rows)["error"]
    assert error == "user_data/firstName: 'firstName' is not allowed; allowed: email, phone, vendorUserId"
