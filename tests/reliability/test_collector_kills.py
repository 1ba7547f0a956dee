"""A few of the rounds of ``collector_kills.py``, which runs as many as one has time for."""

import sys

import pytest
from reliability.collector_kills import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals"),
]


@pytest.mark.large
def test_what_collectors_acknowledged_is_in_parts_once_after_kills():
    summary = run(3, seed=1)
    assert summary.problems == []
    assert summary.accepted > 0
