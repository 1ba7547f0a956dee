"""Event types of the embedded service (R088 to R093, R270 to R277)."""

import json

import pytest
from support.order_events import declare_order, declared
from support.service_records import send

from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.service import Service
from attrib_ds.service.events.event_types import read_event_types


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    declare_order(opened)
    yield opened
    opened.close()


def references(service, **asked):
    return send(service, "list_event_types", **asked).read()["reference"].to_pylist()


def record(answer):
    (row,) = answer.read().to_pylist()
    return row


def test_r088_to_r093_r275_a_created_event_type_is_answered_whole(service):
    lead = record(
        send(
            service,
            "create_event_type",
            reference="lead",
            name="Lead",
            fields=[declared("email", "user", "email", ingestionKey="mail")],
            metadata={"team": "sales"},
            phone_parsing_config=[{"order": 1, "countryCode": "FR"}],
        )
    )
    assert len(lead["_id"]) == 24
    assert lead["_id"] != lead["reference"] == "lead"
    assert lead["projectId"] == "shop"
    assert lead["archivedAt"] is None
    assert lead["createdAt"] == lead["updatedAt"]
    assert json.loads(lead["fields"]) == [
        {
            "type": "email",
            "entity": "user",
            "storageKey": "email",
            "ingestionKey": "mail",
            "discriminant": False,
            "isPii": False,
            "isMostProbableLocation": False,
            "optional": False,
        }
    ]
    assert json.loads(lead["metadata"]) == {"team": "sales"}
    assert json.loads(lead["phoneParsingConfig"]) == [{"order": 1, "countryCode": "FR"}]
    assert record(send(service, "get_event_type", id="lead")) == lead


def test_r276_the_path_id_is_the_reference(service):
    order = record(send(service, "get_event_type", id="order"))
    for unknown in (order["_id"], "Order"):
        with pytest.raises(NotFound, match="reference: there is no event type"):
            send(service, "get_event_type", id=unknown)


def test_a_reference_is_taken_for_ever(service):
    send(service, "archive_event_type", id="order")
    with pytest.raises(Conflict, match="reference: the event type 'order' exists already"):
        declare_order(service)


def test_r270_to_r274_listing(service):
    for reference, name in (("call", "Phone call"), ("visit", "Store visit"), ("lead", "Lead")):
        send(service, "create_event_type", reference=reference, name=name)
    assert references(service) == ["call", "lead", "order", "visit"]
    assert references(service, search="VISIT") == ["visit"]
    assert references(service, search="all") == ["call"]
    assert references(service, search="%") == []
    assert references(service, storage_key="turnover") == ["order"]
    assert references(service, storage_key='turnover","x":"') == []
    assert references(service, reference="lead") == ["lead"]
    assert references(service, sort="-name") == ["visit", "call", "order", "lead"]
    page = send(service, "list_event_types", limit=2, offset=1)
    assert page.total == 4
    assert page.read()["reference"].to_pylist() == ["lead", "order"]
    with pytest.raises(InvalidRequest, match="sort: cannot sort by 'fields'"):
        references(service, sort="fields")


def test_r089_r271_g077_archived_event_types_are_listed_apart(service):
    send(service, "create_event_type", reference="call", name="Call")
    archived = record(send(service, "archive_event_type", id="order"))
    assert archived["archivedAt"] == archived["updatedAt"]
    assert record(send(service, "archive_event_type", id="order")) == archived
    assert references(service) == references(service, archived=False) == ["call"]
    assert references(service, archived=True) == ["order"]
    assert record(send(service, "get_event_type", id="order"))["archivedAt"] is not None
    assert record(send(service, "restore_event_type", id="order"))["archivedAt"] is None
    assert references(service) == ["call", "order"]
    for operation in ("archive_event_type", "restore_event_type", "update_event_type"):
        with pytest.raises(NotFound, match="reference: there is no event type 'lost'"):
            send(service, operation, id="lost")


def version(service):
    with service._store.cursor() as cursor:
        return read_event_types(cursor, ["order", "unknown"])["order"].version


def update(service, **changes):
    return record(send(service, "update_event_type", id="order", **changes))


def test_r093_g158_fields_that_are_added_make_a_version(service):
    before = record(send(service, "get_event_type", id="order"))
    after = update(service, fields=[declared("state", "event", "paid")])
    assert json.loads(after["fields"])[:-1] == json.loads(before["fields"])
    assert json.loads(after["fields"])[-1]["storageKey"] == "paid"
    assert {name for name in after if after[name] != before[name]} == {"fields", "updatedAt"}
    assert version(service) == 2
    assert update(service, fields=[declared("state", "event", "paid")]) == after
    assert version(service) == 2


