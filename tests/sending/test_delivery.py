"""Dry runs: every row is checked, and nothing is sent."""

import shutil

import pandas as pd
import pytest
from support.sent_frames import Interrupted, calls, campaign, orders, prepare, spent, updates, watched

import attrib_ds as at
from attrib_ds import Project, connect
from attrib_ds.errors import InvalidRequest, NotFound, NotSupported, Unavailable


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    prepare(folder / "my-shop.duckdb")
    return folder


@pytest.fixture
def shop(files, tmp_path):
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    with connect("my-shop", path=tmp_path / "my-shop.duckdb") as project:
        yield project


class Refusing:
    """Hands requests to a transport, and refuses to check events."""

    def __init__(self, inner, error):
        self.inner, self.error = inner, error

    @property
    def address(self):
        return self.inner.address

    def send(self, operation, request):
        if operation.name == "validate_event":
            raise self.error
        return self.inner.send(operation, request)

    def close(self):
        self.inner.close()


def test_events_are_checked_against_their_type(shop):
    watching = watched(shop)
    rows = orders(5).set_index(pd.Index(list("abcde")))
    told = at.send_events(
        watching,
        rows,
        event_type="order",
        nonce_columns=["data.orderId"],
        dry_run=True,
    )
    assert told.index.tolist() == list("abcde")
    assert list(told.columns) == ["status", "id", "error"]
    assert told["status"].tolist() == ["valid", "rejected", "rejected", "valid", "valid"]
    assert told["id"].isna().all()
    assert told["error"]["b"].startswith("data.email: expected an email address, got text ")
    assert told["error"]["c"].startswith("data: ")
    assert set(watching.transport.sent) == {"validate_event"}
    assert at.list_trashed_events(shop).empty


def test_events_that_could_not_be_sent_again_are_told(shop):
    rows = pd.DataFrame(
        {
            "eventDate": ["2025-01-31T12:00:00Z", None, "2025-01-31T12:00:00Z"],
            "data.email": "anna@example.com",
            "data.weight": [1.0, 2.5, float("-inf")],
        }
    )
    told = at.send_events(shop, rows, event_type="order", dry_run=True)
    assert told["status"].tolist() == ["valid", "rejected", "rejected"]
    assert told["error"][1] == "events: nonce or eventDate is required"
    assert "-inf" in told["error"][2]


@pytest.mark.parametrize("error", [NotFound("no such path"), NotSupported("no")])
def test_a_service_that_does_not_check_leaves_the_form(shop, error):
    unable = Project("my-shop", Refusing(shop.transport, error))
    told = at.send_events(unable, orders(4), event_type="order", nonce_columns=["data.orderId"], dry_run=True)
    assert told["status"].tolist() == ["valid", "valid", "rejected", "valid"]


def test_a_service_that_fails_is_told(shop):
    failing = Project("my-shop", Refusing(shop.transport, Unavailable("gone")))
    with pytest.raises(Unavailable, match="gone"):
        at.send_events(failing, orders(2), event_type="order", dry_run=True)


def test_other_rows_are_checked_by_their_form(shop):
    watching = watched(shop)
    visits = calls(3).assign(date=["2025-01-31T12:00:00Z", "yesterday", None])
    outlays = spent(shop, 5.0, -1.0, 5.1234567)
    states = updates(["00000000-0000-7000-8000-000000000001"]).assign(value=[1, 2, 0])
    statistics = states.assign(value=[1.5, float("nan"), 3])
    told = {
        "calls": at.create_offline_interactions(watching, visits, dry_run=True),
        "outlays": at.create_outlays(watching, "ads", outlays, dry_run=True),
        "states": at.update_states(watching, states, dry_run=True),
        "statistics": at.update_statistics(watching, statistics, dry_run=True),
    }
    assert {name: each["status"].tolist() for name, each in told.items()} == {
        "calls": ["valid", "rejected", "rejected"],
        "outlays": ["valid", "rejected", "rejected"],
        "states": ["valid", "rejected", "valid"],
        "statistics": ["valid", "rejected", "valid"],
    }
    assert told["outlays"]["error"][1].startswith("amount: ")
    assert told["calls"]["error"][1].startswith("date: ")
    assert watching.transport.sent == []
    assert at.list_outlays(shop, "ads", campaign(shop)).empty


def test_what_is_refused_in_a_dry_run_is_refused_when_sent(shop):
    rows = spent(shop, 5.0, -1.0)
    dry = at.create_outlays(shop, "ads", rows, dry_run=True)
    sent = at.create_outlays(shop, "ads", rows)
    assert dry["error"].tolist()[1:] == sent["error"].tolist()[1:]
    with pytest.raises(InvalidRequest, match="has an unknown column 'amuont'"):
        at.create_outlays(shop, "ads", rows.rename(columns={"amount": "amuont"}), dry_run=True)


def test_empty_frames_are_in_order(shop):
    for told in (
        at.send_events(shop, orders(0), event_type="order", dry_run=True),
        at.create_outlays(shop, "ads", spent(shop), dry_run=True),
        at.create_offline_interactions(shop, calls(0), dry_run=True),
        at.update_states(shop, updates([]), dry_run=True),
    ):
        assert (len(told), list(told.columns)) == (0, ["status", "id", "error"])


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 3])
def test_the_same_call_after_an_interrupted_one_stores_each_row_once(shop, moment, number):
    rows = spent(shop, 5.0, 5.0, 7.5, 8.0)
    with pytest.raises(Interrupted):
        at.create_outlays(watched(shop, **{moment: number}), "ads", rows)
    again = at.create_outlays(shop, "ads", rows)
    assert set(again["status"]) <= {"created", "present"}
    assert (again["status"] == "present").sum() == number - (moment == "before")
    stored = at.list_outlays(shop, "ads", campaign(shop), sort="amount")
    assert stored["amount.amount"].tolist() == [5.0, 5.0, 7.5, 8.0]


def test_the_same_row_twice_is_two_events(shop):
    rows = pd.concat([orders(1)] * 2, ignore_index=True)
    result = at.send_events(shop, rows, event_type="order")
    assert result["id"].nunique() == 2
    pd.testing.assert_frame_equal(at.send_events(shop, rows, event_type="order"), result)
