"""The independent service of `support.vendor` keeps the specification, in every variation."""

import csv
import io
import json
import re
import time
from contextlib import ExitStack
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import jwt
import openpyxl
import pytest
import requests
from support.vendor.server import serving
from support.vendor.variations import VARIATIONS, WRITES, Fault, Variation

ADS = "/custom-ads/Google%20Ads/campaigns"
EVENT = {
    "projectId": "my-shop",
    "eventType": "order",
    "data": {"orderId": "7", "mail": "New@x.example", "turnover": 12.5},
}


class Caller:
    """A bare caller of a service: a token, and one request at a time."""

    def __init__(self, service):
        self.service, self.vendor = service, service.vendor
        self.base, self.token = f"{service.url}/projects/{service.project}", None
        self.session = requests.Session()
        self.session.trust_env = False

    def exchange(self, seconds=300, algorithm="RS256", **claims):
        key = json.loads(self.service.key.read_text())
        audience = f"{self.service.auth_url}/oidc/token"
        payload = {
            "iss": key["clientId"],
            "sub": key["serviceAccountEmail"],
            "aud": audience,
            "scope": "full_access",
        }
        payload |= {"exp": int(time.time()) + seconds} | claims
        secret = key["privateKey"] if algorithm == "RS256" else "x" * 64
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "client_id": key["clientId"]}
        form["assertion"] = jwt.encode(payload, secret, algorithm, {"kid": key["privateKeyId"]})
        return self.session.post(audience, data=form, allow_redirects=False)

    def call(self, method, path, *, base=None, **options):
        if self.token is None:
            self.token = self.exchange().json()["access_token"]
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.session.request(method, (base or self.base) + path, headers=headers, **options)

    def get(self, path, **query):
        return self.call("GET", path, params=query)

    def post(self, path, **body):
        return self.call("POST", path, json=body)

    def users(self, **body):
        base = f"{self.service.url_v2}/projects/{self.service.project}"
        return self.call("POST", "/users/search", base=base, json=body)

    def send(self, nonce, way="/events/sync", **changes):
        return self.call("POST", way, base=self.service.url, json=EVENT | {"nonce": nonce} | changes)

    def write(self, operation):
        """Call a writing operation."""
        world = self.vendor.world
        event = next(one for one in world.events.values() if one["eventType"] == "order")["_id"]
        campaign = next(one for one in world.campaigns.values() if one["name"] == "Spring Sale")["id"]
        outlay = next(one for one in world.outlays.values() if one["campaignId"] == campaign)["_id"]
        campaign, outlay = (requests.utils.quote(one, safe="") for one in (campaign, outlay))
        period = {"startDate": "2025-05-01T00:00:00Z", "endDate": "2025-05-02T00:00:00+02:00"}
        node = {"vendorId": "Google Ads"}
        calls = {
            "create_offline_interaction": lambda: self.post("/interactions/offline", userData={"email": "a@x.example"}, nodeData=node),
            "create_event": lambda: self.send("a", "/events"),
            "create_event_sync": lambda: self.send("b"),
            "update_event_state": lambda: self.call("PUT", f"/events/{event}/states/paid", json={"value": 0}),
            "update_event_statistic": lambda: self.call("PUT", f"/events/{event}/statistics/turnover", json={"value": 9}),
            "create_event_type": lambda: self.post("/event-types", reference="call", name="Call", fields=[]),
            "create_campaign": lambda: self.post(ADS, campaignSlug="autumn", name="Autumn"),
            "update_campaign": lambda: self.call("PATCH", f"{ADS}/{campaign}", json={"active": False}),
            "create_outlay": lambda: self.post(f"{ADS}/{campaign}/outlays", amount=10, **period),
            "update_outlay": lambda: self.call("PATCH", f"{ADS}/{campaign}/outlays/{outlay}", json={"amount": 11}),
        }  # fmt: skip
        return calls[operation]()


@pytest.fixture
def start(tmp_path):
    """Start services that end with the test."""
    with ExitStack() as stack:

        def begin(variation="plain", **data):
            caller = Caller(stack.enter_context(serving(tmp_path, variation, **data)))
            stack.callback(caller.session.close)
            return caller

        yield begin


def instants(rows, name="startDate"):
    return [datetime.fromisoformat(row[name]) for row in rows]


# The specification


