"""The calendar of the demand curve."""

from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sample_data import demand


def test_the_half_year_is_181_days() -> None:
    assert datetime.fromtimestamp(demand.OPENING, tz=UTC) == datetime(2025, 1, 1, tzinfo=UTC)
    assert datetime.fromtimestamp(demand.CLOSING, tz=UTC) == datetime(2025, 7, 1, tzinfo=UTC)


@given(st.integers(demand.OPENING, demand.CLOSING - 1))
def test_calendar_agrees_with_the_standard_library(second: int) -> None:
    expected = datetime.fromtimestamp(second, tz=UTC)
    seconds = np.array([second])
    assert demand.weekday(seconds)[0] == expected.weekday()
    assert demand.hour(seconds)[0] == expected.hour
    assert demand.day_index(seconds)[0] == (expected - datetime(2025, 1, 1, tzinfo=UTC)).days


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=20))
def test_instants_are_ordered_and_within_the_half_year(positions: list[float]) -> None:
    seconds = demand.instants(np.array(sorted(positions)))
    assert (np.diff(seconds) >= 0).all()
    assert seconds[0] >= demand.OPENING
    assert seconds[-1] <= demand.CLOSING
