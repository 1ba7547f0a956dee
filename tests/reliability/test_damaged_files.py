"""A few of the trials of ``damaged_files.py``, which makes as many as one has time for."""

import sys

import pytest
from reliability.damaged_files import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")


@pytest.mark.large
@pytest.mark.slow
def test_damage_is_told_or_costs_no_acknowledged_record():
    summary = run(trials=21, seed=1)
    assert summary.problems == []
    assert summary.outcomes["nothing", "complete"] == 1
