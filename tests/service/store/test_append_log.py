"""The append-only log keeps whole groups in order, and no others."""

from __future__ import annotations

import os
import stat

import pytest

from attrib_ds.errors import ServiceFailure
from attrib_ds.service.store.append_log import AppendLog, Group, is_open, read_groups


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.duckdb.intake"


def written(path, *contents, last=0):
    """Append groups as a process that is killed afterwards."""
    log = AppendLog(path, last=last)
    for content in contents:
        log.append(content)
    log.abandon()


def test_groups_are_read_in_order_with_their_numbers(path):
    written(path, b"first", b"", b"third", last=41)
    assert read_groups(path) == [Group(42, b"first"), Group(43, b""), Group(44, b"third")]


def test_a_log_that_does_not_exist_has_no_groups(path):
    assert read_groups(path) == []


def test_every_cut_leaves_the_whole_groups_before_it(path):
    written(path, b"first", b"second")
    content = path.read_bytes()
    # A group has a head of 16 bytes: 16 + 5 and 16 + 6.
    assert len(content) == 43
    for length in range(43):
        path.write_bytes(content[:length])
        assert [group.content for group in read_groups(path)] == ([b"first"] if length >= 21 else [])


def test_every_flipped_bit_ends_the_log_before_its_group(path):
    written(path, b"first", b"second")
    content = path.read_bytes()
    for position in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert [group.content for group in read_groups(path)] == ([b"first"] if position >= 8 * 21 else [])


def test_groups_are_dropped_only_after_the_last_one(path):
    log = AppendLog(path, last=0)
    log.append(b"first")
    log.append(b"second")
    log.drop(1)
    assert len(read_groups(path)) == 2
    log.drop(2)
    assert read_groups(path) == []
    assert log.append(b"third") == 3
    assert read_groups(path) == [Group(3, b"third")]
    log.close()


def test_closing_removes_an_empty_log_and_keeps_any_other(path):
    AppendLog(path, last=0).close()
    assert not path.exists()
    log = AppendLog(path, last=0)
    log.append(b"first")
    log.close()
    log.close()
    assert read_groups(path) == [Group(1, b"first")]
    with pytest.raises(ServiceFailure, match="is closed"):
        log.append(b"second")


def test_a_group_that_cannot_be_written_leaves_the_log_as_it_was(path):
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    log = AppendLog(path, last=0)
    log.append(b"first")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(ServiceFailure, match="File too large .the disk is full"):
            log.append(b"x" * 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.stat().st_size == 21
    assert log.append(b"second") == 2
    assert read_groups(path) == [Group(1, b"first"), Group(2, b"second")]
    log.close()


def test_g233_only_the_owner_may_read_a_log(path):
    path.touch(mode=0o644)
    written(path, b"first")
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_is_open_until_it_is_closed(path):
    log = AppendLog(path, last=0)
    assert is_open(path.parent / "." / path.name)
    log.close()
    assert not is_open(path)


def test_a_forked_process_leaves_the_log_alone(path):
    log = AppendLog(path, last=0)
    log.append(b"first")
    log.drop(1)
    with log._lock:
        log.abandon()
        log.close()
    assert path.exists()
    assert not is_open(path)