def test_a_token_needs_a_fitting_assertion(start):
    service = start()
    answer = service.exchange()
    assert answer.status_code == 200
    assert (answer.json()["token_type"], answer.json()["expires_in"], answer.json()["scope"]) == (
        "Bearer",
        3600,
        "full_access",
    )
    for wrong in (
        {"seconds": -1},
        {"iss": "other"},
        {"sub": "other"},
        {"aud": "https://other.example"},
        {"algorithm": "HS256"},
    ):
        assert service.exchange(**wrong).status_code == 400
    assert service.session.post(f"{service.base}/interactions/search", json={}).status_code == 401
    assert (
        service.call(
            "POST", "/projects/other/interactions/search", base=service.service.url, json={}
        ).status_code
        == 403
    )
    assert service.vendor.writes == []


def test_interactions_are_selected_sorted_and_paged(start):
    service = start()
    whole = service.post("/interactions/search", sort={"startDate": -1}).json()
    assert whole["count"] == whole["total"] == len(whole["data"]) > 50
    assert instants(whole["data"]) == sorted(instants(whole["data"]), reverse=True)
    page = service.post("/interactions/search", sort={"startDate": -1}, offset=10, limit=5).json()
    assert page == {
        "offset": 10,
        "limit": 5,
        "count": 5,
        "total": whole["total"],
        "data": whole["data"][10:15],
    }
    bound = whole["data"][20]["startDate"]
    since = service.post("/interactions/search", since=bound).json()["total"]
    until = service.post("/interactions/search", until=bound).json()["total"]
    assert since + until == whole["total"] + instants(whole["data"]).count(datetime.fromisoformat(bound))
    counts = {
        bots: service.post("/interactions/search", isBot=bots, filtered=None).json()["total"]
        for bots in (True, False, None)
    }
    assert counts[True] + counts[False] == counts[None]
    assert 0 < counts[True] < counts[False]
    rows = service.post("/interactions/search", projection=["geo.city", "type"]).json()["data"]
    assert {frozenset(row) for row in rows} == {frozenset({"_id", "type", "geo"}), frozenset({"_id", "type"})}
    assert all(set(row["geo"]) == {"city"} for row in rows if row["type"] == "session")
    assert service.post("/interactions/search", projection=[]).status_code == 400
    assert service.post("/interactions/search", since="yesterday").status_code == 400


def test_filters_nest_and_a_node_selects_its_children(start):
    service = start()
    world = service.vendor.world
    offline = {"type": "predicate", "field": "type", "operator": "equals", "value": "offline"}
    session = offline | {"value": "session"}
    total = service.post("/interactions/search").json()["total"]
    both = {"id": "1", "type": "condition", "condition": "OR", "rules": [offline, {"type": "condition", "condition": "AND", "rules": [session]}]}  # fmt: skip
    assert service.post("/interactions/search", interactionFilter=both).json()["total"] == total
    none = both | {"condition": "AND"}
    assert service.post("/interactions/search", interactionFilter=none).json()["total"] == 0
    node = {"type": "predicate", "filterId": "vendorId", "operator": "equals", "value": "Google Ads"}
    found = service.post(
        "/interactions/search", nodeFilter={"type": "condition", "condition": "AND", "rules": [node]}
    ).json()["data"]
    root = world.vendors["Google Ads"]["nodeId"]
    assert found
    assert all(root in (row["nodeId"], world.nodes[row["nodeId"]]["parent"]) for row in found)
    assert (
        service.post(
            "/interactions/search", interactionFilter=offline | {"operator": "resembles"}
        ).status_code
        == 400
    )


def test_an_interaction_has_its_hits(start):
    service = start()
    rows = service.post("/interactions/search", limit=500).json()["data"]
    visit = max((row for row in rows if row["type"] == "session"), key=lambda row: row["hitCount"])
    whole = service.get(f"/interactions/{visit['_id']}").json()
    span = datetime.fromisoformat(whole["endDate"]) - datetime.fromisoformat(whole["startDate"])
    assert whole["duration"] == pytest.approx(span.total_seconds())
    hits = service.get(f"/interactions/{visit['firstHitId']}/hits").json()
    assert [hits[0]["id"], len(hits)] == [visit["firstHitId"], visit["hitCount"]]
    assert {hit["sessionId"] for hit in hits} == {visit["_id"]}
    assert instants(hits, "serverDate") == sorted(instants(hits, "serverDate"))
    assert service.get("/interactions/5b0fd7e6-0000-4000-8000-000000000000/hits").json() == []
    assert service.get(f"/interactions/{'0' * 24}").status_code == 404
    assert service.get("/interactions/none").status_code == 400


