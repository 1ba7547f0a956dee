"""Services that have the specification alone, and ignore or answer otherwise what it leaves open."""

import json
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from support.scripted_service import Reply, page

import attrib_ds as at
from attrib_ds import errors

pytestmark = pytest.mark.filterwarnings("ignore:.* has no .*:attrib_ds.errors.InputWarning")
ID = "5f0c0ffee0ddba11ad0be123"
UUID = "00000000-0000-7000-8000-00000000000a"
DAY = "2025-01-31T12:00:00Z"
ABSENT = Reply(404, {"message": "Cannot GET"})
TYPES = [
    {
        "_id": "t",
        "reference": "order",
        "fields": [{"type": "currency", "entity": "event", "storageKey": "turnover"}],
    }
]


def serve(service, **replies):
    """Answer paths by the last part of their name, other lists by nothing, and additions by 404."""

    def answer(asked):
        path = asked.path.partition("?")[0]
        name = path.rpartition("/")[2].replace("-", "_")
        if name in replies:
            reply = replies[name]
            return reply(asked) if callable(reply) else reply
        is_known = asked.method == "GET" and name not in ("settings", "nodes", "integrations")
        return page() if is_known else ABSENT

    service.script = [answer]


def turnover(amount, **more):
    data = {"type": "currency", "current": {"amount": amount, "currency": "EUR"}}
    return {"key": "turnover", "type": "statistic", "data": data, **more}


@pytest.mark.parametrize("is_last", [True, False])
def test_a_deleted_metric_is_not_the_value_of_an_event(shop, service, is_last):
    gone = turnover(999, deletedAt=DAY)
    metrics = [turnover(194.81, deletedAt=None), gone] if is_last else [gone, turnover(194.81)]
    events = [
        {"_id": UUID, "eventType": "order", "metrics": metrics},
        {"_id": UUID[:-1] + "b", "eventType": "order", "metrics": [gone]},
    ]
    serve(service, events=page(*events), event_types=page(*TYPES))
    found = at.list_user_events(shop, ID)
    assert found["statistics.turnover.amount"].tolist() == pytest.approx([194.81, np.nan], nan_ok=True)
    assert [
        [metric["data"]["current"]["amount"] for metric in json.loads(text)] for text in found["metrics"]
    ] == [
        [999],
        [999],
    ]


def outlay(id, **more):
    return {"_id": id, "amount": {"amount": 5, "currency": "EUR"}, "startDate": DAY, **more}


@pytest.mark.parametrize(("deleted", "ids"), [(None, ["a", "c"]), (False, ["a", "c"]), (True, ["b"])])
def test_outlays_are_deleted_or_not_as_asked(shop, service, deleted, ids):
    outlays = [outlay("a"), outlay("b", deletedAt=DAY), outlay("c", deletedAt=None)]

    def listed(asked):
        query = parse_qs(asked.path.partition("?")[2])
        offset, limit = (
            int(query.get(name, [default])[0]) for name, default in (("offset", 0), ("limit", 9))
        )
        return page(*outlays[offset : offset + limit], offset=offset, total=3)

    serve(service, outlays=listed)
    found = at.list_outlays(shop, "ads", "c", deleted=deleted)
    assert (found["_id"].tolist(), found.attrs["total"]) == (ids, len(ids))
    assert at.list_outlays(shop, "ads", "c", deleted=deleted, limit=1, offset=1)["_id"].tolist() == ids[1:2]


def insights(service, *rows):
    serve(service, insights=Reply(body=[{"interval": "2025", **row} for row in rows]))


def asked(shop, metrics="a", **options):
    period = {"since": DAY, "until": "2025-06-30T00:00:00Z", "interval": "year", "group_by": "event-type"}
    return at.event_insights(shop, metrics=[metrics], **period | options)


@pytest.mark.parametrize(
    "wanted", ["order", ["order"], at.event("eventType") == "order", at.event("eventType") != "call"]
)
def test_only_insights_of_the_event_types_asked_for_are_returned(shop, service, wanted):
    insights(service, *({"identifier": name, "values": {"a": 1}} for name in ("call", "order")))
    assert asked(shop, event_type=wanted)["identifier"].tolist() == ["order"]


