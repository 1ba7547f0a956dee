"""Answers of services that keep the specification in other ways than ours: each write is sent once."""

import json
from urllib.parse import parse_qs

import pandas as pd
import pytest
from support.scripted_service import RESET, Reply, page

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.api.results import knows_additions

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


@pytest.mark.few(6)
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


@pytest.mark.few(6)
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
    ("content", "saved"),
    [
        (b'"_id";"eventCount"\r\n', b"_id,eventCount\r\n"),
        (b"\xef\xbb\xbf_id,eventCount\n1,2\n", b"_id,eventCount\r\n1,2\r\n"),
        (b"eventCount\t_id", b"eventCount,_id\r\n"),
    ],
)
@pytest.mark.parametrize("media", [None, "application/octet-stream", "text/csv; charset=utf-8"])
def test_exports_of_every_dialect_are_saved_in_the_one_asked_for(
    shop, service, tmp_path, content, saved, media
):
    service.script = [Reply(404), Reply(body=content, media=media)]
    file = at.export_users(shop, tmp_path / "users.csv", columns=["_id", "eventCount"])
    assert file.read_bytes() == saved


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
    assert frames[0].attrs["total"] == (100 if total == 100 else 12)


HALVES = [10_000, 5_000, 2_500, 1_250, 625, 312, 156, 78, 39, 19, 9, 4, 2, 1]


@pytest.mark.parametrize(
    ("status", "body", "most", "limits"),
    [
        (400, {"message": "limit 10000 must not be greater than 1000"}, 1_000, [10_000, 1_000]),
        (400, {"message": "limit: at most 20"}, 20, [10_000, 20]),
        (413, b"", 1_000, HALVES[:5]),
        (504, b"<html>", 99, HALVES[:8]),
        (400, {"errors": [{"detail": "page size is too large"}]}, 1, HALVES),
        (400, {"errors": [{"field": "limit", "message": "at most 250"}]}, 250, [10_000, 250]),
        (422, {"detail": [{"loc": ["body", "limit"], "msg": "at most 500"}]}, 500, [10_000, 500]),
    ],
)
def test_pages_become_smaller_and_stay_so(shop, service, status, body, most, limits):
    def answer(asked):
        return page() if json.loads(asked.body)["limit"] <= most else Reply(status, body)

    service.script = [answer]
    at.search_interactions(shop)
    assert [json.loads(asked.body)["limit"] for asked in service.asked] == limits
    at.search_interactions(shop)
    assert json.loads(service.asked[-1].body)["limit"] == limits[-1]


def test_a_page_is_not_too_large_for_a_service_that_is_down(shop, service, time):
    service.script = [Reply(504)]
    with pytest.raises(errors.Unavailable, match="HTTP 504"):
        at.search_interactions(shop)
    # At 78 records, the same page is requested again, as often as after any failure.
    assert [json.loads(asked.body)["limit"] for asked in service.asked] == [*HALVES[:7], *[78] * 6]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"shop is closed", "shop is closed"),
        ({"error": {"code": 7, "message": "shop is closed"}}, "shop is closed"),
        ({"errors": ["shop is closed", {"detail": "come back"}]}, "shop is closed; come back"),
        ({"detail": "shop is closed"}, "shop is closed"),
        ({"errors": [{"field": "day", "message": "shop is closed"}]}, "day: shop is closed"),
        ({"data": {"message": "shop is closed"}}, "shop is closed"),
        ({"fault": {"detail": {"errorcode": "e-7"}, "faultstring": "shop is closed"}}, "shop is closed"),
        ("shop is closed", "shop is closed"),
        (b"<html><head><title>Shop &amp; co</title>", "Shop & co"),
        (b"<html><body><h1 class='x'>Shop <i>&amp;</i> co</h1><p>Bye", r"Shop & co \(request"),
    ],
)
def test_errors_say_what_the_service_said(shop, service, body, words):
    service.script = [Reply(422, body)]
    with pytest.raises(errors.InvalidRequest, match=words):
        at.get_user(shop, ID)


