"""Fixtures of the conformance tests: each test sees a project through one interface, twice.

``service`` is a project of the test's module, reached once inside this process and once over HTTP. Tests of
what HTTP alone has are marked ``http_only``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.shop import made, new
from conformance.transports import Embedded, OverHttp
from support.http_caller import token_of

from attrib_ds.service.accounts.administration import create_key
from attrib_ds.service.http.server import running
from attrib_ds.service.http.settings import Settings

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Refuse a test of a rule that runs over one transport alone and does not say so."""
    for item in items:
        if item.path.parent != HERE or not item.name.startswith("test_r"):
            continue
        runs_on_both = "transport" in getattr(getattr(item, "callspec", None), "params", {})
        if runs_on_both == (item.get_closest_marker("http_only") is not None):
            raise pytest.UsageError(f"{item.nodeid}: runs over both transports, or is marked http_only")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """The folder of the projects that are served."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def key(home):
    """The key of an account that may use every project."""
    return create_key(home, home / "key.json")


@pytest.fixture(scope="session")
def http(home, key):
    """A server on loopback, without limits of rates."""
    with running(home, settings=Settings(rates=None)) as url:
        yield OverHttp(home, url, token_of(url, key))


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """Services in this process."""
    transport = Embedded(tmp_path_factory.mktemp("embedded"))
    yield transport
    transport.close()


@pytest.fixture(scope="session", params=["embedded", "http"])
def transport(request):
    """Each of the two ways to the service."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def new_project(transport):
    """Make projects, each with an integration, an event type and the records that are given."""

    def make(project_id=None, *, prepare=None, **records):
        return made(transport, project_id or new("shop"), prepare=prepare, **records)

    return make


@pytest.fixture(scope="module")
def records():
    """Records that are loaded into the project of a module; modules have their own."""
    return {}


@pytest.fixture(scope="module")
def service(new_project, records):
    """The project of a module, over each transport."""
    return new_project(**records)


@pytest.fixture(scope="session")
def project(http):
    """One project that is reached over HTTP alone."""
    return made(http, "over-http")


@pytest.fixture
def fresh(new_project):
    """A project of one test alone."""
    return new_project()
