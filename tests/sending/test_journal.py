"""Journals: what a run leaves behind when it ends anywhere, and what the next one makes of it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import ExitStack

import pandas as pd
import pytest
from support.journal_runs import (
    YEAR,
    Interrupted,
    Target,
    calls,
    campaign,
    killed,
    lines_of,
    orders,
    prepare,
    send_orders,
    send_spent,
    send_updates,
    spent,
    updates,
    watched,
)

import attrib_ds as at
from attrib_ds import connect
from attrib_ds.errors import InvalidRequest, ServiceFailure, Unavailable
from attrib_ds.records.frames import TEXT
from attrib_ds.sending.journal import Purpose, Recording, Row, open_journal
from attrib_ds.service.accounts.administration import create_key
from attrib_ds.service.http.server import running
from attrib_ds.service.http.server_options import ServerOptions

ONE_BY_ONE = '[create_events]\npath = "/nowhere"\n'


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "my-shop.duckdb"
    prepare(path)
    return path


@pytest.fixture
def targets(template, tmp_path):
    """Return a way to a project of its own: embedded, of a server, or of one that takes events one by one."""
    with ExitStack() as stack:

        def target(kind):
            folder = tmp_path / "projects"
            folder.mkdir()
            shutil.copy(template, folder)
            if kind == "embedded":
                return Target(path=folder / template.name)
            key = tmp_path / "key.json"
            create_key(folder, key, projects=None)
            routes = None
            if kind == "one by one":
                routes = tmp_path / "routes.toml"
                routes.write_text(ONE_BY_ONE)
            url = stack.enter_context(running(folder, options=ServerOptions(rate_limits=None)))
            return Target(url=url, key=key, routes=routes)

        yield target


@pytest.fixture
def embedded(template, tmp_path):
    path = tmp_path / "embedded.duckdb"
    shutil.copy(template, path)
    with connect("my-shop", path=path) as project:
        yield project


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "rows.journal"


def count(project, metric="event-count"):
    found = at.event_insights(project, metrics=[metric], **YEAR)
    return int(found[f"values.{metric}"].fillna(0).sum())


def assert_orders(result, count_of_rows):
    """The second is in the trash, the third was refused, all others are events of their own."""
    told = ["processed"] * count_of_rows
    told[1:3] = ["trashed", "rejected"]
    assert result["status"].tolist() == told
    assert result["id"].nunique() == count_of_rows - 1
    assert result["error"][1].startswith("data/email: ")
    assert result["error"][2].startswith("data: ")
    assert result["error"].isna().sum() == count_of_rows - 2


def assert_same(told, wanted):
    """Two results are the same, but for the requests that the service tells of."""
    pd.testing.assert_frame_equal(
        *(
            each.assign(error=each["error"].str.replace(r" \(request [0-9a-f-]+\)$", "", regex=True))
            for each in (told, wanted)
        )
    )


# -- killed at random moments -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "http", "one by one"])
def test_killed_again_and_again_each_row_is_one_event(targets, journal, kind):
    target = targets(kind)
    killed(target, send_orders, 300, journal, rows=300, seed=7, kills=2)
    with target.open() as shop:
        result = send_orders(shop, 300, journal)
        assert_orders(result, 300)
        assert count(shop) == 298
        assert at.list_trashed_events(shop)["_id"].tolist() == [result["id"][1]]
        assert_same(send_orders(shop, 300, journal), result)
        assert count(shop) == 298


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "http"])
def test_killed_again_and_again_each_row_is_one_outlay(targets, journal, kind):
    target = targets(kind)
    killed(target, send_spent, 60, journal, rows=60, seed=3, kills=2)
    with target.open() as shop:
        result = send_spent(shop, 60, journal)
        assert set(result["status"]) == {"created"}
        stored = at.list_outlays(shop, "ads", campaign(shop))
        assert sorted(stored["_id"]) == sorted(result["id"])
        assert sorted(stored["amount.amount"]) == sorted([1.5 + each // 2 for each in range(60)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "http"])
def test_killed_again_and_again_the_last_update_of_each_event_counts(targets, journal, kind):
    target = targets(kind)
    with target.open() as shop:
        ids = at.send_events(shop, orders(20, spoiled=False), event_type="order")["id"].tolist()
    killed(target, send_updates, ids, journal, rows=60, seed=5, kills=2)
    with target.open() as shop:
        result = send_updates(shop, ids, journal)
        assert result["status"].tolist() == ["updated"] * 60
        assert result["id"].tolist() == [id for id in ids for _ in range(3)]
        assert count(shop, "won") == 20


# -- ended before or after each request -------------------------------------------------------------


def order_rows(project, journal):
    return send_orders(project, 4, journal)


def outlay_rows(project, journal):
    # One is there already, two are the same, one is refused.
    return at.create_outlays(project, "ads", spent(project, 9.0, 5.0, 5.0, -1.0, 7.25), journal=journal)


def call_rows(project, journal):
    rows = pd.concat([calls(3), calls(1)], ignore_index=True)
    rows.loc[1, "nodeData.vendorId"] = "unknown"
    return at.create_offline_interactions(project, rows, journal=journal)


def ids_of(project):
    return at.send_events(project, orders(2, spoiled=False), event_type="order")["id"].tolist()


def state_rows(project, journal):
    return at.update_states(project, updates(ids_of(project)), journal=journal)


def statistic_rows(project, journal):
    worth = {"storageKey": "turnover", "value": [90.5, 1.0], "date": "2025-03-02T12:00:00Z"}
    return at.update_statistics(project, pd.DataFrame({"id": ids_of(project), **worth}), journal=journal)


ROWS = {
    order_rows: ["processed", "trashed", "rejected", "processed"],
    outlay_rows: ["present", "created", "created", "rejected", "created"],
    call_rows: ["created", "rejected", "created", "present"],
    state_rows: ["updated"] * 6,
    statistic_rows: ["updated"] * 2,
}


def assert_stored(project):
    """Two orders of a frame and two that were there; all else as often as it was sent."""
    assert (count(project), count(project, "won")) == (4, 2)
    turnover = at.event_insights(project, metrics=["turnover"], **YEAR).iloc[0]
    assert 91.5 in turnover.tolist(), turnover
    assert len(at.list_trashed_events(project)) == 1
    outlays = at.list_outlays(project, "ads", campaign(project))
    assert sorted(outlays["amount.amount"]) == [5.0, 5.0, 7.25, 9.0]
    assert sorted(at.search_interactions(project)["externalId"].dropna()) == ["call-0", "call-2"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["embedded", "http", "one by one"])
def test_ended_around_any_request_the_next_run_makes_it_whole(targets, journal, kind, moment):
    with targets(kind).open() as shop:
        at.create_outlays(shop, "ads", spent(shop, 9.0))
        ids_of(shop)
        results = {}
        for rows, wanted in ROWS.items():
            path = journal.with_name(rows.__name__)
            ended = 0
            # The first run ends around its first request, the second around its second one, and so on.
            while rows not in results:
                try:
                    results[rows] = rows(watched(shop, **{moment: ended + 1}), path)
                except Interrupted:
                    ended += 1
            assert ended > 0
            assert results[rows]["status"].tolist() == wanted
        assert_stored(shop)
        for rows, result in results.items():
            assert_same(rows(shop, journal.with_name(rows.__name__)), result)
        assert_stored(shop)


def test_what_is_known_is_not_sent(embedded, journal):
    result = at.send_events(embedded, orders(4, spoiled=False), event_type="order", journal=journal)
    content = journal.read_bytes()
    watching = watched(embedded)
    again = at.send_events(watching, orders(4, spoiled=False), event_type="order", journal=journal)
    pd.testing.assert_frame_equal(again, result)
    assert watching.transport.sent == []
    assert journal.read_bytes() == content
    more = at.send_events(watching, orders(6, spoiled=False), event_type="order", journal=journal)
    pd.testing.assert_frame_equal(more.head(4), result)
    assert more["status"].tolist() == ["processed"] * 6
    assert lines_of(journal) == 1 + 2 * 6


def test_a_finished_journal_needs_no_service(embedded, journal):
    result = at.send_events(embedded, orders(2), event_type="order", journal=journal)
    embedded.close()
    pd.testing.assert_frame_equal(
        at.send_events(embedded, orders(2), event_type="order", journal=journal).head(1), result.head(1)
    )


# -- rows -------------------------------------------------------------------------------------------


def test_a_row_that_changed_is_told_and_not_sent(embedded, journal):
    send_orders(embedded, 4, journal)
    changed = orders(4).assign(**{"data.email": "anna@example.com"}).iloc[::-1]
    result = at.send_events(
        embedded, changed, event_type="order", nonce_columns=["data.orderId"], journal=journal
    )
    assert result["status"].to_dict() == dict.fromkeys(range(4), "rejected")
    assert result["error"][0] == (
        "journal: the row was sent before with different content (processed), so it was not sent again; "
        "restore the content, or give the row another key, or choose another journal"
    )
    assert "(trashed)" in result["error"][1]
    assert result["error"][2].startswith("data: ")
    assert count(embedded) == 2


def test_the_same_number_in_another_form_is_no_change(embedded, journal):
    def send(weights):
        rows = orders(2, spoiled=False).assign(**{"data.weight": weights})
        columns = {"nonce_columns": ["data.orderId"]}
        return at.send_events(embedded, rows, event_type="order", journal=journal, **columns)

    first = send(pd.Series([90, 1.5], dtype=object))
    pd.testing.assert_frame_equal(send(pd.Series([90.0, 1.5])), first)
    assert first["status"].tolist() == ["processed"] * 2


@pytest.mark.slow
def test_a_row_that_was_refused_may_be_put_right(embedded, journal):
    send_orders(embedded, 4, journal)
    mended = orders(4)
    mended.loc[2, "data.weight"] = 2.5
    result = at.send_events(
        embedded, mended, event_type="order", nonce_columns=["data.orderId"], journal=journal
    )
    assert result["status"].tolist() == ["processed", "trashed", "processed", "processed"]
    there = journal.with_name("calls")
    visits = calls(1)
    stranger = visits.rename(columns={"userData.email": "userData.unknown"})
    told = [
        at.create_offline_interactions(embedded, each, journal=there)["status"].item()
        for each in (stranger, stranger, visits, visits)
    ]
    assert told == ["rejected", "rejected", "created", "created"]
    rows = spent(embedded, 5.0).assign(campaignId="unknown")
    there = journal.with_name("outlays")
    assert at.create_outlays(embedded, "ads", rows, journal=there)["status"].tolist() == ["rejected"]
    at.create_outlays(embedded, "ads", spent(embedded, 5.0), journal=there)
    assert len(at.list_outlays(embedded, "ads", campaign(embedded))) == 1


def test_another_amount_is_not_spent_besides(embedded, journal):
    first = at.create_outlays(embedded, "ads", spent(embedded, 5.0, 6.5), journal=journal)
    # The same number in another type is the same amount.
    again = at.create_outlays(embedded, "ads", spent(embedded, 5, 6.75), journal=journal)
    assert again["status"].tolist() == ["created", "rejected"]
    assert again["id"].tolist() == first["id"].tolist()
    assert at.list_outlays(embedded, "ads", campaign(embedded))["amount.amount"].sum() == 11.5


def test_rows_on_their_way_whose_content_changed_are_told(embedded, journal):
    with pytest.raises(Interrupted):
        send_spent(watched(embedded, after=1), 1, journal)
    result = at.create_outlays(embedded, "ads", spent(embedded, 8.0), journal=journal)
    assert result["status"].tolist() == ["rejected"]
    assert "(delivery unconfirmed)" in result["error"].item()
    assert send_spent(embedded, 1, journal)["status"].tolist() == ["created"]
    assert len(at.list_outlays(embedded, "ads", campaign(embedded))) == 1


@pytest.mark.slow
def test_rows_of_one_nonce_are_told_apart(embedded, journal):
    rows = orders(3, spoiled=False).assign(nonce="n-1").drop(columns="data.orderId")
    rows.loc[1] = rows.loc[0]
    result = at.send_events(embedded, rows, event_type="order", journal=journal)
    assert result["status"].tolist() == ["processed", "processed", "rejected"]
    pd.testing.assert_frame_equal(at.send_events(embedded, rows, event_type="order", journal=journal), result)
    assert count(embedded) == 1


def test_the_same_row_twice_is_two_events(embedded, journal):
    rows = pd.concat([orders(1)] * 2, ignore_index=True)
    result = at.send_events(embedded, rows, event_type="order", journal=journal)
    assert result["id"].nunique() == 2
    pd.testing.assert_frame_equal(at.send_events(embedded, rows, event_type="order", journal=journal), result)
    assert count(embedded) == 2


def test_what_was_accepted_is_asked_for_again_by_who_waits(embedded, journal):
    def send(**wait):
        return at.send_events(embedded, orders(2, spoiled=False), event_type="order", journal=journal, **wait)

    accepted = send(wait=False)
    assert accepted["status"].tolist() == ["accepted"] * 2
    pd.testing.assert_frame_equal(send(wait=False), accepted)
    pd.testing.assert_frame_equal(send(), accepted.assign(status=pd.Series(["processed"] * 2, dtype=TEXT)))
    assert send(wait=False)["status"].tolist() == ["processed"] * 2
    assert count(embedded) == 2


def test_an_empty_frame_makes_an_empty_journal(embedded, journal):
    result = at.send_events(embedded, orders(0), event_type="order", journal=journal)
    assert (result.shape, list(result.columns)) == ((0, 3), ["status", "id", "error"])
    assert at.create_outlays(embedded, "ads", spent(embedded), journal=journal.with_name("2")).empty
    assert at.update_states(embedded, updates([]), journal=journal.with_name("3")).empty
    assert at.create_offline_interactions(embedded, calls(0), journal=journal.with_name("4")).empty
    assert lines_of(journal) == 1
    assert send_orders(embedded, 4, journal)["status"].notna().all()


def test_calls_without_ids_of_their_own_have_no_journal(embedded, journal):
    rows = calls(3)
    rows.loc[1, "externalId"] = None
    with pytest.raises(
        InvalidRequest, match="externalId is required in each row, and missing in 1 .first: row 1."
    ) as caught:
        at.create_offline_interactions(embedded, rows, journal=journal)
    assert caught.value.details == [{"row": 1, "problem": "externalId is required"}]
    assert at.search_interactions(embedded).empty
    assert not journal.exists()


# -- the file ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_cut_off_anywhere_it_is_read(embedded, journal):
    result = send_orders(embedded, 4, journal)
    content = journal.read_bytes()
    for length in range(0, len(content), 83):
        for tail in (b"", b"\0" * 40):
            journal.write_bytes(content[:length] + tail)
            pd.testing.assert_frame_equal(send_orders(embedded, 4, journal), result)
            # What was written behind the cut is read too.
            pd.testing.assert_frame_equal(send_orders(embedded, 4, journal), result)
            assert all(json.loads(line) for line in journal.read_bytes().splitlines())
    assert count(embedded) == 2


def test_it_holds_hashes_ids_and_statuses(embedded, journal):
    send_orders(embedded, 4, journal)
    header, *lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sorted(header) == ["function", "journal", "project", "salt", "service", "version"]
    assert {name for line in lines for name in line} == {"row", "content", "status", "id"}
    for secret in ("example.com", "nobody", "order-"):
        assert secret not in journal.read_text().replace(header["service"], "")
    assert journal.stat().st_mode & 0o077 == 0
    # The same row in another journal has other hashes.
    other = journal.with_name("other")
    send_orders(embedded, 4, other)
    assert not {line["row"] for line in lines} & {
        json.loads(line).get("row") for line in other.read_text().splitlines()
    }


def test_a_row_is_in_it_before_it_is_sent(embedded, journal):
    for number, function in enumerate([order_rows, call_rows, statistic_rows], start=1):
        path = journal.with_name(str(number))
        project = watched(embedded, before=2 if function is statistic_rows else 1)
        with pytest.raises(Interrupted):
            function(project, path)
        assert lines_of(path) > 1


def test_rows_are_on_the_disk_before_they_are_sent(journal, monkeypatch):
    """A machine that loses its power keeps what was synced, and nothing else for sure."""
    sizes, fsync = [], os.fsync

    def watch(descriptor):
        fsync(descriptor)
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", watch)
    purpose = Purpose(function="send_events", project="my-shop", service="https://b.example/api/v1")
    with open_journal(journal, purpose) as opened:
        recording = Recording(opened, [Row("a", "1"), Row("b", "2")])
        for position in (0, 1):
            recording.start([position])
            assert sizes[-1] == journal.stat().st_size
            assert lines_of(journal) == position + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"project": "her-shop"}, "belongs to the project 'her-shop', not to 'my-shop'"),
        ({"service": "https://a.example/api/v1"}, "belongs to the service 'https://a.example/api/v1', not"),
        ({"function": "update_states"}, "belongs to the function 'update_states', not to 'send_events'"),
    ],
)
def test_a_journal_of_something_else_is_refused(embedded, journal, change, message):
    service = embedded.transport.address
    told = {"function": "send_events", "project": "my-shop", "service": service, **change}
    with open_journal(journal, Purpose(**told)):
        pass
    content = journal.read_bytes()
    with pytest.raises(InvalidRequest, match=message) as caught:
        send_orders(embedded, 4, journal)
    assert caught.value.field == "journal"
    assert journal.read_bytes() == content
    assert count(embedded) == 0


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"a,b", b'{"journal": "attrib-ds"}\n', b'{"journal": "attrib-ds", "ver\n']
)
def test_a_file_of_another_kind_is_left_as_it_is(embedded, journal, content):
    journal.write_bytes(content)
    with pytest.raises(InvalidRequest, match="is not a readable journal"):
        send_orders(embedded, 4, journal)
    assert journal.read_bytes() == content


def test_a_damaged_line_is_told(embedded, journal):
    send_orders(embedded, 4, journal)
    lines = journal.read_bytes().split(b"\n")
    for damaged in (b"x", b'{"row":1,"content":"2"}', b'{"row":"1"}', b"[]"):
        journal.write_bytes(b"\n".join([*lines[:3], damaged, *lines[4:]]))
        with pytest.raises(InvalidRequest, match="line 4 of .* is corrupt"):
            send_orders(embedded, 4, journal)


def test_places_where_no_journal_can_be(embedded, tmp_path):
    for path in (tmp_path, tmp_path / "none" / "x.journal"):
        with pytest.raises(InvalidRequest, match="journal: .* cannot be opened"):
            send_orders(embedded, 4, path)
    gone = pytest.raises(InvalidRequest, match="journal: an in-memory project cannot have a journal")
    with connect("my-shop", path=":memory:") as memory, gone:
        send_orders(memory, 4, tmp_path / "x.journal")
    assert not (tmp_path / "x.journal").exists()


def test_two_runs_at_once_are_refused(embedded, journal):
    purpose = Purpose(function="send_events", project="my-shop", service=embedded.transport.address)
    with open_journal(journal, purpose), pytest.raises(Unavailable, match="is in use by another run"):
        send_orders(embedded, 4, journal)
    assert_orders(send_orders(embedded, 4, journal), 4)


# -- failures and interrupts ------------------------------------------------------------------------


def test_a_failure_tells_what_was_reached_and_the_next_run_goes_on(embedded, journal):
    failure = ServiceFailure("broken")
    rows = spent(embedded, 1.0, 2.0, 3.0)
    with pytest.raises(ServiceFailure, match="broken") as caught:
        at.create_outlays(watched(embedded, before=1, error=failure), "ads", rows, journal=journal)
    assert caught.value.partial["status"].tolist() == ["failed", "unsent", "unsent"]
    half = at.create_outlays(watched(embedded, after=2, error=failure), "ads", rows, journal=journal)
    assert half["status"].tolist() == ["created", "failed", "unsent"]
    whole = at.create_outlays(embedded, "ads", rows, journal=journal)
    assert whole["status"].tolist() == ["created"] * 3
    assert len(at.list_outlays(embedded, "ads", campaign(embedded))) == 3


SENDS = {
    "events": lambda shop, **how: at.send_events(shop, orders(3, spoiled=False), event_type="order", **how),
    # Two of one kind: the second is told from the first.
    "outlays": lambda shop, **how: at.create_outlays(shop, "ads", spent(shop, 5.0, 5.0), **how),
    "calls": lambda shop, **how: at.create_offline_interactions(shop, calls(2), **how),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("request_number", [1, 2])
@pytest.mark.parametrize("has_journal", [False, True])
@pytest.mark.parametrize("kind", SENDS)
def test_the_same_call_after_a_failure_stores_each_row_once(
    embedded, journal, kind, has_journal, request_number, moment
):
    how = {"journal": journal} if has_journal else {}
    broken = watched(embedded, **{moment: request_number}, error=Unavailable("gone"))
    try:
        sent = SENDS[kind](broken, **how)
    except Unavailable as error:
        sent = error.partial
    again = SENDS[kind](embedded, **how)
    assert set(again["status"]) <= {"processed", "created", "present"}
    assert again["error"].isna().all()
    assert again["id"].is_unique
    stored = sent["id"].notna()
    assert again["id"][stored].tolist() == sent["id"][stored].tolist()
    assert count(embedded) == (3 if kind == "events" else 0)
    outlays = at.list_outlays(embedded, "ads", campaign(embedded))
    assert outlays["amount.amount"].tolist() == ([5.0, 5.0] if kind == "outlays" else [])
    interactions = at.search_interactions(embedded)
    assert sorted(interactions["externalId"].dropna()) == (["call-0", "call-1"] if kind == "calls" else [])
    if has_journal:
        watching = watched(embedded)
        pd.testing.assert_frame_equal(SENDS[kind](watching, **how), again)
        assert watching.transport.sent == []


@pytest.mark.slow
def test_only_rows_that_are_not_accepted_are_sent_again(embedded, journal):
    failure = Unavailable("slow down")
    half = send_orders(watched(embedded, before=2, error=failure), 1_003, journal)
    assert half["status"].value_counts().to_dict() == {
        "failed": 500, "processed": 498, "unsent": 3, "trashed": 1, "rejected": 1,
    }  # fmt: skip
    watching = watched(embedded)
    whole = send_orders(watching, 1_003, journal)
    assert_orders(whole, 1_003)
    # The trashed row, and the 503 that were not sent or not answered.
    assert watching.transport.sent == ["create_events"] * 2
    pd.testing.assert_frame_equal(whole.head(500), half.head(500))
    assert count(embedded) == 1_001


@pytest.mark.slow
def test_the_order_of_columns_is_no_change(embedded, journal):
    rows = orders(2, spoiled=False)
    first = at.send_events(embedded, rows, event_type="order", journal=journal)
    # With a journal and without one: the nonce does not change either.
    for how in ({"journal": journal}, {}):
        again = at.send_events(embedded, rows[rows.columns[::-1]], event_type="order", **how)
        pd.testing.assert_frame_equal(again, first)
    assert count(embedded) == 2


def test_a_service_that_cannot_be_asked_at_all_tells_the_rows_too(embedded, journal):
    embedded.close()
    with pytest.raises(Unavailable) as caught:
        send_orders(embedded, 3, journal)
    assert set(caught.value.partial["status"]) == {"failed"}


@pytest.mark.slow
def test_an_interrupt_leaves_no_thread_and_what_was_done_is_known(embedded, journal):
    ids = at.send_events(embedded, orders(20, spoiled=False), event_type="order")["id"].tolist()
    before = set(threading.enumerate())
    interrupted = watched(embedded, before=10, error=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        at.update_states(interrupted, updates(ids), journal=journal)
    (note,) = caught.value.__notes__
    assert note.startswith("attrib-ds: ")
    assert note.endswith(" of 60 rows were answered; the same call with the same journal sends the rest")
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("ThreadPool")]
    watching = watched(embedded)
    assert at.update_states(watching, updates(ids), journal=journal)["status"].tolist() == ["updated"] * 60
    assert len(watching.transport.sent) < 60
    assert count(embedded, "won") == 20