VISITS = [
    {
        "_id": f"{number:024x}",
        "type": "session",
        "userId": "a" * 24,
        "nodeId": "search",
        "startDate": f"2025-01-{number + 1:02}T00:00:00.000Z",
        "endDate": f"2025-01-{number + 1:02}T00:10:00.000Z",
        "isBot": False,
        "hitCount": 1,
        "firstHitId": UUID.upper()[:-2] + f"{number:02}",
    }
    for number in range(3)
]
ORDER = {"type": "currency", "date": DAY, "current": {"amount": 10, "currency": "EUR"}}


def order(**changes):
    """Return an order of the user, with some properties changed; those that are None are absent."""
    event = {"_id": UUID, "userId": "a" * 24, "eventDate": DAY, "eventType": "order", "metrics": []}
    return {name: value for name, value in (event | changes).items() if value is not None}


def metric(**changes):
    """Return the turnover of an order, with its current value changed."""
    current = ORDER["current"] | changes
    return {"key": "turnover", "type": "statistic", "data": ORDER | {"current": current}}


def keep(
    service, *, visits=VISITS, events=(), types=(), refuse=lambda asked, sent: None, absent=ABSENT, most=9
):
    """Answer the searches of a project as a service of the specification does; `refuse` may answer first."""

    def answer(asked):
        sent = json.loads(asked.body) if asked.body else {}
        refusal = refuse(asked, sent)
        path = asked.path.partition("?")[0]
        if refusal is not None:
            return refusal
        if path.endswith("/interactions/search"):
            found = [
                visit
                for visit in visits
                if sent.get("since", "2000")[:19]
                <= visit["startDate"]
                <= sent.get("until", "3000")[:23] + "Z"
            ]
            found.sort(key=lambda visit: visit["startDate"], reverse=True)
            offset = sent.get("offset", 0)
            named = [
                {name: value for name, value in visit.items() if name in sent.get("projection", ("_id",))}
                for visit in found[offset:][: min(most, sent["limit"])]
            ]
            return page(*named, total=len(found), offset=offset)
        if path.endswith("/users/search"):
            user = {"_id": "a" * 24, "eventCount": len(events)}
            return page(*([] if sent.get("idAfter") else [user]), offset=0)
        if path.endswith("/hits"):
            visit = next(visit for visit in visits if visit["firstHitId"] == path.split("/")[-2])
            hit = {"id": visit["firstHitId"], "sessionId": visit["_id"], "serverDate": visit["startDate"]}
            # The specification does not say in which unit the offset is.
            return Reply(body=[hit | {"href": "x", "pageUrl": {"query": {}}, "timezoneOffset": -3600}])
        listed = {"events": events, "event-types": types}.get(path.rpartition("/")[2])
        return absent if listed is None else page(*listed)

    service.script = [answer]


def mirrored(shop, **options):
    """Mirror a project; return its interactions, its events and what its check says."""
    with at.sync(shop, ":memory:", **{"integrations": []} | options) as mirror:
        visits = at.search_interactions(mirror, filtered=None, bots=None, sort="startDate")
        return visits, at.search_events(mirror), at.admin.check(mirror)


WARNS = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")


@WARNS
def test_what_is_needed_is_asked_for_by_name(shop, service):
    bots = [visit | {"isBot": True, "trafficFilterId": "tf-1"} for visit in VISITS]
    keep(service, visits=bots)
    visits, _, check = mirrored(shop)
    assert (visits["isBot"].all(), set(visits["trafficFilterId"]), set(visits["nodeId"])) == (
        True, {"tf-1"}, {"search"}
    )  # fmt: skip
    assert at.search_interactions(shop)["userId"].tolist() == ["a" * 24] * 3
    assert check.empty