def test_g158_a_field_takes_the_place_of_the_one_with_its_key(service):
    update(service, fields=[declared("email", "user", "email", optional=True)])
    fields = json.loads(record(send(service, "get_event_type", id="order"))["fields"])
    assert [field["storageKey"] for field in fields].index("email") == 0
    assert (fields[0]["optional"], fields[0]["ingestionKey"]) == (True, "email")
    assert len(fields) == 8
    assert version(service) == 2


def test_g158_other_changes_create_no_version(service):
    config = [{"order": 1, "countryCode": "NO"}]
    after = update(service, name="Purchase", metadata={"a": 1}, phone_parsing_config=config)
    assert (after["name"], json.loads(after["metadata"])) == ("Purchase", {"a": 1})
    assert json.loads(after["phoneParsingConfig"]) == config
    assert version(service) == 1
    assert update(service) == after


@pytest.mark.parametrize(
    ("field", "where"),
    [
        (declared("number", "event", "turnover"), "fields/1/type"),
        (declared("string", "event", "vendorUserId"), "fields/1/entity"),
    ],
)
def test_g158_type_and_entity_of_a_key_cannot_change(service, field, where):
    before = record(send(service, "get_event_type", id="order"))
    with pytest.raises(Conflict, match=f"{where}: .* cannot change"):
        update(service, name="Other", fields=[declared("state", "event", "new"), field])
    assert record(send(service, "get_event_type", id="order")) == before


def test_g158_a_key_cannot_be_there_twice(service):
    with pytest.raises(InvalidRequest, match="fields/1/storageKey: 'paid' is used twice"):
        update(service, fields=[declared("state", "event", "paid")] * 2)


def test_g208_an_expiration_policy_is_kept_and_shown(service):
    policy = {"retentionDurationInDays": 30, "piiFields": ["email", "email"]}
    email = declared("email", "user", "email")
    made = record(
        send(
            service,
            "create_event_type",
            reference="lead",
            name="Lead",
            fields=[email],
            expirationPolicy=policy,
        )
    )
    assert made["expirationPolicy.retentionDurationInDays"] == 30
    assert made["expirationPolicy.piiFields"] == ["email"]
    order = record(send(service, "get_event_type", id="order"))
    assert (order["expirationPolicy.retentionDurationInDays"], order["expirationPolicy.piiFields"]) == (
        None,
        None,
    )
    phone = declared("phone", "user", "phone")
    renamed = record(send(service, "update_event_type", id="lead", name="Leads"))
    assert renamed["expirationPolicy.retentionDurationInDays"] == 30
    # One that is given takes the place of the whole, and may name fields that come with it.
    changed = record(
        send(
            service, "update_event_type", id="lead", fields=[phone], expirationPolicy={"piiFields": ["phone"]}
        )
    )
    assert changed["expirationPolicy.retentionDurationInDays"] is None
    assert changed["expirationPolicy.piiFields"] == ["phone"]
    for_ever = {"retentionDurationInDays": 0, "piiFields": []}
    assert (
        record(send(service, "update_event_type", id="lead", expirationPolicy=for_ever))[
            "expirationPolicy.piiFields"
        ]
        == []
    )
    (listed,) = [
        row for row in send(service, "list_event_types").read().to_pylist() if row["reference"] == "lead"
    ]
    assert listed["expirationPolicy.retentionDurationInDays"] == 0
    emptied = record(send(service, "update_event_type", id="lead", expirationPolicy={}))
    assert (emptied["expirationPolicy.retentionDurationInDays"], emptied["expirationPolicy.piiFields"]) == (
        None,
        None,
    )


@pytest.mark.parametrize(
    ("policy", "where"),
    [
        (
            {"piiFields": ["email", "emial"]},
            "expiration_policy/piiFields/1: 'emial' is not allowed .*'email'",
        ),
        ({"retentionDurationInDays": -1}, "expiration_policy/retentionDurationInDays"),
    ],
)
def test_g208_a_policy_that_cannot_be_is_refused(service, policy, where):
    email = declared("email", "user", "email")
    asked = {"fields": [email], "expirationPolicy": policy}
    with pytest.raises(InvalidRequest, match=f"^{where}"):
        send(service, "create_event_type", reference="lead", name="Lead", **asked)
    with pytest.raises(InvalidRequest, match=f"^{where}"):
        send(service, "update_event_type", id="order", **asked)
    assert references(service) == ["order"]
    assert record(send(service, "get_event_type", id="order"))["expirationPolicy.piiFields"] is None
