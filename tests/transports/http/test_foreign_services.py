"""Answers of services that keep the specification in other ways than ours: each write is sent once."""

import json

import pandas as pd
import pytest
from support.scripted_service import RESET, Reply, page

import attrib_ds as at
from attrib_ds import errors

ID = "5f0c0ffee0ddba11ad0be123"
UUID = "00000000-0000-7000-8000-00000000000a"
DAY = "2025-01-31T12:00:00Z"


def events(**given):
    return pd.DataFrame({"eventDate": [DAY], "nonce": ["n-1"], "data.a": [1]} | given)


def outcome(frame):
    return tuple(None if pd.isna(value) else value for value in frame[["status", "id"]].iloc[0])


def update(function):
    updates = pd.DataFrame({"id": [UUID], "storageKey": ["won"], "value": [1]})
    return lambda shop: outcome(function(shop, updates))


def create_offline(shop):
    rows = pd.DataFrame(
        {"date": [DAY], "userData.email": ["ann@x.example"], "nodeData.vendorId": ["Google Ads"]}
    )
    return outcome(at.create_offline_interactions(shop, rows))


def create_outlays(shop):
    rows = pd.DataFrame(
        {"campaignId": ["c"], "amount": [5], "startDate": [DAY], "endDate": ["2025-02-01T00:00:00Z"]}
    )
    return outcome(at.create_outlays(shop, "Google Ads", rows))


def create_type(shop):
    created = at.create_event_type(shop, "Order Completed", name="Order")
    return None if pd.isna(created["_id"]) else created["_id"]


WRITES = {
    "create_event": lambda shop: outcome(at.send_events(shop, events(), event_type="order", wait=False)),
    "create_event_sync": lambda shop: outcome(at.send_events(shop, events(), event_type="order")),
    "update_event_state": update(at.update_states),
    "update_event_statistic": update(at.update_statistics),
    "create_offline_interaction": create_offline,
    "create_event_type": create_type,
    "create_campaign": lambda shop: at.create_campaign(shop, "Google Ads", "spring", name="Spring"),
    "update_campaign": lambda shop: at.update_campaign(shop, "Google Ads", "c 1/2", name="Spring"),
    "create_outlay": create_outlays,
    "update_outlay": lambda shop: at.update_outlay(shop, "Google Ads", "c", "o", amount=7),
}
#: Answer of each form, with the id and the count in it.
ANSWERS = {
    "200 record": (Reply(body={"_id": ID, "id": ID, "new": {"deep": [1]}, "modifiedCount": 1}), ID, 1),
    "200 record with odd values": (Reply(body={"id": 7, "createdAt": 5, "data": {"type": {}}}), "7", None),
    "201 id": (Reply(201, {"id": ID}), ID, None),
    "200 _id": (Reply(body={"_id": ID}), ID, None),
    "202 envelope": (Reply(202, {"data": {"id": ID, "modifiedCount": 0}}), ID, 0),
    "201 bare id": (Reply(201, ID), ID, None),
    "201 bare number": (Reply(201, 17), "17", 17),
    "201 id as text": (Reply(201, ID.encode(), media="text/plain"), ID, None),
    "201 location": (Reply(201, b"", {"Location": f"/api/v1/things/{ID}?x=1"}), ID, None),
    "200 count": (Reply(body={"modifiedCount": 1.0}), None, 1),
    "200 true": (Reply(body=True), None, None),
    "200 null": (Reply(body=None), None, None),
    "200 object": (Reply(body={}), None, None),
    "200 array": (Reply(body=[]), None, None),
    "200 empty": (Reply(body=b""), None, None),
    "200 OK": (Reply(body=b"OK", media="text/plain"), None, None),
    "202 words": (Reply(202, "created at last"), None, None),
    "204": (Reply(204, b"", media=None), None, None),
    "200 broken JSON": (Reply(body=b'{"id": '), None, None),
    "200 JSON in UTF-16": (
        Reply(body=json.dumps({"id": ID}).encode("utf-16"), media="application/json; charset=UTF-16"), ID, None
    ),
    "200 byte order mark": (Reply(body=b"\xef\xbb\xbf" + json.dumps({"id": ID}).encode()), ID, None),
    "200 cut": (Reply(body={"id": ID}, cut=4), None, None),
}  # fmt: skip
COUNTED = {"update_campaign", "update_outlay"}
#: Reads of the specification that an addition falls back from.
ABSENT = Reply(404, {"message": "Cannot POST"})


