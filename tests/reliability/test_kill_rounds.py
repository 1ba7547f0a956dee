"""A few of the rounds of ``kill_rounds.py``, which runs as many as one has time for."""

import sys

import pytest
from reliability.kill_rounds import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals"),
]


def test_r116_r197_r203_what_was_acknowledged_survives_kills():
    summary = run(2, seed=1, tell=lambda _: None)
    assert summary.problems == []
    assert summary.accepted > 0
