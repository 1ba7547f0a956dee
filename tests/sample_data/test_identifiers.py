"""Formats of identifiers."""

import uuid

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sample_data.identifiers import object_ids, uuids

INSTANTS = st.integers(0, 2**32 - 1)


def test_object_id_is_time_process_counter() -> None:
    # 2025-01-01T00:00:00Z is 1735689600, in hexadecimal 67748580.
    ids = object_ids(np.array([1_735_689_600, 1_735_689_600]), "aabbccddee")
    assert ids.tolist() == ["67748580aabbccddee000000", "67748580aabbccddee000001"]


@given(st.lists(INSTANTS, min_size=1, max_size=50))
def test_object_ids_are_sorted_by_time(seconds: list[int]) -> None:
    ids = object_ids(np.array(sorted(seconds)), "0000000001").tolist()
    assert ids == sorted(set(ids))


@given(INSTANTS, st.integers(0, 4_095))
def test_uuids_have_version_7_and_the_millisecond(second: int, draw: int) -> None:
    (text,) = uuids(np.array([second]), np.array([draw]), "f" * 15)
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert parsed.variant == uuid.RFC_4122
    assert parsed.version == 7
    assert parsed.int >> 80 == second * 1000
    assert parsed.int >> 64 & 0xFFF == draw
