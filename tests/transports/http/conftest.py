"""Fixtures of the HTTP transport: a service that misbehaves, a key, and projects of it."""

from contextlib import ExitStack

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from support.scripted_service import FakeClock, Scripted

from attrib_ds import Project
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.credentials import protect_key
from attrib_ds.transports.http.session import Timeouts
from attrib_ds.transports.http.transport import Options, open_http


@pytest.fixture(scope="session")
def key():
    """The content of a key file."""
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "clientId": "client-1",
        "serviceAccountEmail": "robot@shop.example",
        "privateKeyId": "key-1",
        "privateKey": pem.decode(),
    }


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
