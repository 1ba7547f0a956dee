"""Event types (R088 to R094, R270 to R277)."""

import pytest
from conformance.shop import computed, declared, email, event, new, send_event

FIELD = {
    "type": "string",
    "entity": "event",
    "storageKey": "colour",
    "ingestionKey": "farbe",
    "discriminant": False,
    "isPii": True,
    "isMostProbableLocation": False,
    "optional": True,
}


def create(project, **parts):
    body = {"reference": new("type"), "name": "A type", "fields": [], **parts}
    return project.send("create_event_type", body=body).ok()


@pytest.fixture(scope="module")
def listed(new_project):
    """A project with four event types beside "order", one of them archived."""
    types = [
        ("lead", "Contact 100%", [declared("string", "event", "colour")]),
        ("call_back", "Leaded call", [declared("state", "event", "done")]),
        ("visit-of-shop", "visit", []),
        ("old-lead", "Old", [declared("string", "event", "colour")]),
    ]

    project = new_project()
    for reference, name, fields in types:
        create(project, reference=reference, name=name, fields=fields)
    project.send("archive_event_type", {"id": "old-lead"}).ok()
    return project


def references(project, **query):
    return [record["reference"] for record in project.send("list_event_types", query=query).ok()["data"]]


def test_r088_a_path_names_the_reference(service):
    made = create(service)
    assert made["reference"] != made["_id"]
    assert service.send("get_event_type", {"id": made["reference"]}).ok() == made


def test_r089_archived_at_is_set_for_archived_types_only(listed):
    assert listed.send("get_event_type", {"id": "old-lead"}).ok()["archivedAt"].endswith("Z")
    assert listed.send("get_event_type", {"id": "lead"}).ok()["archivedAt"] is None


def test_r090_fields_states_and_statistics_are_together(service):
    shown = service.send("get_event_type", {"id": "order"}).ok()["fields"]
    kinds = {record["storageKey"]: record["type"] for record in shown}
    assert kinds["email"] == "email"
    assert kinds["confirmed"] == "state"
    assert kinds["turnover"] == "currency"
    assert kinds["items"] == "number"


def test_r091_a_field_has_eight_keys(service):
    never_read = {**FIELD, "storageKey": "later", "ingestionKey": None}
    assert create(service, fields=[FIELD, never_read])["fields"] == [FIELD, never_read]


def test_r091_flags_are_booleans(service):
    for record in service.send("get_event_type", {"id": "order"}).ok()["fields"]:
        flags = [record[name] for name in ("discriminant", "isPii", "isMostProbableLocation", "optional")]
        assert {type(flag) for flag in flags} == {bool}
    body = {"reference": new("type"), "name": "x", "fields": [{**FIELD, "optional": "yes"}]}
    assert service.send("create_event_type", body=body).status == 400


def test_r092_another_entity_is_refused(service):
    for entity in ["session", None]:
        body = {"reference": new("type"), "name": "x", "fields": [{**FIELD, "entity": entity}]}
        assert service.send("create_event_type", body=body).status == 400, entity
        assert service.send("get_event_type", {"id": body["reference"]}).status == 404, entity


def test_r093_phone_parsing_is_an_array_of_order_and_country(service):
    assert service.send("get_event_type", {"id": "order"}).ok()["phoneParsingConfig"] == [
        {"order": 2, "countryCode": "GB"},
        {"order": 1, "countryCode": "FR"},
    ]
    for wrong in ({"order": 1, "countryCode": "FR"}, [{"order": "1", "countryCode": "FR"}], [{"order": 1}]):
        body = {"reference": new("type"), "name": "x", "phoneParsingConfig": wrong}
        assert service.send("create_event_type", body=body).status == 400


def test_r094_a_value_is_read_and_stored_under_two_keys(service):
    made = create(service, fields=[FIELD])
    data = {"farbe": "rot", "colour": "red"}
    body = event(service, eventType=made["reference"], data=data)
    shown = computed(service, service.send("create_event_sync", body=body).ok())["event"]
    assert {key: record["current"] for key, record in shown.items()} == {"colour": "rot"}


def test_r270_search_matches_in_name_or_reference(listed):
    assert sorted(references(listed, search="lead")) == ["call_back", "lead"]
    assert references(listed, search="of-sh") == ["visit-of-shop"]
    assert references(listed, search="VISIT") == ["visit-of-shop"]
    assert references(listed, search="0%") == ["lead"]
    assert references(listed, search="nothing") == []


@pytest.mark.slow
def test_r271_archived_types_are_listed_when_asked_for(listed):
    assert "old-lead" not in references(listed)
    assert "old-lead" not in references(listed, archived="false")
    assert references(listed, archived="true") == ["old-lead"]


def test_r272_storage_key_selects_the_types_with_such_a_field(listed):
    assert references(listed, storageKey="colour") == ["lead"]
    assert sorted(references(listed, storageKey="turnover")) == ["order"]
    assert references(listed, storageKey="colou") == []
    assert references(listed, storageKey="mail") == []  # an ingestion key


def test_r273_sort_lists_names_and_a_minus_is_descending(listed):
    in_order = ["call_back", "lead", "order", "visit-of-shop"]
    assert references(listed, sort="reference") == in_order
    assert references(listed, sort="-reference") == in_order[::-1]
    # By code point: "Contact 100%", "Leaded call", "Order", "visit".
    assert references(listed, sort="name") == ["lead", "call_back", "order", "visit-of-shop"]
    assert references(listed, sort="-createdAt,name") == ["visit-of-shop", "call_back", "lead", "order"]
    assert references(listed, sort="projectId,-reference") == in_order[::-1]


def test_r273_an_unknown_name_is_refused(listed):
    assert listed.send("list_event_types", query={"sort": "nonsense"}).status == 400


def test_r274_the_page_does_not_repeat_offset_and_limit(listed):
    page = listed.send("list_event_types", query={"offset": 1, "limit": 2}).ok()
    assert set(page) == {"total", "count", "data"}
    assert (page["total"], page["count"], len(page["data"])) == (4, 2, 2)


def test_r275_creating_answers_201_with_the_event_type(service):
    body = {"reference": new("type"), "name": "Lead", "fields": [FIELD], "metadata": {"a": [1]}}
    reply = service.send("create_event_type", body=body)
    assert reply.status == 201
    assert {name: reply.body[name] for name in body} == body
    assert set(reply.body) >= {
        "_id",
        "createdAt",
        "updatedAt",
        "archivedAt",
        "projectId",
        "reference",
        "name",
        "fields",
        "metadata",
        "phoneParsingConfig",
    }


def test_r276_an_unknown_reference_is_404(service):
    made = create(service)
    assert service.send("get_event_type", {"id": "nonsense"}).status == 404
    assert service.send("get_event_type", {"id": made["_id"]}).status == 404


def test_r277_events_of_a_new_type_are_accepted_at_once(service):
    for _ in range(5):
        made = create(service, fields=[declared("email", "user", "email", ingestionKey="mail")])
        assert send_event(service, email(), eventType=made["reference"])
