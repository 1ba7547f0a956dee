"""A clock that is set back by a year costs no record, no order and no protection."""

import pytest
from reliability.clock_back import run, run_server


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("is_reopened", [False, True], ids=["while open", "between runs"])
def test_a_late_clock_loses_nothing(tmp_path, is_reopened):
    assert run(tmp_path, is_reopened=is_reopened) == []


@pytest.mark.large
@pytest.mark.slow
def test_tokens_survive_a_late_clock_no_longer_than_they_should(tmp_path):
    assert run_server(tmp_path) == []
