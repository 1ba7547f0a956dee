"""No known nonce is taken for a new one, whatever became of its event."""

from __future__ import annotations

from contextlib import closing
from time import monotonic, sleep

import pytest
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.service import Service
from attrib_ds.service.events.known_nonces import KnownNonces, _Filter, _hash

FEW = 1_000


@pytest.fixture
def service(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as opened:
        declare_order(opened)
        yield opened


def ready(known):
    until = monotonic() + 30
    while known._filter is None and monotonic() < until:
        sleep(0.01)
    return known


def are_new(known, *nonces):
    return known.add(nonces, unstored=list)


def test_nonces_of_the_tables_are_known(service):
    for nonce in ("a", "é" * 256):
        send(service, "create_event_sync", **order(nonce))
    known = ready(KnownNonces(service._store))
    assert not are_new(known, "a")
    assert not are_new(known, "new", "é" * 256)
    assert are_new(known, "newer")
    assert not are_new(known, "newer")
    assert not are_new(known, "twice", "twice")


@pytest.mark.parametrize("mode", ["delete", "anonymise"])
def test_g210_nonces_of_erased_events_are_known(service, mode):
    id = send(service, "create_event_sync", **order("a")).value
    user = send(service, "get_event", id=id).read()["userId"].to_pylist()[0]
    send(service, "delete_user", id=user, mode=mode)
    known = ready(KnownNonces(service._store))
    assert not are_new(known, "a")
    assert are_new(known, "b")


def test_nothing_is_certain_before_the_tables_are_read(service):
    known = KnownNonces(service._store)
    read = ready(known)._filter
    known._filter = None
    assert not are_new(known, "a")
    known._filter = read
    assert not are_new(known, "a")
    assert are_new(known, "b")


def test_a_full_filter_is_replaced_and_forgets_nothing(service):
    send(service, "create_event_sync", **order("stored"))
    known = ready(KnownNonces(service._store))
    known._filter._left = 2
    assert known.add(["a", "b"], unstored=lambda: ["a"])
    ready(known)
    assert not known._filter.is_full
    assert [are_new(known, nonce) for nonce in ("a", "b", "stored", "c")] == [False, False, False, True]


def test_a_filter_has_all_that_was_added_and_little_else():
    added = _Filter(FEW)
    for number in range(FEW):
        added.add(_hash(f"added {number}"))
    assert all(added.has(_hash(f"added {number}")) for number in range(FEW))
    assert sum(added.has(_hash(f"other {number}")) for number in range(FEW)) < 10
