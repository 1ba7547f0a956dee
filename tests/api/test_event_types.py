"""Event types through the public functions."""

import json

import pytest

from attrib_ds import (
    connect,
    create_event_type,
    get_event_type,
    list_event_types,
    schema,
)
from attrib_ds.api.admin import archive_event_type, restore_event_type, update_event_type
from attrib_ds.errors import Conflict, InvalidRequest, NotFound


@pytest.fixture
def shop():
    with connect("my-shop", path=":memory:") as project:
        yield project


def test_an_empty_list_has_every_column(shop):
    frame = list_event_types(shop)
    assert list(frame.columns) == schema.EVENT_TYPE.names
    assert len(frame) == frame.attrs["total"] == 0


def test_r275_r276_r277_created_listed_and_read(shop):
    fields = [
        {"type": "email", "entity": "user", "storageKey": "email"},
        {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None},
    ]
    created = create_event_type(shop, "lead", name="Lead", fields=fields)
    assert created.name == created["_id"]
    assert [each["ingestionKey"] for each in json.loads(created["fields"])] == ["email", None]
    assert json.loads(created["metadata"]) == {}
    assert get_event_type(shop, "lead").equals(created)
    create_event_type(shop, "call", name="Phone call", metadata={"a": 1})
    assert list_event_types(shop)["reference"].tolist() == ["call", "lead"]
    assert list_event_types(shop, sort="-name", limit=1)["name"].tolist() == ["Phone call"]
    assert list_event_types(shop, storage_key="won").attrs["total"] == 1
    assert list_event_types(shop, search="PHONE")["reference"].tolist() == ["call"]
    assert len(list_event_types(shop, archived=True)) == 0


def test_errors_name_the_argument(shop):
    create_event_type(shop, "lead", name="Lead")
    with pytest.raises(Conflict, match="reference: the event type 'lead' exists already"):
        create_event_type(shop, "lead", name="Lead again")
    with pytest.raises(InvalidRequest, match="reference: 'Lead' is not allowed"):
        create_event_type(shop, "Lead", name="Lead")
    with pytest.raises(InvalidRequest, match="fields/0/storageKey: 'event-count' is the name of a built-in"):
        field = {"type": "number", "entity": "event", "storageKey": "event-count"}
        create_event_type(shop, "order", name="Order", fields=[field])
    with pytest.raises(NotFound, match="reference: there is no event type 'order'"):
        get_event_type(shop, "order")


def test_g077_g158_changed_archived_and_restored(shop):
    create_event_type(shop, "lead", name="Lead")
    won = {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None}
    changed = update_event_type(shop, "lead", name="Sales lead", fields=[won], metadata={"a": 1})
    assert (changed["name"], json.loads(changed["metadata"])) == ("Sales lead", {"a": 1})
    assert json.loads(changed["fields"])[0]["ingestionKey"] is None
    assert get_event_type(shop, "lead").equals(changed)
    with pytest.raises(Conflict, match="fields/0/type: 'won' is in use with the type 'state'"):
        update_event_type(shop, "lead", fields=[{**won, "type": "number"}])
    assert archive_event_type(shop, "lead")["archivedAt"] is not None
    assert len(list_event_types(shop)) == 0
    restore_event_type(shop, "lead")
    assert list_event_types(shop)["reference"].tolist() == ["lead"]
    with pytest.raises(NotFound, match="reference: there is no event type 'call'"):
        archive_event_type(shop, "call")