def serve(service, operation, *replies):
    """Answer the paths of one write by replies, and all else as a service without additions does."""
    left = list(replies)

    def answer(asked):
        if "/batch" in asked.path or "/settings" in asked.path:
            return ABSENT
        if asked.method == "GET":
            return page()
        return left.pop(0) if len(left) > 1 else left[0]

    service.script = [answer]
    return lambda: [a for a in service.asked if a.method != "GET" and "/batch" not in a.path]


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("form", ANSWERS)
@pytest.mark.parametrize("operation", WRITES)
def test_a_write_that_was_carried_out_is_sent_once_whatever_the_answer(shop, service, operation, form):
    reply, id, count = ANSWERS[form]
    is_event = operation.startswith("create_event") and operation != "create_event_type"
    if is_event and form == "200 cut":
        # An event is sent again, which its nonce makes safe.
        sent = serve(service, operation, reply, Reply(body=UUID))
        assert WRITES[operation](shop) == ("processed" if operation.endswith("sync") else "accepted", UUID)
        assert len({asked.body for asked in sent()}) == 1
        return
    sent = serve(service, operation, reply)
    result = WRITES[operation](shop)
    assert len(sent()) == 1
    if operation in COUNTED:
        expected = count
    elif operation in ("create_campaign", "create_event_type"):
        expected = id
    elif operation.startswith("update"):
        expected = ("updated", UUID)
    elif is_event:
        # The id of an event is a UUID.
        expected = ("processed" if operation.endswith("sync") else "accepted", None)
    else:
        expected = ("created", id)
    assert result == expected


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("operation", sorted(WRITES.keys() - {"create_event", "create_event_sync"}))
def test_a_write_whose_answer_was_lost_is_unknown(shop, service, operation):
    sent = serve(service, operation, RESET)
    if operation in ("create_campaign", "create_event_type", *COUNTED):
        with pytest.raises(errors.Unavailable, match="may have been carried out") as caught:
            WRITES[operation](shop)
        assert caught.value.is_unknown
    else:
        assert WRITES[operation](shop) == ("unknown", None)
    assert len(sent()) == 1


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize(
    ("reply", "is_repeated"),
    [
        (Reply(429, b""), True),
        (Reply(503, {"message": "later"}, {"Retry-After": "1"}), True),
        (Reply(503, b"later", media="text/plain"), False),
        (Reply(500, b""), False),
        (Reply(504, b"<html>", media="text/html"), False),
    ],
)
def test_a_write_is_repeated_where_the_service_has_not_begun_it(shop, service, operation, reply, is_repeated):
    is_event = operation in ("create_event", "create_event_sync")
    sent = serve(service, operation, reply, Reply(body={"id": ID}))
    if is_repeated or is_event:
        WRITES[operation](shop)
        assert len(sent()) == 2
        return
    if operation in ("create_campaign", "create_event_type", *COUNTED):
        with pytest.raises(errors.AttribError) as caught:
            WRITES[operation](shop)
        assert caught.value.is_unknown
    else:
        assert WRITES[operation](shop) == ("unknown", None)
    assert len(sent()) == 1


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize(
    ("replies", "status"),
    [
        ([RESET, Reply(409, {"message": "nonce"})], "processed"),
        ([Reply(500, b""), Reply(409, {"message": "nonce", "eventId": UUID})], "processed"),
        ([Reply(409, {"message": "nonce"})], "rejected"),
        ([Reply(429, b""), Reply(409, {"message": "nonce"})], "rejected"),
    ],
)
def test_a_conflict_is_with_this_very_call_only_if_it_has_sent_the_event_before(
    shop, service, replies, status
):
    serve(service, "create_event_sync", *replies)
    assert WRITES["create_event_sync"](shop)[0] == status


@pytest.mark.parametrize(
    ("call", "order"),
    [
        (lambda shop: at.search_interactions(shop, limit=5), {"startDate": -1}),
        (lambda shop: at.search_users(shop, columns=["eventCount"], limit=5), "_id ASC"),
        (lambda shop: at.list_user_events(shop, ID, limit=5), "eventDate DESC"),
        (lambda shop: at.list_user_metrics(shop, ID, limit=5), "metricDate DESC"),
        (lambda shop: at.list_event_types(shop, limit=5), "reference "),
        (lambda shop: at.list_campaigns(shop, "Google Ads", limit=5), "name ASC"),
        (lambda shop: at.list_outlays(shop, "Google Ads", "c", limit=5), "startDate ASC"),
    ],
)
def test_the_order_that_a_function_promises_is_asked_for(shop, service, call, order):
    service.script = [page()]
    call(shop)
    asked = service.asked[0]
    if asked.method == "POST":
        sent = json.loads(asked.body)
        assert (sent["sort"] if isinstance(order, dict) else f"{sent['sort']} {sent['order']}") == order
    else:
        sort, _, direction = order.partition(" ")
        assert f"sort={sort}" in asked.path
        assert not direction or f"order={direction}" in asked.path


