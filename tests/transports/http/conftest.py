"""Fixtures of the HTTP transport: a service that misbehaves, a key, and projects of it."""

from contextlib import ExitStack

import pytest
from support.scripted_service import FakeClock, Scripted
from support.signing import service_account

from attrib_ds import Project
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.credentials import protect_key
from attrib_ds.transports.http.session import Timeouts
from attrib_ds.transports.http.transport import Options, open_http


@pytest.fixture(scope="session")
def key():
    """The content of a key file."""
    return service_account()[0]


@pytest.fixture
def service(time):
    scripted = Scripted(time)
    yield scripted
    scripted.close()


@pytest.fixture
def time():
    return FakeClock()


@pytest.fixture
def open_shop(service, key, time):
    """Open the project "shop" of the misbehaving service."""
    with ExitStack() as stack:

        def opened(*, with_key=True, read_timeout=10.0, routes=None, **options):
            options = Options(
                clock=time.clock(), timeouts=Timeouts(connect=5.0, read=read_timeout), **options
            )
            remote = Remote(url=service.url, key=protect_key(key) if with_key else None, routes=routes)
            return stack.enter_context(Project("shop", open_http(remote, options=options)))

        yield opened


@pytest.fixture
def shop(open_shop):
    return open_shop()