TURNOVER = {"storageKey": "turnover", "type": "currency", "entity": "event"}
TYPES = [{"_id": "t", "reference": "order", "fields": [TURNOVER]}]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("currency", "kept"),
    [
        ("eur", "EUR"),
        ("Eur", "EUR"),
        ("XBT", "XBT"),
        ("US$", "US$"),
        ("EURO", "EURO"),
        ("", None),
        (None, None),
    ],
)
@WARNS
def test_an_amount_of_any_currency_is_kept_and_named(shop, service, currency, kept, recwarn):
    keep(service, types=TYPES, events=[order(metrics=[metric(currency=currency)])])
    _, events, check = mirrored(shop)
    row = events.iloc[0]
    assert row["statistics.turnover.amount"] == 10
    assert (
        None if pd.isna(row["statistics.turnover.currency"]) else row["statistics.turnover.currency"]
    ) == kept
    assert check["check"].tolist() == ([] if kept == "EUR" else ["currencies"])
    told = [str(warning.message) for warning in recwarn if "'turnover'" in str(warning.message)]
    assert len(told) == (kept != "EUR")


@WARNS
def test_a_metric_that_cannot_be_kept_is_named(shop, service):
    keep(service, events=[order(metrics=[metric(amount="a lot")])])
    with pytest.warns(errors.InputWarning, match="1 value of the metric 'turnover' left out .*no amount"):
        _, events, _ = mirrored(shop)
    assert len(events) == 1


@WARNS
@pytest.mark.parametrize("step", [1, -1])
def test_a_deleted_value_does_not_hide_the_current_one(shop, service, step):
    deleted = metric(amount=999) | {"deletedAt": DAY, "updatedAt": "2025-03-01T00:00:00Z"}
    keep(service, types=TYPES, events=[order(metrics=[deleted, metric()][::step])])
    assert mirrored(shop)[1]["statistics.turnover.amount"].tolist() == [10]
    assert at.list_user_events(shop, "a" * 24)["statistics.turnover.amount"].tolist() == [10]


@WARNS
def test_an_amount_may_be_a_bare_number(shop, service):
    data = {**ORDER, "raw": ORDER["current"]}
    del data["current"]
    metrics = [{"key": "turnover", "type": "statistic", "data": data | {"current": 10.5}}]
    keep(service, types=TYPES, events=[order(metrics=metrics)])
    assert at.list_user_events(shop, "a" * 24)["statistics.turnover.amount"].tolist() == [10.5]


@WARNS
def test_a_place_beyond_the_earth_costs_no_interaction(shop, service):
    keep(service, visits=[visit | {"geo": {"latitude": 500, "longitude": -999}} for visit in VISITS])
    visits, _, check = mirrored(shop)
    assert visits["geo.latitude"].tolist() == [500, 500, 500]
    assert check.empty


@WARNS
def test_an_interaction_without_a_node_has_none_and_earns_no_credit_for_one(shop, service):
    visits = [{name: value for name, value in visit.items() if name != "nodeId"} for visit in VISITS]
    keep(service, visits=visits, events=[order()])
    with at.sync(shop, ":memory:", integrations=[]) as mirror:
        assert at.search_interactions(mirror)["nodeId"].isna().all()
        assert at.list_nodes(mirror).empty
        assert at.admin.check(mirror).empty
        credits = at.attribute(at.conversion_paths(mirror, event_type="order"), "last_touch")
    assert credits["node_id"].isna().all()
    assert credits["conversions"].sum() == 1


@WARNS
def test_ids_keep_the_blanks_that_tell_them_apart(shop, service):
    nodes = [" a", "a", "a "]
    keep(
        service,
        visits=[visit | {"nodeId": node} for visit, node in zip(VISITS, nodes, strict=True)],
        events=[order(eventType=" order"), order(_id=UUID[:-1] + "b", eventType="order")],
    )
    visits, events, check = mirrored(shop)
    assert visits["nodeId"].tolist() == nodes
    assert set(events["eventType"]) == {" order", "order"}
    assert check.empty


