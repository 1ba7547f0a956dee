"""Time zones where the system has none, as on Windows and in slim images of Linux."""

import re
import sys
import zoneinfo
from datetime import date
from importlib import metadata

import pytest

import attrib_ds as at
from attrib_ds.errors import InvalidRequest


@pytest.fixture
def without_system_zones():
    """Do what an empty PYTHONTZPATH does when Python starts."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=before)
    zoneinfo.ZoneInfo.clear_cache()


def test_the_package_of_zones_is_installed_on_every_system():
    """Pandas brings it on Windows only."""
    assert any(re.fullmatch(r"tzdata[>=.\d]*", each) for each in metadata.requires("attrib-ds"))


def test_zones_come_from_the_package_that_is_installed_with_this_one(without_system_zones):
    with at.connect("shop", path=":memory:", timezone="Europe/Paris") as shop:
        # Midnight in Paris, in winter and in summer.
        starts = [shop.bound(date(2025, month, 1), argument="since") for month in (1, 7)]
    assert [str(start) for start in starts] == ["2024-12-31 23:00:00+00:00", "2025-06-30 22:00:00+00:00"]


def test_a_zone_is_refused_with_the_reason_if_there_are_none(without_system_zones, monkeypatch):
    for name in ("tzdata", "tzdata.zoneinfo"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidRequest, match="timezone: 'UTC' is not known: .* install the package tzdata"):
        at.connect("shop", path=":memory:")


def test_a_zone_that_does_not_exist_is_refused_as_ever():
    with pytest.raises(
        InvalidRequest, match="timezone: 'Mars/Base' is not allowed; expected an IANA time zone"
    ):
        at.connect("shop", path=":memory:", timezone="Mars/Base")
