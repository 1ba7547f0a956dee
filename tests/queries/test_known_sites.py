"""The shipped list of sites has the form that its readers expect."""

import re

from attrib_ds.queries.channel_rules import COUNTRY, sites


def test_hosts_are_listed_by_kind_and_name():
    assert {"google.com", "google.{}"} <= set(sites()["search"]["Google"])
    assert "facebook.com" in sites()["social"]["Facebook"]
    assert sites()["ai"]["Claude"] == ("claude.ai",)


def test_hosts_are_hosts():
    hosts = [host for names in sites().values() for listed in names.values() for host in listed]
    assert len(hosts) > 800
    assert [host for host in hosts if not re.fullmatch(r"[\w.-]+", host.replace(COUNTRY, "de"))] == []
