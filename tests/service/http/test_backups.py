"""Backups over HTTP, and records that many ask for at once."""

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import duckdb
import pytest
from support.http_caller import TIMEOUT, Caller, token_of
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

PROJECT = "/api/v1/projects/shop"
BACKUP = f"{PROJECT}/backup"
OCTETS = "application/octet-stream"
MANY = 64


@pytest.fixture
def folder(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        declare_order(service)
        send(service, "create_integration", vendor_id="ads", name="Ads")
    return tmp_path


@pytest.fixture
def admin(folder):
    key = create_key(folder, folder / "key.json", projects=["shop", "gone"])
    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        yield Caller(url, token_of(url, key))


def body(nonce, **others):
    sent = order(nonce, **others)
    return {
        "projectId": "shop",
        "nonce": nonce,
        "eventType": sent["event_type"],
        "eventDate": sent["event_date"],
        "data": sent["data"],
    }


def leftovers(folder):
    return [each.name for each in folder.iterdir() if each.name.startswith(".")]


@pytest.mark.slow
def test_a_backup_is_fetched_and_put_back_while_the_server_runs(admin, folder, tmp_path_factory):
    assert admin("POST", "/api/v1/events/sync", body("first")).status == 200
    reply = admin("GET", BACKUP)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == OCTETS
    assert 'filename="shop.duckdb"' in reply.headers["Content-Disposition"]
    copy = tmp_path_factory.mktemp("copy") / "copy.duckdb"
    copy.write_bytes(reply.content)
    with duckdb.connect(copy, read_only=True) as connection:
        assert connection.execute("SELECT nonce FROM raw_events").fetchall() == [("first",)]
    second = admin("POST", "/api/v1/events/sync", body("second")).json()
    restored = admin("PUT", BACKUP, reply.content, Content_Type=OCTETS)
    assert (restored.status, restored.json()["raw_events"]) == (200, 1)
    assert admin("GET", f"{PROJECT}/events/{second}").status == 404
    assert admin("POST", "/api/v1/events/sync", body("third")).status == 200
    assert admin("GET", f"{PROJECT}/check").json() == []
    assert leftovers(folder) == []


@pytest.mark.slow
def test_what_is_no_backup_leaves_the_project_serving(admin, folder):
    id = admin("POST", "/api/v1/events/sync", body("first")).json()
    for content in (b"no database" * 1000, b""):
        reply = admin("PUT", BACKUP, content, Content_Type=OCTETS)
        assert reply.status == 400
        assert reply.json()["message"].endswith("source: is not the file of a project")
        assert str(folder) not in reply.content.decode()
    assert admin("GET", f"{PROJECT}/events/{id}").status == 200
    assert admin("PUT", "/api/v1/projects/gone/backup", b"x", Content_Type=OCTETS).status == 404
    assert leftovers(folder) == []


@pytest.mark.slow
def test_a_body_larger_than_the_disk_is_refused_before_it_is_read(admin):
    connection = http.client.HTTPConnection(urlsplit(admin.url).netloc, timeout=TIMEOUT)
    connection.putrequest("PUT", BACKUP)
    connection.putheader("Authorization", f"Bearer {admin.token}")
    connection.putheader("Content-Length", str(10**17))
    connection.endheaders()
    with closing(connection):
        assert connection.getresponse().status == 413


@pytest.mark.slow
def test_a_body_that_breaks_off_leaves_nothing(admin, folder):
    connection = http.client.HTTPConnection(urlsplit(admin.url).netloc, timeout=TIMEOUT)
    connection.putrequest("PUT", BACKUP)
    connection.putheader("Authorization", f"Bearer {admin.token}")
    connection.putheader("Content-Length", "100000")
    connection.endheaders()
    connection.send(b"x" * 1000)
    connection.close()
    assert admin("GET", f"{PROJECT}/check").json() == []
    for _ in range(100):
        if not leftovers(folder):
            break
        threading.Event().wait(0.05)
    assert leftovers(folder) == []


@pytest.mark.slow
def test_only_an_administrator_may(admin, folder):
    key = create_key(folder, folder / "narrow.json", projects=["shop"], scopes=["events:read", "users:read"])
    narrow = Caller(admin.url, token_of(admin.url, key, scope="events:read"))
    for method, path in (("GET", BACKUP), ("PUT", BACKUP), ("GET", f"{PROJECT}/check")):
        assert narrow(method, path, b"" if method == "PUT" else None).status == 403


# -- many at once -----------------------------------------------------------------------------------


def at_once(call, requests):
    start = threading.Barrier(len(requests))

    def race(request):
        start.wait()
        return call(*request)

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(race, requests))


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/events/sync"])
def test_r196_one_nonce_is_one_event(admin, path):
    replies = at_once(admin, [("POST", path, body("one", data={"confirmed": 1}))] * MANY)
    assert {reply.status for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    assert (
        admin("POST", "/api/v1/events/sync", body("one", data={"confirmed": 1})).json() == replies[0].json()
    )
    found = admin("GET", f"{PROJECT}/events/{replies[0].json()}").json()
    assert [each["key"] for each in found["metrics"]].count("event-count") == 1
    assert admin("GET", f"{PROJECT}/check").json() == []


@pytest.mark.slow
def test_r006_one_new_email_is_one_user(admin):
    mail = {"mail": "new@example.com"}
    requests = [("POST", "/api/v1/events/sync", body(f"n{number}", data=mail)) for number in range(MANY)]
    replies = at_once(admin, requests)
    assert {reply.status for reply in replies} == {200}
    ids = {reply.json() for reply in replies}
    assert len(ids) == MANY
    assert len({admin("GET", f"{PROJECT}/events/{id}").json()["userId"] for id in ids}) == 1
    assert admin("GET", f"{PROJECT}/check").json() == []


@pytest.mark.slow
def test_g160_one_slug_is_one_campaign(admin):
    campaigns = f"{PROJECT}/custom-ads/ads/campaigns"
    replies = at_once(admin, [("POST", campaigns, {"campaignSlug": "one", "name": "One"})] * MANY)
    assert sorted(reply.status for reply in replies) == [200] + [409] * (MANY - 1)
    assert admin("GET", campaigns).json()["total"] == 1