def test_event_types_that_nobody_can_tell_are_named(shop, service):
    insights(service, {"identifier": "17", "values": {"a": 1}})
    with pytest.warns(errors.InputWarning, match="may ignore event_type; its rows are of 17"):
        assert asked(shop, event_type="order")["identifier"].tolist() == ["17"]


@pytest.mark.parametrize(
    ("values", "value"),
    [
        ({"a": {"amount": 2.5, "currency": "EUR"}}, 2.5),
        ({"a": "3"}, 3),
        ({}, 0),
        ({"a": None}, np.nan),
        (None, np.nan),
    ],
)
def test_values_of_insights_are_numbers_or_missing(shop, service, values, value):
    insights(service, {"identifier": "order", "values": values})
    assert asked(shop)["values.a"].tolist() == pytest.approx([value], nan_ok=True)


@pytest.mark.parametrize("values", [[1], {"a": [1]}, {"a": "many"}, {"a": True}])
def test_values_of_insights_that_are_no_numbers_are_named(shop, service, values):
    insights(service, {"identifier": "order", "values": values})
    with pytest.raises(
        errors.ServiceFailure, match="event_insights: the service answered .* expected a number"
    ):
        asked(shop)


def test_arguments_that_the_specification_does_not_have_are_named(shop, service):
    serve(service, insights=Reply(body=[]), interactions=Reply(201, {"id": ID}))
    with pytest.warns(errors.InputWarning, match="may ignore timezone, .*; intervals may be in UTC"):
        asked(shop, timezone="Europe/Oslo")
    rows = {"date": [DAY], "nodeData.vendorId": ["ads"], "userData.email": ["a@b.c"], "externalId": ["17"]}
    serve(service, offline=Reply(201, {"id": ID}))
    with pytest.warns(errors.InputWarning, match="may ignore externalId"):
        at.create_offline_interactions(shop, pd.DataFrame(rows), dry_run=True)


def test_days_of_a_service_without_settings_are_in_utc(shop, service):
    serve(service, search=page())
    with pytest.warns(errors.InputWarning, match="/api/v1 has no get_settings: days are in UTC$"):
        at.search_interactions(shop, since="2025-01-31")
    assert json.loads(service.asked[-1].body)["since"] == "2025-01-31T00:00:00.000Z"


def export(shop, service, path, content, **options):
    sent = []

    def answer(asked):
        sent.append(json.loads(asked.body)["outputFormatConfig"])
        return Reply(body=content, media="text/csv")

    serve(service, export=answer)
    return at.export_users(
        shop, path / "users.csv", columns=["_id", "fields.email"], **options
    ).read_bytes(), sent


def test_a_file_of_users_is_brought_into_its_form_here(shop, service, tmp_path):
    content = b'\xef\xbb\xbf_id;fields.email\r\na;=cmd()\r\nb;"x,y"\nc;\xe9\r\n'
    found, sent = export(shop, service, tmp_path, content)
    assert found == b'_id,fields.email\r\na,\'=cmd()\r\nb,"x,y"\r\nc,\xe9\r\n'
    assert sent == [{"type": "csv"}]
    options = {"delimiter": "|", "encoding": "utf-8-bom", "sanitize_formulas": False}
    found, sent = export(shop, service, tmp_path, content, **options)
    assert found == b"\xef\xbb\xbf_id|fields.email\r\na|=cmd()\r\nb|x,y\r\nc|\xe9\r\n"
    assert sent == [{"type": "csv"}]


def test_a_file_of_users_that_is_no_csv_is_not_saved(shop, service, tmp_path):
    with pytest.raises(errors.ServiceFailure, match="CSV that cannot be read: .*; nothing is saved"):
        export(shop, service, tmp_path, b"_id,fields.email\na," + b"b" * 200_000)
    assert list(tmp_path.iterdir()) == []


