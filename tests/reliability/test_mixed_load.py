"""A few seconds of ``mixed_load.py``, which goes on as long as one has time for."""

import sys

import pytest
from reliability.mixed_load import run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.mark.large
@pytest.mark.slow
def test_overload_is_refused_and_lived_through():
    summary = run(clients=200, seconds=5)
    assert summary.problems == []
    assert summary.accepted > 0
    assert summary.most_mebibytes < 1_500


@pytest.mark.large
@pytest.mark.slow
def test_a_bearable_load_leaks_no_descriptor():
    summary = run(clients=4, seconds=8)
    assert summary.problems == []
    assert summary.most_descriptors < 100
