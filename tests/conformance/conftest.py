"""Fixtures of the conformance tests, which run over both transports.

``service`` is the project of a test module, once embedded and once over HTTP. Tests of features that only exist
over HTTP are marked ``http_only``. The half over HTTP is slow, except for the modules of ``BOTH_BY_DEFAULT``. The
embedded half of slow tests is large: the same service answers over HTTP.
"""

from pathlib import Path

import pytest
from conformance.shop import made, new
from conformance.transports import Embedded, OverHttp
from support.http_caller import token_of

from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

HERE = Path(__file__).parent
#: One of reads and writes of every kind, one of refusals.
BOTH_BY_DEFAULT = {"test_service.py", "test_errors.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Call one half slow or large, and refuse a test of a rule over one transport that is not marked."""
    for item in items:
        if item.path.parent != HERE:
            continue
        transport = getattr(getattr(item, "callspec", None), "params", {}).get("transport")
        if transport == "embedded" and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.large)
        if transport == "http" and item.path.name not in BOTH_BY_DEFAULT:
            item.add_marker(pytest.mark.slow)
        if not item.name.startswith("test_r"):
            continue
        if (transport is not None) == (item.get_closest_marker("http_only") is not None):
            raise pytest.UsageError(f"{item.nodeid}: runs over both transports, or is marked http_only")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Folder of the served projects."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def key(home):
    """Key of an account with access to every project."""
    return create_key(home, home / "key.json")


@pytest.fixture(scope="session")
def http(home, key):
    """Server on loopback, without rate limits."""
    with running(home, options=ServerOptions(rate_limits=None)) as url:
        yield OverHttp(home, url, token_of(url, key))


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """Services embedded in this process."""
    transport = Embedded(tmp_path_factory.mktemp("embedded"))
    yield transport
    transport.close()


@pytest.fixture(scope="session", params=["embedded", "http"])
def transport(request):
    """Each of the two transports."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def new_project(transport):
    """Create projects with an integration, an event type and the given records."""

    def make(project_id=None, *, prepare=None, **records):
        return made(transport, project_id or new("shop"), prepare=prepare, **records)

    return make


@pytest.fixture(scope="module")
def records():
    """Records to load into the project of a module; modules override this fixture."""
    return {}


@pytest.fixture(scope="module")
def service(new_project, records):
    """Project of a module, over each transport."""
    return new_project(**records)


@pytest.fixture(scope="session")
def project(http):
    """A project over HTTP only."""
    return made(http, "over-http")


@pytest.fixture
def fresh(new_project):
    """A project for one test only."""
    return new_project()
