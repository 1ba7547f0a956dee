"""Who did what is written down once, with what was done, and without anything personal (G-211)."""

import json
from contextlib import closing
from datetime import timedelta

import pyarrow as pa
import pytest
from support.identified_users import declare, see, user_of
from support.service_records import hex_id, send, table, visit
from support.user_invariants import rows_of

from attrib_ds import instants
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.service import Service

ROBOT = "robot@my-project"


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    declare(opened)
    yield opened
    opened.close()


@pytest.fixture
def anna(service):
    return user_of(service, see(service, "n-anna", email="anna@example.com", confirmed=1))


def ask(service, operation, *, account=ROBOT, **arguments):
    """Carry out an operation for a client."""
    declared = OPERATIONS[operation]
    return service.send(declared, build(declared, project_id="shop", **arguments), account)


def log(service, **asked):
    rows = send(service, "list_audit", **asked).read().to_pylist()
    return [(row["account"], row["operation"], row["subject"], json.loads(row["details"])) for row in rows][
        ::-1
    ]


@pytest.mark.slow
def test_g211_nothing_is_written_down_of_an_embedded_write(service, anna):
    see(service, "n-other", confirmed=1)
    send(service, "update_event_type", id="view", name="Views")
    send(service, "search_users", fields=["fields.email"])
    send(service, "get_user", id=anna)
    assert log(service) == []


@pytest.mark.slow
def test_g211_every_write_by_a_token_is_one_line(service, anna):
    event = ask(service, "create_event", event_type="view", nonce="n-1", data={}).value
    events = [
        {"projectId": "shop", "eventType": "view", "nonce": f"n-{number}", "data": {}} for number in (2, 3)
    ]
    ask(service, "create_events", events=events)
    with pytest.raises(InvalidRequest):
        ask(
            service,
            "create_event_sync",
            event_type="nothing",
            nonce="n-4",
            data={"email": "anna@example.com"},
        )
    ((trashed,),) = rows_of(service, "SELECT _id FROM trashed_events ")
    with pytest.raises(InvalidRequest):
        ask(service, "replay_event", id=trashed)
    ((of_anna,),) = rows_of(service, "SELECT _id FROM raw_events WHERE nonce = 'n-anna'")
    ask(service, "update_event_state", id=of_anna, storageKey="confirmed", value=0)
    ask(service, "create_event_type", reference="order", name="Order")
    ask(service, "set_rates", rates=[{"currency": "NOK", "date": "2025-01-01", "rate": 0.085}])
    ask(service, "merge_users", id=anna, userId=user_of(service, see(service, "n-5", confirmed=1)))
    ask(service, "delete_user", id=anna)
    lines = log(service)
    assert {account for account, *_ in lines} == {ROBOT}
    assert [(operation, subject) for _, operation, subject, _ in lines] == [
        ("create_event", event),
        ("create_events", "shop"),
        ("create_event_sync", trashed),
        ("replay_event", trashed),
        ("update_event_state", of_anna),
        ("create_event_type", "order"),
        ("set_rates", "shop"),
        ("merge_users", anna),
        ("delete_user", anna),
    ]
    logged = [details for *_, details in lines]
    assert (logged[1], logged[4], logged[-1]) == (
        {"events": 2},
        {"storageKey": "confirmed"},
        {"mode": "anonymise"},
    )
    assert "anna@" not in str(lines)


def test_g211_failures_and_reads_are_not_logged(service, anna):
    with pytest.raises(NotFound):
        ask(service, "delete_user", id=hex_id(5))
    with pytest.raises(NotFound):
        ask(
            service,
            "update_event_state",
            id="00000000-0000-7000-8000-000000000000",
            storageKey="confirmed",
            value=0,
        )
    with pytest.raises(NotFound):
        ask(service, "update_event_type", id="nothing", name="Nothing")
    with pytest.raises(InvalidRequest):
        ask(service, "search_users", fields=[], sqlQuery="SELECT _id FROM 'notes.csv'")
    ask(service, "validate_event", event_type="view", nonce="n-1", data={})
    ask(service, "search_users", fields=["fields.email"])
    ask(service, "list_event_types")
    assert log(service) == []


