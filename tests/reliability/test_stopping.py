"""A round of ``stopping.py``, which makes as many as one has time for."""

import sys

import pytest
from reliability.stopping import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


@pytest.mark.large
@pytest.mark.slow
def test_a_server_that_is_stopped_under_load_keeps_what_it_acknowledged():
    summary = run(rounds=1, seed=1)
    assert summary.problems == []
    assert summary.accepted > 0