def test_values_of_metrics_may_be_written_in_other_ways(shop, service):
    fields = [
        {"type": "statistic", "entity": "event", "storageKey": "turnover"},
        {"type": "state", "entity": "event", "storageKey": "won"},
        {"type": "state", "entity": "event", "storageKey": "lost"},
    ]
    metrics = [
        {"key": "turnover", "type": "statistic", "data": {"type": "currency", "current": 12.5}},
        {"key": "won", "type": "state", "data": {"type": "state", "current": True}},
        {"key": "lost", "type": "state", "data": {"type": "state", "current": "0"}},
    ]
    types = page({"_id": "t", "reference": "order", "fields": {"items": fields}})
    serve(service, events=page({"_id": UUID, "metrics": metrics}), event_types=types)
    found = at.list_user_events(shop, ID).iloc[0]
    assert found[["statistics.turnover.amount", "states.won", "states.lost"]].tolist() == [12.5, 1, 0]
    assert pd.isna(found["metrics"])
    serve(service, events=page({"_id": UUID, "metrics": dict(enumerate(metrics))}), event_types=types)
    assert at.list_user_events(shop, ID)["statistics.turnover.amount"].item() == 12.5


def test_halves_of_characters_are_no_reason_to_lose_a_page(shop, service):
    body = rb'{"total": 1, "data": [{"_id": "a", "geo": {"city": "\ud83d\ude00 \\ud83d \uD83D", "state": "x\udc00y"}}]}'
    service.script = [Reply(body=body)]
    found = at.search_interactions(shop).iloc[0]
    assert (found["geo.city"], found["geo.state"]) == ("\N{GRINNING FACE} \\ud83d \ufffd", "x\ufffdy")


def test_a_number_of_thousands_of_digits_is_kept(shop, service):
    body = b'{"_id": "%s", "metrics": [{"data": {"current": true, "raw": %s}}]}' % (
        UUID.encode(),
        b"9" * 5_000,
    )
    service.script = [Reply(body=body), page()]
    assert "9" * 5_000 in at.get_event(shop, UUID)["metrics"]


def test_fields_that_are_no_objects_are_named(shop, service):
    serve(
        service,
        events=page({"_id": UUID}),
        event_types=page({"_id": "t", "reference": "order", "fields": ["turnover"]}),
    )
    with pytest.raises(errors.ServiceFailure, match="for fields; expected a list of objects"):
        at.list_user_events(shop, ID)


def visit(number, day):
    return {"_id": f"{number:024x}", "startDate": f"2025-01-{day:02}T00:00:00Z"}


def test_records_of_one_page_are_sorted_here(shop, service):
    serve(service, search=page(visit(1, 1), visit(2, 3), visit(3, 2)))
    assert at.search_interactions(shop)["startDate"].dt.day.tolist() == [3, 2, 1]
    serve(
        service,
        events=page(
            {"_id": UUID, "eventDate": "2025-01-01T00:00:00Z"}, {"_id": UUID[:-1] + "b", "eventDate": DAY}
        ),
    )
    assert at.list_user_events(shop, ID)["eventDate"].dt.day.tolist() == [31, 1]


def test_a_part_of_records_out_of_order_is_refused(shop, service):
    serve(service, search=page(visit(1, 1), visit(2, 3), total=9))
    with pytest.raises(
        errors.ServiceFailure, match="search_interactions: the service ignores the requested order"
    ):
        at.search_interactions(shop, limit=2)
    serve(service, search=page({"_id": "b"}, {"_id": "A"}, total=9))
    assert at.search_users(shop, columns=[], limit=2)["_id"].tolist() == ["b", "A"]


def test_the_total_of_a_full_page_is_not_that_of_all(shop, service):
    visits = [visit(number, 9 - number) for number in range(5)]

    def search(asked):
        sent = json.loads(asked.body)
        until = sent.get("until", "3")
        found = [each for each in visits if each["startDate"][:19] <= until[:19]][sent.get("offset", 0) :][:2]
        return page(*found, offset=sent.get("offset", 0), limit=2)

    serve(service, search=search)
    assert at.search_interactions(shop)["startDate"].dt.day.tolist() == [9, 8, 7, 6, 5]


