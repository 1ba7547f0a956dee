"""The tracking script in three engines, with few repetitions."""

import pytest
from reliability.browser_engines import NODE, REFUSING, refuse_cookies, run
from support.browsers import PROGRAMS, missing


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("engine", PROGRAMS)
def test_a_site_is_measured_alike_in_every_engine(engine):
    if missing(engine):
        pytest.skip(f"{', '.join(missing(engine))} of {engine} is not installed")
    assert run(engine, scale=1) == {}


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("engine", REFUSING)
def test_a_visitor_whose_browser_refuses_cookies_is_one(engine):
    if missing(engine):
        pytest.skip(f"{', '.join(missing(engine))} of {engine} is not installed")
    assert refuse_cookies(engine) == (1, [(NODE, 3)], {"refused": NODE})