@WARNS
@pytest.mark.parametrize("operation", WRITES)
def test_a_web_page_is_no_answer_to_a_write(shop, service, operation):
    login = Reply(body=b"<!DOCTYPE html><html><title>Log in</title></html>", media="text/html")
    sent = serve(service, operation, login)
    words = r"the response is a web page \(Log in\); check url="
    if operation.startswith("create_event"):
        with pytest.raises(errors.ServiceFailure, match=words) as caught:
            WRITES[operation](shop)
        assert caught.value.is_unknown == (operation == "create_event_type")
    elif operation in ("create_campaign", *COUNTED):
        with pytest.raises(errors.ServiceFailure, match=f"{words}.*; the request may have been carried out"):
            WRITES[operation](shop)
    else:
        assert WRITES[operation](shop) == ("unknown", None)
    assert len(sent()) == 1


def test_rows_after_one_that_was_answered_by_a_web_page_are_not_sent(shop, service):
    rows = pd.DataFrame(
        {"date": [DAY] * 3, "nodeData.vendorId": "Google Ads", "userData.email": "ann@x.example"}
    )
    service.script = [Reply(201, {"id": ID}), Reply(body=b"<html>", media="text/html")]
    sent = at.create_offline_interactions(shop, rows)
    assert sent["status"].tolist() == ["created", "unknown", "unsent"]
    service.script = [Reply(body=b"<answer>done</answer>", media="application/xml")]
    assert at.create_offline_interactions(shop, rows)["status"].tolist() == ["created"] * 3


LISTS = {
    "a search": at.search_interactions,
    "a list": lambda shop: at.list_outlays(shop, "meta", "c"),
    "an array": lambda shop: at.list_hits(shop, UUID),
    "one that the specification does not show": lambda shop: at.list_user_metrics(shop, ID),
}


@pytest.mark.parametrize("read", LISTS.values(), ids=LISTS)
def test_a_list_without_content_is_empty(shop, service, read):
    service.script = [Reply(204, b"", media=None)]
    found = read(shop)
    assert found.empty
    assert found.attrs.get("total", 0) == 0
    assert len(service.asked) == 1


SHOWN = {name: read for name, read in LISTS.items() if "not show" not in name}


@pytest.mark.parametrize("name", [*SHOWN, "a record"])
def test_an_empty_body_is_told_at_once(shop, service, name):
    service.script = [Reply(body=b"")]
    with pytest.raises(errors.ServiceFailure, match="HTTP 200. is empty; expected JSON"):
        (SHOWN | {"a record": lambda shop: at.get_user(shop, ID)})[name](shop)
    assert len(service.asked) == 1


@pytest.mark.parametrize("body", [b"", b"null"])
def test_metrics_of_a_user_may_be_nothing(shop, service, body):
    service.script = [Reply(body=body)]
    assert at.list_user_metrics(shop, ID).empty
    assert len(service.asked) == 1


def test_no_content_within_a_walk_loses_nothing_in_silence(shop, service):
    def answer(asked):
        sent = json.loads(asked.body)
        is_first = "until" not in sent
        return (
            Reply(body={"data": VISITS[:0:-1][: sent["limit"]], "total": 3}) if is_first else Reply(204, b"")
        )

    service.script = [answer]
    with pytest.warns(errors.InputWarning, match="1 of 3 records are missing"):
        assert len(at.search_interactions(shop, sort="-startDate")) == 2


def test_ids_are_sent_as_the_service_gave_them(shop, service):
    service.script = [page()]
    at.list_hits(shop, UUID.upper())
    assert UUID.upper() in service.asked[0].path


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.UnknownFields")
def test_another_id_beside_or_in_place_of_the_id_is_none(shop, service):
    service.script = [page({"id": "c", "_id": "x"}), page({"_id": "x"})]
    assert at.list_campaigns(shop, "meta")["id"].tolist() == ["c"]
    with pytest.raises(errors.ServiceFailure, match="1 of 1 records without id"):
        at.list_campaigns(shop, "meta")