@pytest.mark.parametrize("total", [0, 1])
def test_a_total_is_not_less_than_the_records(shop, service, total):
    def search(asked):
        sent = json.loads(asked.body)
        until, offset = sent.get("until", "3")[:19], sent.get("offset", 0)
        visits = [each for each in (visit(1, 3), visit(2, 2)) if each["startDate"][:19] <= until]
        return page(*visits[offset:], total=total, offset=offset)

    serve(service, search=search)
    found = at.search_interactions(shop)
    assert (len(found), found.attrs["total"]) in ((2, 2), (2, None))


def test_filters_of_counters_follow_the_example_of_the_specification(shop, service):
    def search(asked):
        is_known = json.loads(asked.body)["filters"]["type"] == "fields"
        return page({"_id": ID}, offset=0) if is_known else Reply(400, {"message": "type is not known"})

    serve(service, search=search)
    for _ in range(2):
        assert at.search_users(shop, columns=[], where=at.user("eventCount") > 3)["_id"].tolist() == [ID]
    assert len(service.asked) == 3


def test_what_an_event_type_was_created_without_is_named(shop, service):
    created = {"_id": "t", "reference": "order", "phoneParsingConfig": []}
    serve(service, event_types=lambda asked: Reply(201, created))
    with pytest.warns(
        errors.InputWarning, match="event type without phone_parsing_config, expiration_policy"
    ):
        at.create_event_type(
            shop, "order", name="Order",
            phone_parsing_config=[{"order": 1, "countryCode": "NO"}],
            expiration_policy={"retentionDurationInDays": 3, "piiFields": []},
        )  # fmt: skip


@pytest.mark.parametrize("status", [406, 415, 422])
def test_events_are_sent_one_by_one_where_a_batch_is_refused_in_any_way(shop, service, status):
    refused = Reply(status, {"message": "id must be a UUID"})
    serve(service, batch=refused, settings=refused, sync=Reply(body=UUID), events=Reply(body=UUID))
    with pytest.warns(errors.InputWarning, match="has no"):
        sent = at.send_events(
            shop, pd.DataFrame({"eventDate": ["2025-01-31"], "nonce": ["n"]}), event_type="order"
        )
    assert sent["status"].tolist() == ["processed"]


def test_a_nonce_that_is_known_is_told(shop, service):
    serve(service, events=Reply(409, {"message": "nonce already used"}), sync=Reply(409, {"message": "no"}))
    sent = at.send_events(shop, pd.DataFrame({"eventDate": [DAY], "nonce": ["n"]}), event_type="order")
    assert sent["status"].tolist() == ["rejected"]
    assert "; the service may have stored an event with this nonce before" in sent["error"].item()


def test_a_count_may_be_text(shop, service):
    service.script = [Reply(body={"modifiedCount": "1"})]
    assert at.update_campaign(shop, "ads", "c", name="Spring") == 1


def test_the_token_route_says_what_is_wrong(shop, service):
    for reply, words in [
        (Reply(body={"error": "invalid_grant"}), "without an access_token; check auth_url=: invalid_grant"),
        (Reply(403, b"<html><title>Blocked</title>", media="text/html"), "answered 403: Blocked"),
    ]:
        service.tokens = [reply]
        with pytest.raises(errors.AttribError, match=words):
            at.list_event_types(shop)


@pytest.mark.parametrize("data", [[], "x", 5])
def test_identity_data_of_any_form_costs_no_interaction(shop, service, data):
    session = {
        "type": "session",
        "userId": "a" * 24,
        "nodeId": "search",
        "firstHitId": UUID,
        "hitCount": 1,
        "endDate": "2025-01-03T00:10:00Z",
        "userData": data,
    }

    def search(asked):
        is_first = "interactions" in asked.path and json.loads(asked.body).get("until", "3") > "2025-01-04"
        return page(*[visit(1, 3) | session] * is_first, offset=json.loads(asked.body).get("offset", 0))

    serve(service, search=search)
    with pytest.warns(errors.InputWarning, match="1 interaction mirrored without .*userData"):
        mirror = at.sync(shop, ":memory:", personal=True, integrations=[])
    with mirror:
        assert len(at.search_interactions(mirror, filtered=None, bots=None)) == 1
        assert at.admin.check(mirror).empty
