"""Rows that failed are sent again, the others are not, and nothing is stored twice."""

from __future__ import annotations

import pickle
import shutil

import pandas as pd
import pytest
from support.journal_runs import YEAR, Interrupted, calls, campaign, orders, prepare, spent, updates, watched

import attrib_ds as at
from attrib_ds import Project, connect
from attrib_ds.errors import (
    AttribError,
    Forbidden,
    InvalidRequest,
    ServiceFailure,
    TooManyRequests,
    Unavailable,
)

WRITING = {
    "create_events",
    "create_offline_interaction",
    "create_outlay",
    "update_event_state",
    "update_event_statistic",
}


class Failing:
    """Hands requests to a transport; some writes fail, and are carried out nevertheless if that is told."""

    def __init__(self, inner, error, *, at_requests, is_carried_out=False):
        self.inner, self.error, self.at_requests = inner, error, at_requests
        self.is_carried_out = is_carried_out
        self.written = 0

    @property
    def address(self):
        return self.inner.address

    def send(self, operation, request):
        if operation.name in WRITING:
            self.written += 1
            if self.written in self.at_requests:
                if self.is_carried_out:
                    self.inner.send(operation, request)
                raise self.error
        return self.inner.send(operation, request)

    def close(self):
        self.inner.close()


def failing(shop, error=None, **how):
    return Project("my-shop", Failing(shop.transport, error or Unavailable("gone"), **how))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "my-shop.duckdb"
    prepare(path)
    return path


@pytest.fixture
def shop(template, tmp_path):
    path = tmp_path / "my-shop.duckdb"
    shutil.copy(template, path)
    with connect("my-shop", path=path) as project:
        yield project


def events_of(project):
    return counted(project, "event-count")


def counted(project, metric):
    return at.event_insights(project, metrics=[metric], **YEAR)[f"values.{metric}"].item()


def outlays_of(project):
    return sorted(at.list_outlays(project, "ads", parent_campaign_id=campaign(project))["amount.amount"])


def send_outlays(project, frame, **how):
    return at.create_outlays(project, "ads", frame, **how)


def three_orders(shop):
    return orders(3, spoiled=False)


def send_orders(project, frame, **how):
    return at.send_events(project, frame, event_type="order", nonce_columns=["data.orderId"], **how)


def two_outlays(shop):
    # Two of one kind: the second is told from the first.
    return spent(shop, 5.0, 5.0)


def two_calls(shop):
    return calls(2)


@pytest.mark.parametrize("is_carried_out", [False, True])
@pytest.mark.parametrize("at_request", [1, 2])
@pytest.mark.parametrize("has_journal", [False, True])
@pytest.mark.parametrize(
    ("send", "rows", "stored", "wanted"),
    [
        (send_orders, three_orders, events_of, 3),
        (send_outlays, two_outlays, outlays_of, [5.0, 5.0]),
        (
            at.create_offline_interactions,
            two_calls,
            lambda shop: sorted(at.search_interactions(shop)["externalId"]),
            ["call-0", "call-1"],
        ),
    ],
)
def test_each_row_is_stored_once(
    shop, tmp_path, send, rows, stored, wanted, has_journal, at_request, is_carried_out
):
    frame = rows(shop).set_axis(list("xyz")[: len(rows(shop))])
    journal = tmp_path / "rows.journal" if has_journal else None
    broken = failing(shop, at_requests={at_request}, is_carried_out=is_carried_out)
    try:
        told = send(broken, frame, journal=journal)
    except AttribError as error:
        told = error.partial
    before = told.copy()
    again = at.retry_failed(shop, frame, told)
    assert stored(shop) == wanted
    assert set(again["status"]) <= {"processed", "created", "present"}
    assert again["error"].isna().all()
    assert again["id"].is_unique
    assert again.index.equals(frame.index)
    pd.testing.assert_frame_equal(told, before)
    # Nothing is left of it.
    watching = watched(shop)
    pd.testing.assert_frame_equal(at.retry_failed(watching, frame, again), again)
    assert watching.transport.sent == []


def test_updates_are_sent_again_in_their_order(shop):
    ids = send_orders(shop, three_orders(shop))["id"].tolist()
    states = updates(ids)
    broken = failing(shop, at_requests={5}, is_carried_out=True)
    told = at.update_states(broken, states)
    assert "failed" in told["status"].tolist()
    again = at.retry_failed(shop, states, told)
    assert again["status"].tolist() == ["updated"] * 9
    assert counted(shop, "won") == 3
    worth = pd.DataFrame({"id": ids, "storageKey": "turnover", "value": [1.5, 2, 4]})
    with pytest.raises(ServiceFailure) as caught:
        at.update_statistics(failing(shop, ServiceFailure("no"), at_requests={1, 2, 3}), worth)
    assert at.retry_failed(shop, worth, caught.value.partial)["status"].tolist() == ["updated"] * 3
    assert counted(shop, "turnover") == 7.5


def test_what_the_service_said_of_a_row_stays(shop):
    rows = orders(1_003)
    told = send_orders(failing(shop, TooManyRequests("slow down"), at_requests={2}), rows)
    assert told["status"].value_counts().to_dict() == {
        "failed": 500, "processed": 498, "unsent": 3, "trashed": 1, "rejected": 1,
    }  # fmt: skip
    watching = watched(shop)
    again = at.retry_failed(watching, rows, told)
    assert again["status"].value_counts().to_dict() == {"processed": 1_001, "trashed": 1, "rejected": 1}
    assert watching.transport.sent == ["create_events"] * 2
    pd.testing.assert_frame_equal(again.head(500), told.head(500))
    assert events_of(shop) == 1_001