@pytest.mark.slow
@pytest.mark.parametrize("account", [None, ROBOT])
def test_g211_exports_searches_by_sql_and_erasures_always_are(service, anna, account):
    asked = {"columns": ["_id", "fields.email"], "filters": None}
    form = {"type": "csv"}
    file = ask(
        service,
        "export_users",
        account=account,
        filename="users.csv",
        exporterDataConfig=asked,
        outputFormatConfig=form,
        transformerConfig=[],
    ).value
    file.close()
    ask(service, "export_user_data", account=account, id=anna)
    sql = "SELECT userId AS \"of anna@example.com\" FROM user_fields WHERE value = 'anna@example.com' -- Anna"
    found = ask(service, "search_users", account=account, fields=[], sqlQuery=sql).read()
    assert found["_id"].to_pylist() == [anna]
    declared = OPERATIONS["search_users"]
    service.stream(declared, build(declared, project_id="shop", fields=[], sqlQuery=sql), account).close()
    ask(service, "delete_user", account=account, id=anna, mode="delete")
    written = {"sqlQuery": "SELECT userId AS $value FROM user_fields WHERE value = $value"}
    assert log(service) == [
        (account, "export_users", "shop", {"columns": ["_id", "fields.email"], "type": "csv"}),
        (account, "export_user_data", anna, {}),
        (account, "search_users", "shop", written),
        (account, "search_users", "shop", written),
        (account, "delete_user", anna, {"mode": "delete"}),
    ]


@pytest.mark.parametrize("account", [None, ROBOT])
def test_a_backup_is_written_down_of_a_client_alone(service, account):
    ask(service, "back_up_project", account=account).value.close()
    lines = [] if account is None else [(ROBOT, "back_up_project", "shop", {})]
    assert log(service) == lines


def test_g211_what_a_collector_reads_is_written_down_once_a_day(service, monkeypatch):
    for account in (ROBOT, ROBOT, "other@my-project", None):
        assert ask(service, "get_collector", account=account).value["salt"]
    tomorrow = instants.now() + timedelta(days=1)
    monkeypatch.setattr("attrib_ds.instants.now", lambda: tomorrow)
    ask(service, "get_collector")
    assert log(service) == [
        (account, "get_collector", "shop", {}) for account in (ROBOT, "other@my-project", ROBOT)
    ]


@pytest.mark.slow
def test_a_project_that_is_only_read_writes_nothing_down(tmp_path):
    file = tmp_path / "shop.duckdb"
    with closing(Service.open("shop", file)) as service:
        send(service, "load_records", resource="interactions", source=table(visit(1)))
    with closing(Service.open("shop", file, read_only=True)) as service:
        assert send(service, "export_user_data", id=hex_id(900)).value["events"] == []
        assert log(service) == []


def test_a_page_of_the_log_is_the_newest_first(service):
    for days in range(5):
        ask(service, "update_settings", account=ROBOT if days % 2 else None, retention_duration_in_days=days)
    page = send(service, "list_audit", limit=2, offset=1)
    assert (page.total, page.offset, page.limit) == (5, 1, 2)
    assert [
        json.loads(detail)["retentionDurationInDays"] for detail in page.read()["details"].to_pylist()
    ] == [
        3,
        2,
    ]
    assert page.read().schema.field("date").type == pa.timestamp("us", "UTC")
    assert len(log(service, account=ROBOT)) == 2
    assert len(log(service, operationName="update_settings")) == 5
    assert log(service, operationName="delete_user") == []


def test_an_entry_is_as_durable_as_its_operation(service, anna, monkeypatch):
    """Both are in one transaction: where the line cannot be written, nothing is."""

    def fail(*_):
        raise RuntimeError("no line")

    monkeypatch.setattr("attrib_ds.service.store.audit.insert_records", fail)
    with pytest.raises(RuntimeError, match="no line"):
        ask(service, "delete_user", id=anna)
    with pytest.raises(RuntimeError, match="no line"):
        ask(service, "export_user_data", id=anna)
    assert rows_of(service, "SELECT value FROM identities WHERE kind = 'email'") == [("anna@example.com",)]