@WARNS
def test_pages_of_one_record_are_walked(shop, service):
    types = [{"_id": name, "reference": name} for name in "abc"]

    def one_at_a_time(asked, sent):
        if "event-types" not in asked.path:
            return None
        offset = int(parse_qs(asked.path.partition("?")[2])["offset"][0])
        return page(*types[offset : offset + 1], total=3, offset=offset)

    keep(service, most=1, refuse=one_at_a_time)
    assert at.search_interactions(shop)["_id"].tolist() == [visit["_id"] for visit in VISITS[::-1]]
    assert at.list_event_types(shop)["reference"].tolist() == ["a", "b", "c"]
    assert len(mirrored(shop)[0]) == 3


@WARNS
def test_unknown_fields_of_hits_are_ignored_with_one_warning(shop, service):
    keep(service)
    with pytest.warns(errors.UnknownFields) as told:
        mirror = at.sync(shop, ":memory:", hits=True)
    with mirror:
        hits = pd.concat([at.list_hits(mirror, visit["firstHitId"]) for visit in VISITS])
    assert hits["timezoneOffset"].tolist() == [-3600, -3600, -3600]
    assert sum("list_hits" in str(warning.message) for warning in told) == 1


@WARNS
def test_fields_of_event_types_may_lack_members(shop, service):
    fields = [{"storageKey": "email", "type": "email", "entity": "user"}, {"storageKey": "turnover"}]
    keep(service, types=[{"_id": "t", "reference": "order", "fields": fields}], events=[order()])
    assert len(mirrored(shop)[1]) == 1


@WARNS
def test_conversions_are_matched_with_fields_that_lack_members(shop, service):
    deals = pd.DataFrame({"deal": ["d-1"], "mail": ["ann@x.example"], "day": [DAY]})
    email = {"storageKey": "email", "type": "email", "entity": "user"}

    def send(fields):
        def answer(asked):
            if "/event-types/order" in asked.path:
                return Reply(body={"_id": "t", "reference": "order", "fields": fields})
            return ABSENT if "/batch" in asked.path or asked.method == "GET" else Reply(body=UUID)

        service.script = [answer]
        return at.send_conversions(shop, deals, email="mail", date="day", id="deal")["status"].item()

    assert send([email, {"storageKey": "sku"}]) == "processed"
    for fields in (None, [{"storageKey": "email"}]):
        with pytest.raises(errors.InvalidRequest, match="field of users of the type email"):
            send(fields)


@WARNS
def test_no_order_is_sent_that_the_specification_does_not_show(shop, service):
    keep(service, most=1)
    at.search_interactions(shop)
    directions = {way for asked in service.asked for way in json.loads(asked.body)["sort"].values()}
    assert directions == {-1}
    nulls = [
        name for asked in service.asked for name, value in json.loads(asked.body).items() if value is None
    ]
    assert nulls == []


@WARNS
@pytest.mark.parametrize("most", [1, 9])
def test_a_service_that_sorts_by_one_property_is_asked_for_one(shop, service, most):
    def refuse(asked, sent):
        return Reply(400, {"message": "one property"}) if len(sent.get("sort", ())) > 1 else None

    keep(service, most=most, refuse=refuse)
    found = at.search_interactions(shop, sort=["-startDate", "-_id"])
    assert found["_id"].tolist() == [visit["_id"] for visit in VISITS[::-1]]
    assert [len(json.loads(asked.body)["sort"]) for asked in service.asked[:3]][:2] == [2, 1]
    assert all(len(json.loads(asked.body)["sort"]) == 1 for asked in service.asked[1:])


@WARNS
def test_all_records_are_read_where_a_filter_is_refused(shop, service, tmp_path):
    def refuse(asked, sent):
        is_filtered = "interactionFilter" in sent or "filters" in sent
        return Reply(400, {"message": "unknown operator greaterThanOrEquals"}) if is_filtered else None

    keep(service, refuse=refuse, visits=VISITS[:2])
    at.sync(shop, tmp_path / "mirror").close()
    keep(service, refuse=refuse, events=[order()])
    with pytest.warns(errors.InputWarning, match="refuses the filter of changes"):
        mirror = at.sync(shop, tmp_path / "mirror")
    with mirror:
        assert len(at.search_interactions(mirror)) == 3
        assert len(at.search_events(mirror)) == 1


