"""Exports and SQL over HTTP: files that are sent while they are written, and who may ask."""

import csv
import http.client
import io
import json
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import openpyxl
import pytest
from service.http.conftest import load
from support.http_caller import TIMEOUT, Caller, token_of
from support.service_records import hex_id, table, visit

from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.users import exports

MANY = 20_000
PATH = "/api/v1/projects/shop/users/export"
SEARCH = "/api/v2/projects/shop/users/search"


def body(*columns, kind="csv", transformers=(), **data):
    return {
        "filename": "users of çay",
        "exporterDataConfig": {"columns": list(columns), **data},
        "outputFormatConfig": {"type": kind},
        "transformerConfig": list(transformers),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exporting")
    load(
        "shop", folder, interactions=table(*(visit(number, userId=hex_id(number)) for number in range(MANY)))
    )
    return folder


@pytest.fixture(scope="module")
def caller(folder):
    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        key = create_key(folder, folder / "key.json", projects=["shop"])
        yield Caller(url, token_of(url, key))


@contextmanager
def answering(caller, asked):
    connection = http.client.HTTPConnection(urlsplit(caller.url).netloc, timeout=TIMEOUT)
    connection.request("POST", PATH, json.dumps(asked), {"Authorization": f"Bearer {caller.token}"})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


@pytest.mark.slow
def test_csv_is_sent_in_chunks(caller):
    with answering(caller, body("_id", "interactionCount")) as response:
        assert response.status == 200
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"  # G-120
        assert response.headers["Content-Disposition"].endswith("filename*=UTF-8''users%20of%20%C3%A7ay.csv")
        rows = list(csv.reader(io.TextIOWrapper(response, "utf-8", newline="")))
    assert rows == [["_id", "interactionCount"], *([hex_id(number), "1"] for number in range(MANY))]


@pytest.mark.slow
def test_xlsx_is_sent_whole(caller):
    reply = caller("POST", PATH, body("_id", kind="XLSX"))
    assert reply.status == 200
    workbook = openpyxl.load_workbook(io.BytesIO(reply.content), read_only=True)
    with closing(workbook):
        rows = [row[0] for row in workbook.active.values]
    assert rows == ["_id", *(hex_id(number) for number in range(MANY))]


@pytest.mark.slow
def test_errors_are_told_before_anything_is_sent(caller):
    reply = caller("POST", PATH, body("_id", "fields.nonsense"))
    assert reply.status == 400
    assert reply.json()["message"].startswith(
        "/exporterDataConfig/columns/1: 'fields.nonsense' is not allowed"
    )
    refused = caller(
        "POST", PATH, body("_id", transformers=[{"type": "case", "key": "createdAt", "level": "upper"}])
    )
    assert refused.status == 400
    assert refused.json()["message"].startswith("/transformerConfig/0/key")


@pytest.mark.slow
def test_a_file_that_fails_half_way_is_broken_off(caller, monkeypatch):
    """A truncated file cannot pass for a whole one (G-126)."""
    read_rows = exports._rows

    def failing(users, request):
        for position, rows in enumerate(read_rows(users, request)):
            if position == 3:
                raise RuntimeError("the disk is gone")
            yield rows

    monkeypatch.setattr(exports, "_rows", failing)
    with answering(caller, body("_id")) as response:
        assert response.status == 200
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    monkeypatch.undo()
    # Of XLSX nothing was sent yet.
    assert caller("POST", PATH, body("_id")).status == 200


@pytest.mark.slow
def test_a_client_that_leaves_lets_go_of_the_reader(caller):
    for _ in range(3):
        with answering(caller, body("_id")) as response:
            assert response.read(10)
    assert caller("POST", PATH, body("_id")).content.count(b"\r\n") == MANY + 1


def search(caller, sql):
    return caller("POST", SEARCH, {"fields": ["_id"], "sqlQuery": sql})


@pytest.mark.slow
def test_sql_over_http(caller, folder):
    found = search(caller, f"SELECT userId FROM interactions WHERE _id IN ('{hex_id(1)}', '{hex_id(7)}')")
    assert [each["_id"] for each in found.json()["data"]] == [hex_id(1), hex_id(7)]
    assert search(caller, f"SELECT '{hex_id(MANY)}'").json()["total"] == 0
    for sql in (
        "SELECT * FROM 'x.csv'",
        "SELECT nonsense FROM users",
        "ATTACH 'x'",
        f"SELECT * FROM '{folder}/shop.duckdb'",
    ):
        refused = search(caller, sql)
        assert refused.status == 400
        assert refused.json()["message"].startswith("/sqlQuery: ")
    # The name that came back is the caller's own; nothing tells where the projects lie.
    assert str(folder) not in search(caller, "SELECT x FROM users").content.decode()


@pytest.mark.slow
def test_sql_needs_its_scope_and_may_be_switched_off(folder, tmp_path):
    load("my-shop", tmp_path, interactions=table(visit(1)))
    asked = {"fields": ["_id"], "sqlQuery": "SELECT _id FROM users"}
    path = SEARCH.replace("/shop/", "/my-shop/")
    with running(tmp_path, options=ServerOptions(rate_limits=None, sql=False)) as url:
        everything = Caller(
            url, token_of(url, create_key(tmp_path, tmp_path / "a.json", projects=["my-shop"]))
        )
        refused = everything("POST", path, asked)
        assert refused.status == 403
        assert everything("POST", path, {"fields": ["_id"]}).json()["total"] == 1
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        reading = create_key(tmp_path, tmp_path / "b.json", projects=["my-shop"], scopes=["users:read"])
        assert Caller(url, token_of(url, reading, scope="users:read"))("POST", path, asked).status == 403
        both = create_key(
            tmp_path, tmp_path / "c.json", projects=["my-shop"], scopes=["users:read", "users:sql"]
        )
        assert (
            Caller(url, token_of(url, both, scope="users:read users:sql"))("POST", path, asked).json()[
                "total"
            ]
            == 1
        )
