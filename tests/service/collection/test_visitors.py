"""What is known of visitors: traffic filters, places, and what a user agent says."""

from __future__ import annotations

import csv
import re
from contextlib import closing
from pathlib import Path

import pytest
from support.address_databases import IN_PARIS, NORWAY, OF_ORANGE, damage, write, write_asn, write_geo

from attrib_ds.errors import InvalidRequest
from attrib_ds.service.collection.visitors import PLACE_COLUMNS as COLUMNS
from attrib_ds.service.collection.visitors import AddressLookup
from attrib_ds.traffic import agents
from attrib_ds.traffic.agents import captures

CLIENT = {"address": "198.51.100.1", "user_agent": "Firefox", "page": "https://shop.example", "referrer": ""}


@pytest.mark.parametrize(
    ("text", "sent", "expected"),
    [
        ("address:203.0.113.0/24", {"address": "::ffff:203.0.113.9"}, True),
        ("address:203.0.113.0/24", {"address": "203.0.114.9"}, False),
        ("userAgent:IPHONE", {"user_agent": "Mozilla/5.0 (iPhone; CPU)"}, True),
        ("userAgent:iPad", {"user_agent": "Mozilla/5.0 (iPhone; CPU)"}, False),
        ("referrer:spam.example", {"referrer": "https://www.buttons.Spam.example./x"}, True),
        ("referrer:www.spam.example", {"referrer": "https://spam.example"}, True),
        ("referrer:spam.example", {"referrer": "https://notspam.example/"}, False),
        ("referrer:spam.example", {"referrer": "https://search.example/?q=https://spam.example/"}, False),
        ("referrer:spam.example", {"page": "https://spam.example"}, False),
        ("referrer:spam.example", {"referrer": "spam.example"}, False),
        ("hostname:test.shop.example", {"page": "https://a.test.shop.example:8443"}, True),
        ("hostname:test.shop.example", {"page": "https://user@test.shop.example/boots?size=42"}, True),
        ("hostname:test.shop.example", {}, False),
        ("hostname:test.shop.example", {"page": "null"}, False),
        ("hostname:test.shop.example", {"page": ""}, False),
    ],
)
def test_a_filter_captures_by_address_user_agent_and_hosts(text, sent, expected):
    assert captures([text], **CLIENT | sent) is expected
    assert captures(["address:192.0.2.1", text], **CLIENT | sent) is expected
    assert not captures([], **CLIENT | sent)


UNKNOWN = dict.fromkeys(COLUMNS)


def find(address, **files):
    with closing(AddressLookup.open(**files)) as lookup:
        return lookup.find(address)


@pytest.mark.parametrize("address", ["203.0.113.7", "::ffff:203.0.113.7", "2001:db8:1::1"])
def test_the_place_and_the_network_of_an_address(tmp_path, address):
    files = {"geo": write_geo(tmp_path / "geo.mmdb"), "asn": write_asn(tmp_path / "asn.mmdb")}
    assert find(address, **files) == IN_PARIS | OF_ORANGE


def test_what_a_database_does_not_know_is_absent(tmp_path):
    geo = write_geo(tmp_path / "geo.mmdb")
    assert find("198.51.100.1", geo=geo) == UNKNOWN | {"geo.countryCode": "NO"}
    for address in ("192.0.2.1", "2001:db9::1", "not an address", "", "unix:", "203.0.113.7:80"):
        assert find(address, geo=geo) == UNKNOWN


def test_each_database_may_be_given_alone(tmp_path):
    assert find("203.0.113.7", asn=write_asn(tmp_path / "asn.mmdb")) == UNKNOWN | OF_ORANGE
    assert find("203.0.113.7") == UNKNOWN


def test_a_database_of_ipv4_knows_no_ipv6(tmp_path):
    geo = write_geo(tmp_path / "geo.mmdb", ip_version=4)
    assert find("2001:db8:1::1", geo=geo) == UNKNOWN
    assert find("203.0.113.7", geo=geo) == UNKNOWN | IN_PARIS


def test_a_database_of_countries_is_one_of_places(tmp_path):
    geo = write(tmp_path / "geo.mmdb", {"203.0.113.0/24": NORWAY}, kind="DBIP-Country-Lite")
    assert find("203.0.113.7", geo=geo)["geo.countryCode"] == "NO"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidRequest, match=re.escape(f"geo: '{tmp_path / 'no.mmdb'}' does not exist")):
        AddressLookup.open(geo=tmp_path / "no.mmdb")
    with pytest.raises(InvalidRequest, match="asn: .* is a folder, not a file"):
        AddressLookup.open(asn=tmp_path)


@pytest.mark.parametrize("kept", [0, 40, -30])
def test_a_file_that_was_cut_off_is_refused(tmp_path, kept):
    geo = write_geo(tmp_path / "geo.mmdb")
    geo.write_bytes(geo.read_bytes()[:kept])
    with pytest.raises(InvalidRequest, match="geo: .* is not a readable MMDB file"):
        AddressLookup.open(geo=geo)


def test_a_database_of_the_other_kind_is_refused(tmp_path):
    geo, asn = write_geo(tmp_path / "geo.mmdb"), write_asn(tmp_path / "asn.mmdb")
    with pytest.raises(
        InvalidRequest, match="geo: .* of the type 'GeoLite2-ASN', whose records have no country"
    ):
        AddressLookup.open(geo=asn)
    with pytest.raises(InvalidRequest, match="asn: .* of the type 'GeoLite2-City', .* such as GeoLite2-ASN"):
        AddressLookup.open(asn=geo)


def test_a_damaged_record_is_an_error(tmp_path):
    geo = write_geo(tmp_path / "geo.mmdb")
    lookup = AddressLookup.open(geo=geo)
    damage(geo)
    with closing(lookup), pytest.raises(InvalidRequest, match="geo: the database is damaged"):
        lookup.find("203.0.113.7")


#: User agents as their makers publish them (the pages on User-Agent of Chrome, MDN, WebKit and Microsoft), and of the
#: test tables of ua-parser-js 1.0, whose names of engines, processors and kinds of devices are the expected ones. That
#: parser knows no "desktop"; an empty cell is what a text does not say.
AGENTS = Path(__file__).with_name("user_agents.tsv")
PROPERTIES = {
    "engine": "userAgent.engine.name",
    "version": "userAgent.engine.version",
    "type": "userAgent.device.type",
    "architecture": "userAgent.cpu.architecture",
}


def test_the_engine_the_processor_and_the_kind_of_device_of_user_agents():
    rows = list(csv.DictReader(AGENTS.read_text(encoding="utf-8").splitlines(), delimiter="\t"))
    assert len({row["user agent"] for row in rows}) == len(rows) == 41
    for expected in rows:
        text = expected.pop("user agent")
        found = dict(zip(agents.COLUMNS, agents.describe(text), strict=True))
        assert ({name: found[column] or "" for name, column in PROPERTIES.items()}, text) == (expected, text)


def test_a_listed_crawler_has_the_name_of_the_list():
    """Not a part of the address in its comment."""
    agent = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; {}; +https://openai.example/bot"
    assert agents.describe(agent.format("ChatGPT-User/1.0"))[:3] == ("ChatGPT-User", "1.0", "1")
    assert agents.describe("curl/8.4.0")[:3] == ("curl", "8.4.0", "8")
