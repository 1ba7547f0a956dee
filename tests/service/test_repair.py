"""Repairing a project whose hits and sessions were stored twice: what is derived, and what is named."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import pytest
from support.service_records import hex_id, send, table, uuid, visit

import attrib_ds as at
from attrib_ds import Project, errors
from attrib_ds.commands import cli
from attrib_ds.errors import NotSupported
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.store.store import Store
from attrib_ds.transports.http import answers
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.transport import Options, open_http

NOON = datetime(2025, 1, 31, 12)
#: Of a table, without what a repair makes anew.
CONTENT = {
    "hits": "SELECT * FROM hits ORDER BY id",
    "interactions": "SELECT * EXCLUDE (updateDate) FROM interactions ORDER BY _id",
    "users": "SELECT * FROM users ORDER BY _id",
    "identities": "SELECT * FROM identities ORDER BY kind, value",
}


def hit(number, minutes, tracker, page="/"):
    date = (NOON + timedelta(minutes=minutes)).isoformat()
    url = f"https://shop.example{page}"
    return {"hitId": uuid(number), "trackerId": tracker, "date": f"{date}Z", "pageUrl": url}


@pytest.fixture
def file(tmp_path):
    """A project of three browsers, a person and loaded sessions."""
    path = tmp_path / "shop.duckdb"
    service = Service.open("shop", path)
    visits = [
        hit(n, 20 * n, f"c-{n % 3}", "/?utm_source=news&utm_medium=email" * (n == 4)) for n in range(12)
    ]
    send(service, "load_records", resource="hits", source=table(*visits))
    loaded = [visit(1, userId=hex_id(900)), visit(2, userId=hex_id(900), startDate="2025-02-01T00:00:00Z")]
    send(service, "load_records", resource="interactions", source=table(*loaded))
    hits = [{"id": uuid(n), "sessionId": hex_id(1), "serverDate": "2025-01-31T12:00:00Z"} for n in (31, 32)]
    send(service, "load_records", resource="hits", source=table(*hits))
    service.close()
    return path


def contents(path):
    with duckdb.connect(path, read_only=True) as connection:
        return {name: connection.execute(query).fetchall() for name, query in CONTENT.items()}


def spoil(path, *statements):
    store = Store.open(path, "shop")
    for statement in statements:
        store.write(lambda connection, statement=statement: connection.execute(statement))
    store.close()


#: What a hit that came from two addresses did: it, its session and all later hits of the browser twice, and more.
SPOILED = (
    "INSERT INTO hits SELECT * FROM hits WHERE trackerId IN ('c-0', 'c-1')",
    "INSERT INTO interactions SELECT * FROM interactions WHERE userData LIKE '%c-0%' OR userData LIKE '%c-1%'",
    "INSERT INTO hits SELECT * FROM hits WHERE trackerId = 'c-1'",
    "INSERT INTO interactions SELECT * FROM interactions WHERE userData LIKE '%c-1%'",
    "UPDATE interactions SET hitCount = 4 * hitCount, userLifetimeIndex = userLifetimeIndex + 1 "
    "WHERE userData LIKE '%c-1%'",
)


def test_a_spoiled_project_is_repaired_to_what_it_was(file):
    before = contents(file)
    spoil(file, *SPOILED)
    spoiled = contents(file)
    with at.connect("shop", path=file) as shop:
        assert {"unique", "hits", "lifetimes"} <= set(at.admin.check(shop)["check"])
        steps = at.admin.check(shop, repair=True)
        assert at.admin.check(shop).empty
    assert contents(file) == before
    counts = dict(zip(steps["problem"], steps["records"], strict=True))
    assert steps["check"].tolist() == ["backup"] + ["repaired"] * (len(steps) - 1)
    # Eight hits of two browsers, and their sessions.
    assert counts["removed the copies of hits"] == 8
    assert counts["removed the copies of interactions"] == len(
        {row[0] for row in spoiled["interactions"] if spoiled["interactions"].count(row) > 1}
    )
    ((copy,),) = steps["examples"][steps["check"] == "backup"]
    assert contents(file.with_name(copy)) == spoiled


@pytest.mark.slow
@pytest.mark.parametrize("accept", [answers.EITHER, answers.JSON], ids=["arrow", "json"])
def test_a_spoiled_project_is_read_from_afar_before_its_repair(file, accept):
    def read(project):
        visits = at.search_interactions(project, sort="startDate")
        openings = sorted(set(visits["firstHitId"].dropna()))
        hits = [id for opening in openings for id in at.list_hits(project, opening)["id"]]
        return visits["_id"].tolist(), hits

    with at.connect("shop", path=file) as shop:
        right = read(shop)
    spoil(file, *SPOILED)
    key = file.with_name("key.json")
    create_key(file.parent, key, projects=None)
    with running(file.parent, options=ServerOptions(rate_limits=None)) as url:
        transport = open_http(Remote(url=url, key=key), options=Options(accept=accept))
        repair = pytest.warns(errors.InputWarning, match="attrib-ds check shop --repair")
        with Project("shop", transport) as shop, repair:
            found = read(shop)
    assert found == right
    assert cli.main(["check", "shop", "--repair", "--home", str(file.parent)]) == 0
    with at.connect("shop", path=file) as shop:
        assert read(shop) == right


def test_copies_of_loaded_hits_are_removed_and_counted(file):
    before = contents(file)
    spoil(
        file,
        f"INSERT INTO hits SELECT * FROM hits WHERE id = '{uuid(31)}'",
        f"UPDATE interactions SET hitCount = 3 WHERE _id = '{hex_id(1)}'",
        f"INSERT INTO interactions SELECT * FROM interactions WHERE _id = '{hex_id(2)}'",
    )
    with at.connect("shop", path=file) as shop:
        steps = at.admin.check(shop, repair=True)
    assert contents(file) == before
    assert set(steps["check"]) == {"backup", "repaired"}


def test_what_cannot_be_repaired_is_named(file, capsys):
    spoil(
        file,
        f"INSERT INTO hits SELECT * FROM hits WHERE id = '{uuid(1)}'",
        # Which of them is right, nobody knows.
        f"INSERT INTO interactions SELECT * REPLACE ('other' AS nodeId) FROM interactions WHERE _id = '{hex_id(2)}'",
    )
    assert cli.main(["check", "shop", "--repair", "--home", str(file.parent)]) == 1
    shown = capsys.readouterr()
    assert f"removed the copies of hits: {uuid(1)}" in shown.out
    assert f"interactions: _id is missing or duplicated: {hex_id(2)}" in shown.out
    assert "cannot be repaired" in shown.err
    assert len(list(file.parent.glob("shop.before-repair-*.duckdb"))) == 1
    assert cli.main(["check", "shop", "--home", str(file.parent)]) == 1


def test_a_sound_project_is_left_alone(file):
    before = contents(file)
    with at.connect("shop", path=file) as shop:
        assert at.admin.check(shop, repair=True).empty
    assert list(file.parent.glob("*before-repair*")) == []
    assert contents(file) == before


def test_a_project_in_memory_is_not_repaired():
    with (
        at.connect("shop", path=":memory:") as shop,
        pytest.raises(NotSupported, match="copy before a repair"),
    ):
        at.admin.check(shop, repair=True)