def test_insights_agree_with_searches(start):
    service = start()
    rows = service.post("/interactions/search").json()["data"]
    (one,) = service.post("/interactions/insights").json()
    assert one["sessionCount"] == len(rows)
    assert one["hitCount"] == sum(row.get("hitCount", 0) for row in rows)
    assert one["durationSum"] == pytest.approx(sum(row["duration"] for row in rows))
    months = service.post(
        "/interactions/insights", group="type", interval="month", sort={"sessionCount": -1}
    ).json()
    assert sum(record["sessionCount"] for record in months) == len(rows)
    assert {record["group"] for record in months} == {"session", "offline"}
    counts = [record["sessionCount"] for record in months]
    assert counts == sorted(counts, reverse=True)
    (none,) = service.post("/interactions/insights", until="2000-01-01T00:00:00Z").json()
    assert none == {"sessionCount": 0, "hitCount": 0, "durationSum": 0}
    parts = service.post("/interactions/insights", interval="custom", segmentCount=4, since="2025-01-01T00:00:00Z", until="2025-06-01T00:00:00Z").json()  # fmt: skip
    assert sum(part["sessionCount"] for part in parts) == len(rows)
    assert service.post("/interactions/insights", interval="hour").status_code == 400


def test_an_event_is_stored_once_and_makes_its_user(start):
    service = start()
    first = service.send("n-1")
    assert (first.status_code, service.send("n-1").json()) == (200, first.json())
    assert service.vendor.carried_out("create_event_sync") == 1
    event = service.get(f"/events/{first.json()}").json()
    assert service.get(f"/events/{first.json()}/raw").json()["data"] == EVENT["data"]
    user = service.get(f"/users/{event['userId']}").json()
    assert [value["current"] for value in user["fields"]["email"]] == ["new@x.example"]
    assert user["eventTypesCount"] == {"order": 1}
    assert user["metrics"]["turnover"]["sum"] == 12.5
    assert {metric["key"]: metric["data"]["current"] for metric in event["metrics"]} == {
        "event-count": 1, "paid": 0, "turnover": {"amount": 12.5, "currency": "EUR"},
    }  # fmt: skip
    trashed = service.get("/trashed-events").json()["total"]
    assert service.send("n-2", "/events", eventType="none").status_code == 200
    assert service.get("/trashed-events").json()["total"] == trashed + 1
    assert service.send("n-3", data=None).status_code == 400


def test_states_and_statistics_are_updated(start):
    service = start()
    event = service.send("n-1").json()
    date = (
        datetime.fromisoformat(service.get(f"/events/{event}").json()["eventDate"]) + timedelta(seconds=90)
    ).isoformat()
    assert (
        service.call("PUT", f"/events/{event}/states/paid", json={"value": 1, "date": date}).status_code
        == 200
    )
    assert service.call("PUT", f"/events/{event}/statistics/turnover", json={"value": 20}).status_code == 200
    metrics = {m["key"]: m["data"]["current"] for m in service.get(f"/events/{event}").json()["metrics"]}
    assert metrics == {
        "event-count": 1,
        "paid": 1,
        "state-delay-paid": 90,
        "turnover": {"amount": 20, "currency": "EUR"},
    }
    unknown = service.call("PUT", f"/events/{event}/states/paidd", json={"value": 1})
    assert (unknown.status_code, "storageKey" in unknown.json()["message"]) == (404, True)
    assert service.call("PUT", f"/events/{event}/states/paid", json={"value": 2}).status_code == 400
    user = service.get(f"/events/{event}").json()["userId"]
    states = service.get(f"/users/{user}/metrics", type="state", sort="metricDate", order="DESC").json()
    assert [m["key"] for m in states["data"]] == ["paid"]


