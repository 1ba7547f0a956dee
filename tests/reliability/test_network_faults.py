"""A few of the calls of ``network_faults.py``, which makes as many as one has time for."""

import pytest
from reliability.network_faults import run
from support.faulty_proxy import FAULTS


@pytest.mark.large
@pytest.mark.slow
def test_a_broken_network_loses_and_doubles_nothing():
    summary = run(calls=80, seed=1)
    assert summary.problems == []
    assert summary.accepted > 0
    # None of the faults is missing from what was tried.
    assert set(FAULTS) <= summary.faults.keys()