@WARNS
def test_a_search_of_users_does_without_what_is_no_counter(shop, service):
    def refuse(asked, sent):
        return (
            Reply(400, {"message": "unknown key createdAt"})
            if "createdAt" in sent.get("fields", ())
            else None
        )

    keep(service, refuse=refuse, events=[order()])
    assert len(mirrored(shop)[1]) == 1


@WARNS
def test_the_user_of_an_event_is_the_one_that_was_asked_for(shop, service):
    keep(service, events=[order(userId=None)])
    assert mirrored(shop)[1]["userId"].tolist() == ["a" * 24]


MISSING = {
    "400": Reply(400, {"message": "Bad Request"}),
    "web page": Reply(body=b"<html>", media="text/html"),
    "welcome": Reply(body={"message": "Welcome"}),
    "redirect": Reply(302, b"", {"Location": "https://login.example"}),
    "500": Reply(500, {"message": "Internal Server Error"}),
    "502": Reply(502, b"<html>", media="text/html"),
    "error with 200": Reply(body={"statusCode": 404, "message": "Not Found"}),
    "empty object": Reply(body={}),
    "empty list": Reply(body=[]),
    "empty page": Reply(body={"count": 0, "total": 0, "data": []}),
    "empty page of ours": page(),
    "null": Reply(body=None),
    "empty": Reply(body=b""),
    "no content": Reply(204, b"", media=None),
}


@pytest.mark.few(2)
@WARNS
@pytest.mark.parametrize("form", MISSING)
def test_an_addition_that_a_service_lacks_in_its_own_way_is_done_without(shop, service, form):
    keep(service, absent=MISSING[form], events=[order()])
    visits, stored, check = mirrored(shop)
    assert (len(visits), len(stored), len(check)) == (3, 1, 0)
    before = len(service.asked)
    mirrored(shop)
    again = [asked.path for asked in service.asked[before:]]
    assert not [path for path in again if path.endswith(("/settings", "/nodes", "/events/search"))]


@WARNS
@pytest.mark.parametrize("form", ["empty list", "empty page of ours"])
def test_an_empty_answer_to_any_path_costs_no_campaigns_and_outlays(shop, service, form):
    outlay = {"_id": "o", "campaignId": "c", "amount": {"amount": 5, "currency": "EUR"}}
    outlay |= {"startDate": DAY, "endDate": "2025-02-01T00:00:00Z"}
    listed = {
        "campaigns": page({"id": "c", "name": "Spring", "campaignSlug": "spring"}),
        "outlays": page(outlay),
    }

    def answer(asked, sent):
        return listed.get(asked.path.partition("?")[0].rpartition("/")[2]) if asked.method == "GET" else None

    visits = [visit | {"integrationId": "meta"} for visit in VISITS]
    keep(service, absent=MISSING[form], visits=visits, refuse=answer)
    with at.sync(shop, ":memory:") as mirror:
        assert at.list_outlays(mirror, "meta", "c")["_id"].tolist() == ["o"]


@pytest.mark.few(6)
@pytest.mark.parametrize("form", [form for form, reply in MISSING.items() if reply.status < 300])
def test_lists_of_a_service_that_answers_any_path_are_not_empty_but_missing(shop, service, form):
    keep(service, absent=MISSING[form])
    calls = [at.admin.list_keys, at.admin.list_audiences, at.admin.get_settings, at.admin.list_rates]
    for call in calls:
        with pytest.raises(errors.NotSupported, match="does not offer it"):
            call(shop)