@pytest.mark.parametrize("status", [404, 405, 410, 501, 401, 403])
@pytest.mark.parametrize("media", ["application/json", "text/html"])
def test_an_addition_that_a_service_lacks_is_asked_for_once(shop, service, status, media):
    body = {"message": "Not here"} if media == "application/json" else b"<html><title>Gateway</title></html>"

    def answer(asked):
        return page() if "event-types" in asked.path else Reply(status, body, media=media)

    service.script = [answer]
    for _ in range(2):
        with pytest.raises(
            errors.NotSupported, match=rf"list_audiences: .* does not offer it \(HTTP {status}\)"
        ):
            at.admin.list_audiences(shop)
    # A token that is refused is renewed once.
    asked = [
        asked for asked in service.asked if asked.path.endswith("/audiences") or "audiences?" in asked.path
    ]
    assert len(asked) == (2 if status == 401 else 1)


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_good_for_nothing_is_no_missing_addition(shop, service, status):
    service.script = [Reply(status, {"message": "no"})]
    with pytest.raises((errors.Unauthorized, errors.Forbidden)):
        at.admin.list_audiences(shop)


@pytest.mark.parametrize(
    ("content", "media", "words"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "text/html", "web page"),
        (b"\n <html>", "text/csv", "web page"),
        (b"", "text/csv", "empty"),
        (b"\xef\xbb\xbf", "text/csv", "empty"),
        (b'{"status": "pending"}', "application/json", "JSON"),
        (b"[]", None, "JSON"),
        (b"name,orders\n1,2\n", "text/csv", "columns without _id"),
        (b"PK\x03\x04zip", "application/zip", "a workbook"),
    ],
)
def test_an_export_that_is_no_file_of_these_users_is_not_saved(
    shop, service, tmp_path, content, media, words
):
    service.script = [Reply(body=content, media=media)]
    with pytest.raises(errors.ServiceFailure, match=f"no file but .*{words}"):
        at.export_users(shop, tmp_path / "users.csv", columns=["_id", "eventCount"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b'"_id";"eventCount"\r\n', b"\xef\xbb\xbf_id,eventCount\n1,2\n", b"eventCount\t_id"]
)
@pytest.mark.parametrize("media", [None, "application/octet-stream", "text/csv; charset=utf-8"])
def test_exports_of_every_dialect_are_saved(shop, service, tmp_path, content, media):
    service.script = [Reply(body=content, media=media)]
    file = at.export_users(shop, tmp_path / "users.csv", columns=["_id", "eventCount"])
    assert file.read_bytes() == content


@pytest.mark.parametrize("total", [None, "12", 12.0, 3, 100, ...])
def test_totals_may_be_absent_text_or_estimates(shop, service, total):
    records = [
        {"_id": f"{number:024x}", "startDate": f"2025-01-{number + 1:02}T00:00:00Z"} for number in range(12)
    ]

    def answer(asked):
        sent = json.loads(asked.body)
        since, offset = sent.get("since", "2000"), sent["offset"]
        left = [record for record in records if record["startDate"][:19] >= since[:19]][offset:][
            : min(5, sent["limit"])
        ]
        counters = {"total": total} if total is not ... else {}
        return Reply(body={"data": left} | counters)

    service.script = [answer]
    frames = []
    if total == 100:
        with pytest.warns(errors.InputWarning, match="88 of 100 records are missing"):
            frames.append(at.search_interactions(shop, columns=["startDate"], sort="startDate"))
    else:
        frames.append(at.search_interactions(shop, columns=["startDate"], sort="startDate"))
    assert frames[0]["_id"].tolist() == [record["_id"] for record in records]


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, {"message": "limit must not be greater than 1000"}), (413, b""), (504, b"<html>"),
     (400, {"errors": [{"detail": "page size is too large"}]})],
)  # fmt: skip
def test_pages_become_smaller_and_stay_so(shop, service, status, body):
    def answer(asked):
        return page() if json.loads(asked.body)["limit"] <= 1_000 else Reply(status, body)

    service.script = [answer]
    at.search_interactions(shop)
    assert [json.loads(asked.body)["limit"] for asked in service.asked] == [10_000, 5_000, 2_500, 1_250, 625]
    at.search_interactions(shop)
    assert json.loads(service.asked[-1].body)["limit"] == 625


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"shop is closed", "shop is closed"),
        ({"error": {"code": 7, "message": "shop is closed"}}, "shop is closed"),
        ({"errors": ["shop is closed", {"detail": "come back"}]}, "shop is closed; come back"),
        ({"detail": "shop is closed"}, "shop is closed"),
        ("shop is closed", "shop is closed"),
        (b"<html><head><title>Shop &amp; co</title>", "Shop & co"),
    ],
)
def test_errors_say_what_the_service_said(shop, service, body, words):
    service.script = [Reply(422, body)]
    with pytest.raises(errors.InvalidRequest, match=words):
        at.get_user(shop, ID)
