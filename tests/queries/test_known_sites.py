"""The shipped list of sites has the form that its readers expect."""

import re

from attrib_ds.queries.channel_rules import COUNTRY, SITES


def test_hosts_are_listed_by_kind_and_name():
    assert {"google.com", "google.{}"} <= set(SITES["search"]["Google"])
    assert "facebook.com" in SITES["social"]["Facebook"]
    assert SITES["ai"]["Claude"] == ("claude.ai",)


def test_hosts_are_hosts():
    hosts = [host for names in SITES.values() for listed in names.values() for host in listed]
    assert len(hosts) > 800
    assert [host for host in hosts if not re.fullmatch(r"[\w.-]+", host.replace(COUNTRY, "de"))] == []