def test_event_insights_sum_metrics(start):
    service = start()
    body = {
        "since": "2025-01-01T00:00:00Z",
        "until": "2025-03-31T23:59:59Z",
        "metrics": ["event-count", "turnover", "none"],
    }
    whole = service.post("/events/insights", **body, groupBy="project", interval="week").json()
    parts = service.post("/events/insights", **body, groupBy="event-type", interval="monthOfYear").json()
    events = [
        e
        for e in service.vendor.world.events.values()
        if e["eventDate"].year == 2025 and e["eventDate"].month < 4
    ]
    for rows in (whole, parts):
        assert sum(row["values"]["event-count"] for row in rows) == len(events)
        assert {row["values"]["none"] for row in rows} == {0}
    assert {row["identifier"] for row in whole} == {"my-shop"}
    assert {row["identifier"] for row in parts} == set(service.vendor.world.event_types)
    assert len(whole) == 14  # weeks of 1 January to 31 March 2025
    some = service.post(
        "/events/insights", **body, groupBy="event-type", interval="year", filter=["lead"]
    ).json()
    assert {row["identifier"] for row in some} == {"lead"}
    assert (
        service.post("/events/insights", **body, groupBy="project", interval="hourOfDay").status_code == 400
    )


def test_users_are_searched_by_keys(start):
    service = start()
    every = service.users(fields=[], sort="_id").json()
    ids = [row["_id"] for row in every["data"]]
    assert ids == sorted(service.vendor.world.users)
    assert {frozenset(row) for row in every["data"]} == {frozenset({"_id"})}
    assert [
        row["_id"] for row in service.users(fields=[], sort="_id", idAfter=ids[3], limit=2).json()["data"]
    ] == ids[4:6]
    assert [
        row["_id"] for row in service.users(fields=[], sort="_id", idFrom=ids[3], idTo=ids[5]).json()["data"]
    ] == ids[3:5]
    names = ["fields.email", "eventTypesCount.Order Completed", "metrics.turnover.sum", "eventCount"]
    rows = service.users(fields=names, sort="eventCount", order="DESC").json()["data"]
    counts = [row["eventCount"] for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert rows[0]["fields"]["email"][0]["current"].endswith("@x.example")
    holder = next(row for row in rows if row["eventTypesCount"]["Order Completed"])
    assert holder["metrics"]["turnover"]["sum"] > 0
    some = {
        "type": "fields",
        "field": "email",
        "operatorType": "string",
        "operator": "contains",
        "value": "USER1@",
    }
    assert service.users(fields=[], filters=some).json()["total"] == 1
    for key in ("fields.none", "eventTypesCount.none", "metrics.turnover.median", "none"):
        assert service.users(fields=[key]).status_code == 400
        assert service.users(fields=[], sort=key).status_code == 400


def test_users_are_exported(start):
    service = start()
    columns = ["_id", "fields.email", "eventCount", "firstEventDate"]
    body = {"filename": "users", "exporterDataConfig": {"columns": columns}, "transformerConfig": []}
    text = service.post("/users/export", **body, outputFormatConfig={"type": "csv"})
    rows = list(csv.reader(io.StringIO(text.content.decode())))
    assert rows[0] == columns
    assert {row[0] for row in rows[1:]} == set(service.vendor.world.users)
    book = service.post("/users/export", **body, outputFormatConfig={"type": "xlsx"})
    sheet = openpyxl.load_workbook(io.BytesIO(book.content)).active
    assert [[str(v or "") for v in row] for row in sheet.values] == [
        [v if v != "0" else "" for v in row] for row in rows
    ]


def test_events_of_a_user_are_sorted_and_paged(start):
    service = start()
    user = max(service.vendor.world.complete_users().values(), key=lambda one: one["eventCount"])
    page = service.get(f"/users/{user['_id']}/events", sort="eventDate", order="DESC", limit=2).json()
    assert (page["count"], page["total"], page["offset"], page["limit"]) == (2, user["eventCount"], 0, 2)
    assert instants(page["data"], "eventDate")[0] == user["lastEventDate"]
    assert service.get(f"/users/{'0' * 24}/events").json()["total"] == 0
    assert service.get(f"/users/{'0' * 24}/metrics").status_code == 404
    assert service.get(f"/users/{user['_id']}/events", sort="name").status_code == 400
    mail = user["fields"]["email"][0]["current"]
    assert service.send("no tracker", data=EVENT["data"] | {"mail": mail}).status_code == 200
    totals = [
        service.get(f"/users/{user['_id']}/events", attributable=only).json()["total"]
        for only in ("true", "false")
    ]
    assert totals == [user["eventCount"], user["eventCount"] + 1]


def test_event_types_are_listed_and_created(start):
    service = start()
    names = [one["reference"] for one in service.get("/event-types", sort="-reference").json()["data"]]
    assert names == sorted(names, reverse=True)
    assert [one["reference"] for one in service.get("/event-types", archived="true").json()["data"]] == [
        "old-form"
    ]
    assert {one["reference"] for one in service.get("/event-types", storageKey="score").json()["data"]} == {
        "lead"
    }
    assert service.get("/event-types/Order%20Completed").json()["reference"] == "Order Completed"
    made = service.write("create_event_type")
    assert (made.status_code, made.json()["reference"]) == (201, "call")
    assert service.get("/event-types/call").json() == made.json()


def test_campaigns_and_outlays_are_kept(start):
    service = start()
    found = service.get(ADS, nameLike="SPRING", sort="name", order="DESC").json()
    assert [one["name"] for one in found["data"]] == ["Spring brand", "Spring Sale"]
    assert [one["name"] for one in service.get(ADS, explicit="false").json()["data"]] == ["Brand"]
    made = service.write("create_campaign").json()
    assert set(made) == {"id"}
    assert service.write("create_campaign").status_code == 409
    campaign = service.get(f"{ADS}/{made['id']}").json()
    assert (campaign["active"], campaign["explicit"], campaign["campaignSlug"]) == (True, True, "autumn")
    assert service.call("PATCH", f"{ADS}/{made['id']}", json={"active": False}).json() == {"modifiedCount": 1}
    assert service.call("PATCH", f"{ADS}/none", json={"active": False}).json() == {"modifiedCount": 0}
    assert service.get(f"{ADS}/{made['id']}").json()["active"] is False
    path = f"{ADS}/{made['id']}/outlays"
    dates = {"startDate": "2025-05-01T00:00:00Z", "endDate": "2025-05-01T00:00:00+00:00"}
    assert service.post(path, amount=1, **dates).status_code == 400
    outlay = service.post(path, amount=1, **dates | {"endDate": "2025-05-02T00:00:00Z"}).json()["id"]
    assert service.get(f"{path}/{outlay}").json()["amount"] == {"amount": 1, "currency": "EUR"}
    assert service.call("PATCH", f"{path}/{outlay}", json={"amount": 2.5}).json() == {"modifiedCount": 1}
    assert [one["amount"]["amount"] for one in service.get(path).json()["data"]] == [2.5]
    assert service.get(f"{path}/none").status_code == 404


# The variations


@pytest.mark.parametrize("status", [404, 405, 410, 501, 401, 403])
def test_what_the_specification_lacks_is_absent(start, status):
    service = start(f"absent-{status}")
    for method, path in (
        ("POST", "/events/search"),
        ("GET", "/nodes"),
        ("GET", "/settings"),
        ("POST", "/events/batch"),
    ):
        assert service.call(method, path).status_code == status
    assert service.call("HEAD", "/event-types").status_code == status


def test_a_write_answers_in_each_form(start):
    service = start("write-201-id")
    made = service.write("create_offline_interaction")
    assert made.status_code == 201
    assert service.get(f"/interactions/{made.json()['id']}").json()["type"] == "offline"
    assert service.write("create_campaign").status_code == 200
    bodies = {"write-204-empty": b"", "write-202-true": b"true", "write-200-text": b"OK", "write-200-null": b"null", "write-200-modified": b'{"modifiedCount": 1}'}  # fmt: skip
    for name, body in bodies.items():
        answer = start(name).write("update_event_state")
        assert (answer.status_code, answer.content) == (VARIATIONS[name].write_status, body)
    assert start("every-write-204-empty").write("create_outlay").status_code == 204


def test_a_lost_write_is_carried_out(start):
    for way, times in (("lost", 1), ("dropped", 0)):
        service = start(f"{way}-writes")
        for operation in WRITES:
            with pytest.raises(requests.ConnectionError):
                service.write(operation)
            assert service.vendor.carried_out(operation) == times
            assert [call.status for call in service.vendor.requests if call.operation == operation] == [way]
    service = start("cut-writes")
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        service.write("create_event_type")
    assert service.vendor.carried_out("create_event_type") == 1


def test_faults_pass(start):
    service = start("429-reads-after-0")
    first = service.get("/event-types")
    assert (first.status_code, first.headers["Retry-After"], service.get("/event-types").status_code) == (
        429,
        "0",
        200,
    )
    assert "Retry-After" not in start("503-reads").get("/event-types").headers
    service = start("503-writes-carried-out")
    assert service.write("create_campaign").status_code == 503
    assert service.vendor.carried_out("create_campaign") == 1
    service = start(Variation(faults=(Fault(answer=500, per="request"),)))
    assert [service.get("/event-types", offset=n).status_code for n in (0, 1, 0, 1)] == [500, 500, 200, 200]


def test_tokens_vary(start):
    service = start("short-tokens")
    assert [service.get("/event-types").status_code for _ in range(7)] == [200] * 5 + [401] * 2
    service.token = None
    assert service.get("/event-types").status_code == 200
    answer = start("token-redirect-307").exchange()
    assert (answer.status_code, answer.headers["Location"].endswith("/login/oidc/token")) == (307, True)
    for name, ahead in (("clock-ahead", 600), ("clock-behind", -600)):
        service = start(name)
        answer = service.exchange()
        clock = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        assert (answer.status_code, clock - time.time()) == (400, pytest.approx(ahead, abs=30))
        assert service.exchange(300 + ahead).status_code == 200
    assert set(start("token-lean").exchange().json()) == {"access_token", "token_type"}
    service = start("token-where-listed")
    service.token = "none"
    assert [service.write("create_event").status_code, service.get("/event-types").status_code] == [200, 401]


def test_pages_vary(start):
    service = start("page-cap-7")
    assert service.post("/interactions/search", limit=50).json()["count"] == 7
    assert service.get("/trashed-events", limit=50).json()["count"] <= 7
    for status in (400, 413, 422, 504):
        service = start(f"limit-100-is-{status}")
        refused = service.post("/interactions/search", limit=101)
        assert (refused.status_code, "100" in refused.json()["message"]) == (status, True)
        assert service.post("/interactions/search", limit=100).json()["count"] == 100
    service = start("unsorted")
    pages = [
        tuple(row["_id"] for row in service.post("/interactions/search").json()["data"]) for _ in range(2)
    ]
    assert pages[0] != pages[1]
    assert sorted(pages[0]) == sorted(pages[1])
    rows = service.post("/interactions/search", sort={"startDate": 1}).json()["data"]
    assert instants(rows) == sorted(instants(rows))


def test_records_vary(start):
    rows = start("extra-fields").post("/interactions/search").json()["data"]
    assert all({"__v", "xMixed"} <= set(row) for row in rows)
    assert len({type(row["xMixed"]) for row in rows}) > 3
    rows = start("optional-absent").get("/event-types").json()["data"]
    assert {frozenset(row) for row in rows} == {frozenset({"_id", "reference", "fields"})}
    rows = start("no-node").post("/interactions/search").json()["data"]
    assert 0.15 < sum("nodeId" not in row for row in rows) / len(rows) < 0.5
    rows = start("null-user").post("/interactions/search").json()["data"]
    assert 0.15 < sum(row["userId"] is None for row in rows) / len(rows) < 0.5
    for row in start("duration-off").post("/interactions/search").json()["data"]:
        start_, end = instants([row, row | {"startDate": row["endDate"]}])
        late = 0.001 if row["type"] == "session" else 0
        assert row["duration"] == pytest.approx((end - start_).total_seconds() + late, abs=1e-6)
    assert {
        row["type"]
        for row in start("duration-absent").post("/interactions/search").json()["data"]
        if "duration" in row
    } == {"offline"}
    service = start("flat-keys")
    assert "fields.email" in service.users(fields=["fields.email"]).json()["data"][0]
    assert any(
        "geo.city" in row
        for row in service.post("/interactions/search", projection=["geo.city"]).json()["data"]
    )
    assert set(start("only-named-keys").users(fields=["eventCount"]).json()["data"][0]) == {"eventCount"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "style", ["plain", "offset", "mixed", "lower", "nanoseconds", "picoseconds", "blank", "naive"]
)
def test_dates_denote_the_same_instants(start, style):
    bodies = [
        start(name).post("/interactions/search", sort={"startDate": 1}).json()
        for name in ("plain", f"dates-{style}")
    ]
    texts = [[row["startDate"] for row in body["data"]] for body in bodies]
    assert texts[0] != texts[1]
    is_named = [text[-1] in "Zz" or text[-6] in "+-" for text in texts[1]]
    assert all(is_named) or style in ("mixed", "naive")
    read = [
        datetime.fromisoformat(text.upper() + ("" if named else "+00:00"))
        for text, named in zip(texts[1], is_named, strict=True)
    ]
    assert read == [datetime.fromisoformat(text) for text in texts[0]]


def test_json_and_empty_lists_vary(start):
    user, hits = "/users/" + "0" * 24 + "/events", "/interactions/none/hits"
    for name, page in (("null", {"data": None}), ("absent", {})):
        service = start(f"nothing-{name}")
        found = service.get(user).json()
        assert {key: found[key] for key in found.keys() & {"data", "total"}} == {"total": 0} | page
        assert service.get(hits).json() is None
    service = start("nothing-none")
    assert [service.get(path).status_code for path in (user, hits)] == [204, 204]
    service = start("bare-metrics")
    metric = next(iter(service.vendor.world.metrics.values()))
    assert type(service.get(f"/users/{metric['~userId']}/metrics").json()) is list
    assert start("white-space").get(hits).content == b"\r\n []"
    assert start("json-type-text/plain").get(hits).headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("ids", ["numeric", "strange"])
def test_ids_lead_to_their_records(start, ids):
    service = start(f"ids-{ids}")
    campaign = service.get(ADS).json()["data"][0]
    path = f"{ADS}/{requests.utils.quote(campaign['id'], safe='')}"
    assert service.get(path).json() == campaign
    outlay = service.get(f"{path}/outlays").json()["data"][0]
    assert service.get(f"{path}/outlays/{requests.utils.quote(outlay['_id'], safe='')}").json() == outlay


@pytest.mark.parametrize("form", ["json", "sentences", "nested", "list", "problem", "text", "html", "empty"])
def test_refusals_say_why(start, form):
    answer = start(Variation(error_body=form)).users(fields=["none"])
    assert (answer.status_code, "none is not a valid key" in answer.text) == (400, form != "empty")


def test_insights_vary(start):
    body = {
        "since": "2024-01-01T00:00:00Z",
        "until": "2025-12-31T00:00:00Z",
        "metrics": ["event-count"],
        "groupBy": "project",
    }
    plain = start().post("/events/insights", **body, interval="month").json()
    some = start("zeros-none").post("/events/insights", **body, interval="month").json()
    assert some == [row for row in plain if row["values"]["event-count"]] != plain
    labels = (
        start("labels-native")
        .post("/interactions/insights", group="isBot", isBot=None, interval="dayOfWeek")
        .json()
    )
    assert {type(row["group"]) for row in labels} == {bool}
    assert {type(row["interval"]) for row in labels} == {int}
    starts = start("labels-start").post("/events/insights", **body, interval="quarter").json()
    assert [row["interval"][:10] for row in starts][:3] == ["2024-01-01", "2024-04-01", "2024-07-01"]


def test_exports_vary(start):
    body = {
        "filename": "u",
        "exporterDataConfig": {"columns": ["_id"]},
        "outputFormatConfig": {"type": "csv"},
        "transformerConfig": [],
    }
    beginnings = {"login": b"<!DOCTYPE", "json": b"{", "empty": b"", "stale": b"column 0"}
    for name, begin in beginnings.items():
        answer = start(f"export-{name}").post("/users/export", **body)
        assert (answer.status_code, answer.content.startswith(begin)) == (200, True)
    assert start("export-dialect-bom").post("/users/export", **body).content.startswith(b"\xef\xbb\xbf_id")


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in VARIATIONS
        if not re.match("[0-9]|(every-)?write-|lost-|cut-|dropped-|token-[0-9]", name)
    ],
)
def test_no_variation_breaks_the_service(start, name):
    service, variation = start(name, users=20), VARIATIONS[name]
    if (
        variation.token_redirect
        or any(fault.on == "token" for fault in variation.faults)
        or variation.clock_off
    ):
        return
    for attempt in (service.write, service.write):
        for operation in WRITES:
            try:
                attempt(operation)
            except requests.RequestException:
                assert variation.faults
    for path in ("/interactions/search", "/interactions/insights"):
        try:
            assert service.post(path).status_code in (200, 400, 401, 408, 413, 429, 500, 502, 503, 504)
        except requests.RequestException:
            assert variation.faults
    assert service.vendor.failures == []