def test_a_nonce_made_of_the_content_counts_rows_that_were_processed(shop):
    # The same content twice is two events, also where one of them is sent again alone.
    rows = pd.concat([orders(1, spoiled=False).drop(columns="data.orderId")] * 501, ignore_index=True)
    broken = failing(shop, at_requests={2}, is_carried_out=True)
    told = at.send_events(broken, rows, event_type="order")
    assert told["status"].tolist() == ["processed"] * 500 + ["failed"]
    assert at.retry_failed(shop, rows, told)["status"].tolist() == ["processed"] * 501
    assert events_of(shop) == 501


def test_what_fails_again_may_be_tried_again(shop):
    rows = three_orders(shop)
    with pytest.raises(Forbidden) as caught:
        send_orders(failing(shop, Forbidden("no"), at_requests={1}), rows)
    with pytest.raises(Unavailable) as again:
        at.retry_failed(failing(shop, at_requests={1}), rows, caught.value.partial)
    told = pickle.loads(pickle.dumps(again.value.partial))
    assert at.retry_failed(shop, rows, told)["status"].tolist() == ["processed"] * 3
    assert events_of(shop) == 3


def test_a_call_without_a_name_is_sent_again_only_if_it_was_not_stored_for_sure(shop):
    visits = calls(3).drop(columns="externalId")
    broken = failing(shop, at_requests={2}, is_carried_out=True)
    told = at.create_offline_interactions(broken, visits)
    assert told["status"].tolist() == ["created", "failed", "unsent"]
    again = at.retry_failed(shop, visits, told)
    assert again["status"].tolist() == ["created", "failed", "created"]
    assert again["error"][1] == told["error"][1]
    assert len(at.search_interactions(shop)) == 3
    assert at.retry_failed(shop, visits, again)["status"].tolist() == ["created", "failed", "created"]
    refused = at.create_offline_interactions(failing(shop, TooManyRequests("no"), at_requests={2}), visits)
    assert at.retry_failed(shop, visits, refused)["status"].tolist() == ["created"] * 3


def test_the_way_they_were_sent_outlasts_a_file(shop, tmp_path):
    rows = three_orders(shop)
    with pytest.raises(Unavailable) as caught:
        send_orders(failing(shop, at_requests={1}), rows)
    caught.value.partial.to_parquet(tmp_path / "sent.parquet")
    told = pd.read_parquet(tmp_path / "sent.parquet")
    assert at.retry_failed(shop, rows, told)["status"].tolist() == ["processed"] * 3


def test_an_interrupt_is_told_as_when_they_were_sent_first(shop):
    rows = three_orders(shop)
    with pytest.raises(Unavailable) as caught:
        send_orders(failing(shop, at_requests={1}), rows)
    with pytest.raises(Interrupted):
        at.retry_failed(watched(shop, after=1), rows, caught.value.partial)
    assert at.retry_failed(shop, rows, caught.value.partial)["status"].tolist() == ["processed"] * 3
    assert events_of(shop) == 3


@pytest.mark.parametrize(
    ("frame", "results", "words"),
    [
        (lambda rows: rows, lambda told: None, "results: must be a DataFrame, got NoneType"),
        (lambda rows: rows, lambda told: told.drop(columns="id"), "results: has no column 'id'"),
        (lambda rows: rows, lambda told: pd.DataFrame(told.to_dict()), "results: does not tell how"),
        (lambda rows: rows, lambda told: told.head(2), "frame: is not the frame that was sent"),
        (lambda rows: rows.iloc[::-1], lambda told: told, "frame: is not the frame that was sent"),
        (
            lambda rows: rows.assign(**{"data.email": "anna@example.com"}),
            lambda told: told,
            "frame: is not the frame that was sent.*call send_events again",
        ),
    ],
)
def test_other_frames_are_refused(shop, frame, results, words):
    rows = three_orders(shop)
    with pytest.raises(Unavailable) as caught:
        send_orders(failing(shop, at_requests={1}), rows)
    with pytest.raises(InvalidRequest, match=words):
        at.retry_failed(shop, frame(rows), results(caught.value.partial))
    assert at.list_trashed_events(shop).empty


def test_another_project_is_refused(shop, tmp_path):
    rows = three_orders(shop)
    with pytest.raises(Unavailable) as caught:
        send_orders(failing(shop, at_requests={1}), rows)
    with (
        connect("my-shop", path=tmp_path / "other.duckdb") as other,
        pytest.raises(InvalidRequest, match=r"results: were sent to the service .*my-shop\.duckdb"),
    ):
        at.retry_failed(other, rows, caught.value.partial)
    with pytest.raises(InvalidRequest, match="sent to the project 'my-shop' and not to 'her-shop'"):
        at.retry_failed(Project("her-shop", shop.transport), rows, caught.value.partial)


def test_a_dry_run_is_no_result(shop):
    rows = three_orders(shop)
    with pytest.raises(InvalidRequest, match="results: does not tell how"):
        at.retry_failed(shop, rows, send_orders(shop, rows, dry_run=True))
