"""Addresses of raw hits are looked up in the operator's databases (G-199)."""

from datetime import UTC, datetime, timedelta

import pytest
from support.address_databases import IN_PARIS, OF_ORANGE, write_asn, write_geo
from support.service_records import hex_id, reasons, table, uuid

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.service.collection.visitors import AddressLookup
from attrib_ds.service.loading import load_records

PLACE = ", ".join(f'"{name}"' for name in IN_PARIS | OF_ORANGE)
PARIS = (*IN_PARIS.values(), *OF_ORANGE.values())
NOWHERE = (None,) * len(PARIS)
LINE = (
    '%s - - [31/Jan/2025:12:00:00 +0100] "GET / HTTP/1.1" 200 512 "-" '
    '"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"\n'
)


@pytest.fixture
def databases(tmp_path):
    return {"geo": write_geo(tmp_path / "geo.mmdb"), "asn": write_asn(tmp_path / "asn.mmdb")}


def hit(number, **properties):
    usual = {"hitId": uuid(number), "trackerId": f"t{number}", "date": "2025-01-31T12:00:00Z"}
    return usual | {"pageUrl": "https://shop.example/", "ip": "203.0.113.7"} | properties


def test_hits_get_the_place_of_their_address(memory_store, rows, databases):
    hits = table(hit(1), hit(2, ip="192.0.2.1"), hit(3, ip=None), hit(4, ip="203.0.113.99"))
    counts, rejected = load_records(memory_store, "hits", hits, **databases)
    assert (counts["hits"], reasons(rejected)) == (4, {})
    for name, key in (("hits", "id"), ("interactions", "firstHitId")):
        expected = [(uuid(1), *PARIS), (uuid(2), *NOWHERE), (uuid(3), *NOWHERE), (uuid(4), *PARIS)]
        assert rows(f"SELECT {key}, {PLACE} FROM {name} ORDER BY 1") == expected


def test_a_place_that_a_hit_has_is_kept_whole(memory_store, rows, databases):
    hits = table(hit(1, **{"geo.city": "Lyon"}), hit(2, **{"asn.asnName": "Home"}))
    load_records(memory_store, "hits", hits, **databases)
    (lyon, home) = rows(f"SELECT {PLACE} FROM hits ORDER BY id")
    assert lyon == (None, None, "Lyon", None, None, None, *OF_ORANGE.values())
    assert home == (*IN_PARIS.values(), None, "Home")


def test_each_address_is_looked_up_once(memory_store, databases, monkeypatch):
    found = []
    find = AddressLookup.find
    monkeypatch.setattr(
        AddressLookup, "find", lambda self, address: found.append(address) or find(self, address)
    )
    load_records(memory_store, "hits", table(*(hit(number) for number in range(9))), **databases)
    assert found == ["203.0.113.7"]


def test_access_logs_have_addresses(memory_store, rows, databases, tmp_path):
    log = tmp_path / "access.log"
    log.write_text(LINE % "203.0.113.7" + LINE % "192.0.2.1", encoding="utf-8")
    load_records(memory_store, "hits", AccessLog(log, site="https://shop.example"), **databases)
    assert sorted(rows(f"SELECT {PLACE} FROM hits"), key=str) == sorted([PARIS, NOWHERE], key=str)


def test_records_without_addresses_are_refused(memory_store, databases):
    without = table({name: value for name, value in hit(1).items() if name != "ip"})
    with pytest.raises(InvalidRequest, match="there is no column 'ip', whose addresses geo and asn look up"):
        load_records(memory_store, "hits", without, **databases)
    visits = table({"userId": hex_id(1), "nodeId": "ads", "startDate": "2025-01-31T12:00:00Z"})
    with pytest.raises(InvalidRequest, match="geo and asn: only raw hits have addresses to look up"):
        load_records(memory_store, "interactions", visits, **databases)
    with pytest.raises(InvalidRequest, match=r"geo: .* does not exist"):
        load_records(memory_store, "hits", table(hit(1)), geo="no.mmdb")


def test_times_and_offsets_have_the_limits_of_collected_hits(memory_store):
    hits = table(
        hit(1, date="2099-01-01T00:00:00Z", timezoneOffset=0),
        hit(2, timezoneOffset=99_999),
        hit(3, timezoneOffset=-1_441),
        hit(4, timezoneOffset=1_440),
        hit(5, timezoneOffset=-1_440),
    )
    counts, rejected = load_records(memory_store, "hits", hits.drop_columns("ip"))
    assert counts["hits"] == 2
    assert reasons(rejected) == {
        0: "date: '2099-01-01T00:00:00Z' is more than 24 hours in the future",
        1: "timezoneOffset: '99999' is not from -1440 to 1440",
        2: "timezoneOffset: '-1441' is not from -1440 to 1440",
    }


def test_clocks_that_are_a_little_fast_are_no_reason_to_lose_hits(memory_store):
    now = datetime.now(UTC)
    hits = table(*(hit(hours, date=(now + timedelta(hours=hours)).isoformat()) for hours in (23, 25)))
    assert list(reasons(load_records(memory_store, "hits", hits)[1])) == [1]
