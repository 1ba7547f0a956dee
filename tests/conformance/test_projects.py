"""One project never shows another's data (R003), whatever is asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from conformance.shop import NOON, VENDOR, event, hex_id, hit, node, predicate, table, trash, uuid, visit

from attrib_ds.contract import OPERATIONS
from attrib_ds.keys import make_key_pair

if TYPE_CHECKING:
    from conformance.transports import Project

ANNA = hex_id(900)
CAMPAIGN = {"vendorId": VENDOR}
INSIGHTS = {"since": "2025-01-01T00:00:00Z", "until": "2025-12-31T00:00:00Z", "metrics": ["event-count", "turnover"],
            "groupBy": "event-type", "interval": "year"}  # fmt: skip
KEYS = ["_id", "eventCount", "fields.firstName", "fields.email", "metrics.turnover.sum", "interactionCount"]
EXPORT = {"filename": "users", "exporterDataConfig": {"columns": KEYS}, "outputFormatConfig": {"type": "csv"},
          "transformerConfig": []}  # fmt: skip
SQL = "SELECT _id FROM users UNION SELECT userId FROM events UNION SELECT userId FROM interactions"
#: How each operation that reads is asked: path, query and body; texts in braces name records of the project.
READS = {
    "search_interactions": [
        ({}, {}, {"isBot": None, "filtered": None, "projection": ["userData", "referrer"]})
    ],
    "get_interaction": [({"id": hex_id(1)}, {}, None)],
    "list_hits": [({"firstHitId": uuid(1)}, {}, None)],
    "interaction_insights": [({}, {}, {"group": "referrer", "interval": "day"}), ({}, {}, {})],
    "page_insights": [({}, {}, {"group": "referrer", "interval": "day"})],
    "page_conversions": [({}, {}, {"page": "/*"})],
    "funnel": [({}, {}, {"steps": ["/*", "order"], "window": "366D"})],
    "get_raw_event": [({"id": "{event}"}, {}, None)],
    "list_trashed_events": [({}, {}, None)],
    "event_insights": [({}, {}, INSIGHTS), ({}, {}, {**INSIGHTS, "groupBy": "project"})],
    "get_event": [({"id": "{event}"}, {}, None), ({"id": uuid(7)}, {}, None)],
    "search_users": [
        ({}, {}, {"fields": KEYS, "sqlQuery": SQL}),
        ({}, {}, {"fields": KEYS, "filters": predicate("email", "contains", "@") | {"type": "fields"}}),
    ],
    "get_user": [({"id": "{user}"}, {}, None)],
    "export_users": [({}, {}, EXPORT)],
    "list_user_events": [({"id": "{user}"}, {}, None)],
    "search_events": [({}, {}, {}), ({}, {}, {"userIds": ["{user}"], "filter": ["order"]})],
    "list_user_metrics": [({"id": ANNA}, {}, None), ({"id": "{user}"}, {}, None)],
    "list_event_types": [({}, {}, None), ({}, {"search": "a"}, None)],
    "get_event_type": [({"id": "order"}, {}, None), ({"id": "same"}, {}, None)],
    "list_campaigns": [(CAMPAIGN, {}, None), (CAMPAIGN, {"campaignSlug": "same"}, None)],
    "get_campaign": [({**CAMPAIGN, "id": "{campaign}"}, {}, None)],
    "list_outlays": [({**CAMPAIGN, "parentCampaignId": "{campaign}"}, {}, None)],
    "get_outlay": [({**CAMPAIGN, "parentCampaignId": "{campaign}", "outlayId": "{outlay}"}, {}, None)],
    "list_nodes": [({}, {}, None)],
    "get_node": [({"id": "ads"}, {}, None)],
    "check_project": [({}, {}, None)],
    "back_up_project": [({}, {}, None)],
    "list_audiences": [({}, {}, None)],
    "list_holdouts": [({}, {}, None)],
    "get_audience": [({"id": "{audience}"}, {}, None)],
    "validate_event": [({}, {}, {"eventType": "same", "nonce": "same", "data": {}})],
    "get_settings": [({}, {}, None)],
    "list_rates": [({}, {}, None)],
    "list_integrations": [({}, {}, None)],
    "get_collector": [({}, {}, None)],
    "list_keys": [({}, {}, None)],
    # Other reads are written down themselves.
    "list_audit": [({}, {"operationName": "create_campaign"}, None)],
    "export_user_data": [({"id": "{user}"}, {}, None)],
}
#: What changes a project; none of these may change another one.
WRITES = {
    "create_offline_interaction": ({}, {"date": NOON, "userData": {"email": "x@example.com"},
                                        "nodeData": {"vendorId": VENDOR}}),
    "create_event": ({}, {"eventType": "order", "nonce": "fresh-1", "data": {"mail": "same@example.com"}}),
    "create_event_sync": ({}, {"eventType": "order", "nonce": "fresh-2", "data": {"mail": "same@example.com"}}),
    "create_events": ({}, [{"eventType": "order", "nonce": "fresh-3", "data": {"mail": "same@example.com"}}]),
    "update_event_state": ({"id": uuid(7), "storageKey": "confirmed"}, {"value": 1}),
    "update_event_statistic": ({"id": uuid(7), "storageKey": "turnover"}, {"value": 1}),
    "create_event_type": ({}, {"reference": "another", "name": "Another", "fields": []}),
    "update_event_type": ({"id": "same"}, {"name": "Changed"}),
    "archive_event_type": ({"id": "same"}, {}),
    "restore_event_type": ({"id": "same"}, {}),
    "create_campaign": (CAMPAIGN, {"campaignSlug": "another", "name": "Another"}),
    "update_campaign": ({**CAMPAIGN, "id": "{campaign}"}, {"name": "Changed"}),
    "create_outlay": ({**CAMPAIGN, "parentCampaignId": "{campaign}"},
                      {"amount": 1, "startDate": NOON, "endDate": "2025-02-28T00:00:00Z"}),
    "update_outlay": ({**CAMPAIGN, "parentCampaignId": "{campaign}", "outlayId": "{outlay}"}, {"amount": 2}),
    "create_audience": ({}, {"name": "Another", "condition": {"type": "condition", "condition": "AND", "rules": []}}),
    "delete_audience": ({"id": "{audience}"}, None),
    "create_holdout": ({"holdout": "another"}, {"nodeId": "ads", "share": 0.1}),
    "delete_holdout": ({"holdout": "same"}, None),
    "replay_event": ({"id": "{trash}"}, {}),
    "update_settings": ({}, {"lenientOptionalFields": True}),
    "set_rates": ({}, [{"currency": "USD", "date": NOON, "rate": 0.9}]),
    "merge_users": ({"id": ANNA}, {"userId": "{user}"}),
    "split_user": ({"id": ANNA}, {"userId": "{user}"}),
    "delete_outlay": ({**CAMPAIGN, "parentCampaignId": "{campaign}", "outlayId": "{outlay}"}, None),
    "delete_user": ({"id": ANNA}, None),
    "create_key": ({}, {"publicKey": "{public}"}),
    "revoke_key": ({"keyId": "{key}"}, None),
    "restore_project": ({}, b"no backup"),
    "send_hits": ({"portionId": "00000000-0000-4000-8000-000000000001"}, b"no hits"),
    "create_integration": ({}, {"vendorId": "another", "name": "Another"}),
    "compact_project": ({}, {}),
    "repair_project": ({}, {}),
}  # fmt: skip
#: They are about no project.
ELSEWHERE = {"exchange_token"}


def filled(project, mark):
    """Give a project its records: with the same ids, nonces and emails in each, and a mark in every text."""
    mail = "same@example.com"
    body = event(
        project, mail, nonce="same", trackerId="same", data={"firstName": mark, "coupon": mark, "turnover": 5}
    )
    seen = {"event": project.send("create_event_sync", body=body).ok()}
    seen["user"] = project.send("get_event", {"id": seen["event"]}).ok()["userId"]
    kind = {"reference": "same", "name": f"Same {mark}", "fields": []}
    project.send("create_event_type", body=kind).ok()
    seen["trash"] = trash(project, nonce="same-2", data={"mail": mark})["_id"]
    campaign = {"campaignSlug": "same", "name": f"Same {mark}"}
    seen["campaign"] = project.send("create_campaign", CAMPAIGN, body=campaign).ok()["id"]
    outlay = {"amount": 5, "startDate": NOON, "endDate": "2025-02-28T00:00:00Z", "region": mark}
    place = {**CAMPAIGN, "parentCampaignId": seen["campaign"]}
    seen["outlay"] = project.send("create_outlay", place, body=outlay).ok()["id"]
    condition = {"type": "fields", "field": "email", "operator": "equals", "value": mail}
    audience = {"name": f"Same {mark}", "condition": condition}
    seen["audience"] = project.send("create_audience", body=audience).ok()["_id"]
    project.send("create_holdout", {"holdout": "same"}, body={"nodeId": mark, "share": 0.1}).ok()
    offline = {"date": NOON, "userData": {"email": mail}, "nodeData": {"vendorId": VENDOR, "shelf": mark}}
    project.send("create_offline_interaction", body=offline).ok()
    seen["public"] = make_key_pair().public
    seen["key"] = project.send("create_key", body={"publicKey": seen["public"]}).ok()["_id"]
    return seen


def records(mark):
    stored = {"_id": uuid(7), "userId": ANNA, "eventDate": NOON, "eventType": "order", "user.firstName": mark,
              "statistics.turnover.amount": 5.0, "statistics.turnover.currency": "EUR"}  # fmt: skip
    user_data = json.dumps({"email": "same@example.com", "vendorUserId": mark})
    visits = [visit(1, firstHitId=uuid(1), hitCount=1, referrer=mark, userData=user_data)]
    return {
        "nodes": table(node("ads", campaignSlug=mark)),
        "interactions": table(*visits),
        "hits": table(hit(1, 1, NOON, userAgent=mark)),
        "events": table(stored),
    }


@pytest.fixture(scope="module")
def asked(new_project):
    """Two projects, of which the first was asked everything before the second was there."""
    first = new_project(**records("alpha"))
    known = filled(first, "alpha")
    alone = {name: answers(first, name, known) for name in READS}
    second = new_project(**records("omega"))
    others = filled(second, "omega")
    beside = {name: answers(second, name, others) for name in READS}
    return Both(first, known, alone, second, others, beside)


class Both(NamedTuple):
    """Two projects, the ids of their records, and what each answered: the first alone, the second beside it."""

    first: Project
    known: dict
    alone: dict
    second: Project
    others: dict
    beside: dict


def placed(value, known):
    """Put the ids of a project where a case names them."""
    if isinstance(value, dict):
        return {key: placed(item, known) for key, item in value.items()}
    if isinstance(value, str) and value.startswith("{"):
        return known[value[1:-1]]
    return value


def answers(project, name, known):
    found = []
    for path, query, body in READS[name]:
        if body is not None and "{projectId}" not in OPERATIONS[name].path:
            body = {**body, "projectId": project.id}
        reply = project.send(name, placed(path, known), query, placed(body, known))
        shown = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        # The size of an audience is computed when it is asked for.
        found.append((reply.status, re.sub(rb'"computedAt": "[^"]+"', b"", shown)))
    return found


def test_every_operation_has_a_case():
    over_http = {name for name, item in OPERATIONS.items() if item.base != "embedded"}
    assert set(READS) | set(WRITES) | ELSEWHERE == over_http
    assert not set(READS) & set(WRITES)


@pytest.mark.slow
@pytest.mark.parametrize("name", READS)
def test_r003_no_answer_shows_another_project(asked, name):
    """The answers are those of before there was another one, and tell of their own project."""
    now = answers(asked.first, name, asked.known)
    assert {status for status, _ in now} == {200}
    for (_, before), (_, after) in zip(asked.alone[name], now, strict=True):
        assert b"omega" not in after
        assert asked.second.id.encode() not in after
        if name not in CHANGING:
            assert after == before


#: A backup tells when it was made.
CHANGING = {"back_up_project"}
NAMING = [
    name for name, cases in READS.items() if any("{" in item for path, *_ in cases for item in path.values())
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMING)
def test_r003_the_ids_of_another_project_are_unknown(asked, name):
    for status, shown in answers(asked.first, name, asked.others):
        assert status in (200, 404)
        assert b"omega" not in shown


@pytest.mark.slow
def test_r003_markers_are_visible_in_answers_about_their_own_project(asked):
    """Otherwise the tests above would find nothing anywhere."""
    shown = {name for name in READS if any(b"omega" in item for _, item in asked.beside[name])}
    silent = {
        "event_insights",
        "validate_event",
        "check_project",
        "get_collector",
        "get_settings",
        "list_integrations",
        "list_audit",
        "list_keys",
        "list_rates",
        "list_user_metrics",
        "page_conversions",
        "funnel",
    }
    assert set(READS) - shown <= silent | CHANGING
    assert all(any(b"alpha" in item for _, item in asked.alone[name]) for name in shown)


@pytest.mark.large
@pytest.mark.slow
def test_r003_changes_of_one_project_change_no_other(asked):
    first = asked.first
    for ids in (asked.others, asked.known):
        for name, (path, body) in WRITES.items():
            if "{projectId}" not in OPERATIONS[name].path:
                own = {"projectId": first.id}
                body = [{**item, **own} for item in body] if isinstance(body, list) else {**body, **own}
            reply = first.send(name, placed(path, ids), body=placed(body, ids))
            assert reply.status < 500, (name, reply.body)
            assert "omega" not in json.dumps(reply.body)
    for name in set(READS) - CHANGING:
        assert answers(asked.second, name, asked.others) == asked.beside[name], name
