"""A few examples of ``random_browsers.py``, which plays as many as one has time for."""

from __future__ import annotations

import pytest
from reliability.random_browsers import Embedded, Served, run


@pytest.mark.parametrize("machine", [Embedded, Served])
def test_g247_what_is_sent_again_is_the_same_record(machine):
    assert run(3 if machine is Embedded else 1, 3, steps=8, machines=[machine]).problems == []


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("machine", [Embedded, Served])
def test_g247_more_of_what_is_sent_again(machine):
    assert run(8, 1, steps=25, machines=[machine]).problems == []
