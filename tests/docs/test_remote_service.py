"""The how-to page says what is so."""

import re
from pathlib import Path

import pytest

from attrib_ds.transports.http.configuration import _VARIABLES, read_routes
from attrib_ds.transports.http.remote_errors import _TRANSIENT
from attrib_ds.transports.http.session import RetryPolicy, Timeouts

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "remote-service.md"


@pytest.fixture(scope="module")
def text():
    return PAGE.read_text(encoding="utf-8")


def test_the_routes_are_routes(text, tmp_path):
    *_, routes = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "routes.toml"
    file.write_text(routes)
    found = read_routes(file)
    assert found["list_nodes"].path == "/projects/{projectId}/sources"
    assert found["update_event_state"].method == "PATCH"


def test_the_patience_is_as_told(text):
    assert (RetryPolicy().attempts, RetryPolicy().seconds, Timeouts().read) == (6, 120, 120)
    assert "up to six times within two minutes" in text
    assert "silence of two minutes" in text
    told = re.search(r"the statuses ([0-9, and\n]+):", text)[1]
    assert {int(each) for each in re.findall(r"\d+", told)} == _TRANSIENT


def test_the_variables_are_as_told(text):
    for argument, variable in _VARIABLES.items():
        assert re.search(rf"\| `{argument}` \| `{variable}`", text)
