"""A few examples of ``random_browsers.py``, which plays as many as one has time for."""

from __future__ import annotations

import pytest
from reliability.random_browsers import Embedded, Served, run


@pytest.mark.large
@pytest.mark.parametrize("machine", [Embedded, pytest.param(Served, marks=pytest.mark.slow)])
def test_g247_what_is_sent_again_is_the_same_record(machine):
    assert run(2 if machine is Embedded else 1, 3, steps=8, machines=[machine]).problems == []