@pytest.mark.few(6)
@WARNS
@pytest.mark.parametrize("form", MISSING)
def test_events_are_sent_once_without_batches(shop, service, form):
    stored = []

    def answer(asked):
        if asked.path.endswith("/events/sync"):
            stored.append(json.loads(asked.body)["nonce"])
            return Reply(body=UUID)
        return page() if "event-types" in asked.path else MISSING[form]

    service.script = [answer]
    sent = at.send_events(shop, events(nonce=["n-1"]), event_type="order")
    assert (sent["status"].tolist(), stored) == (["processed"], ["n-1"])


def test_a_failure_for_a_moment_does_not_tell_whether_a_service_has_additions(shop, service):
    service.script = [*[Reply(503)] * 6, Reply(404), Reply(404)]
    assert not knows_additions(shop)
    assert not knows_additions(shop)
    assert len(service.asked) == 7


def test_a_failure_of_all_operations_is_no_missing_addition(shop, service):
    service.script = [Reply(500, {"message": "Internal Server Error"})]
    with pytest.raises(errors.ServiceFailure, match=r"list_nodes: HTTP 500 from http://.*/nodes: Internal"):
        at.list_nodes(shop)


@WARNS
def test_messages_name_what_to_do(shop, service):
    keep(service)
    with pytest.raises(errors.NotSupported, match="list_user_events reads the events of a user"):
        at.search_events(shop)
    service.script = [Reply(400, {"message": "Bad Request"})]
    with pytest.raises(
        errors.InvalidRequest, match=r"^get_user: HTTP 400 from http://.*/users/.*: Bad Request"
    ):
        at.get_user(shop, ID)
    service.script = [Reply(400, {"fault": {"faultstring": "shop is closed"}})]
    with pytest.raises(errors.InvalidRequest, match="shop is closed"):
        at.get_user(shop, ID)


def gaps_told(told):
    return [str(warning.message) for warning in told if "the mirror lacks" in str(warning.message)]


def test_what_a_mirror_lacks_is_told_by_sync_by_each_opening_and_by_its_check(
    shop, service, tmp_path, recwarn
):
    nobody = [visit | {"userId": None} for visit in VISITS[:2]]
    keep(service, visits=[*nobody, VISITS[2]])
    at.sync(shop, tmp_path / "mirror").close()
    (by_sync,) = gaps_told(recwarn)
    assert f"interactions (2, the first is {VISITS[1]['_id']}: userId" in by_sync
    assert (
        "integrations with their campaigns and outlays (1, the first is all: the service does not" in by_sync
    )
    for read_only in (False, True):
        with pytest.warns(errors.InputWarning) as told:
            mirror = at.connect("shop", path=tmp_path / "mirror", read_only=read_only)
        assert gaps_told(told) == [by_sync.replace("sync:", "connect:")]
        with mirror:
            check = at.admin.check(mirror)
            assert len(at.search_interactions(mirror)) == 1
        assert check["check"].tolist() == ["mirror"] * 2
        assert check["records"].tolist() == [2, 1]
    recwarn.clear()
    keep(service)
    at.sync(shop, tmp_path / "mirror", since="2025-01-01", integrations=[]).close()
    at.connect("shop", path=tmp_path / "mirror").close()
    assert gaps_told(recwarn) == []


def test_an_integration_that_a_service_refuses_is_told_if_it_was_named(shop, service, recwarn):
    def refuse(asked, sent):
        return Reply(403, {"message": "no access"}) if "custom-ads/Google" in asked.path else None

    campaign = {"id": "c", "name": "Spring", "campaignSlug": "spring"}
    keep(service, refuse=lambda asked, sent: refuse(asked, sent) or (
        page(campaign) if asked.path.partition("?")[0].endswith("campaigns") else None
    ))  # fmt: skip
    with at.sync(shop, ":memory:", integrations=["Google Ads", "meta"]) as mirror:
        assert at.list_campaigns(mirror, "meta")["id"].tolist() == ["c"]
        check = at.admin.check(mirror)
    assert check["examples"].tolist() == [["Google Ads"]]
    assert ["no access" in told for told in gaps_told(recwarn)] == [True]
