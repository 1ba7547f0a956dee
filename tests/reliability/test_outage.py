"""An outage of seconds; ``outage.py`` takes the server away for a minute."""

import pytest
from reliability.outage import run
from support.website import CHROMIUM

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@pytest.mark.large
def test_an_outage_loses_nothing_with_consent_and_no_source_without():
    summary = run(seconds=3)
    assert summary.problems == []
    assert summary.refused > 0
    # Of the visitor without consent who left the landing page.
    assert summary.lost == 1
