"""Fixtures of service accounts; those that tests only read are made once, since making a key takes a while."""

import pytest
from support.signing import NOON, Clock

from attrib_ds.service.accounts import Accounts


@pytest.fixture(scope="session")
def shared_clock():
    return Clock(NOON)


@pytest.fixture(scope="session")
def shared_accounts(tmp_path_factory, shared_clock):
    opened = Accounts.open(tmp_path_factory.mktemp("accounts"), clock=shared_clock)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_key(shared_accounts):
    return shared_accounts.create(projects=["shop"])


@pytest.fixture(scope="session")
def other_key(shared_accounts):
    return shared_accounts.create(projects=["shop"])


@pytest.fixture
def clock():
    return Clock(NOON)


@pytest.fixture
def accounts(tmp_path, clock):
    """Accounts that a test may change."""
    opened = Accounts.open(tmp_path, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def key(accounts):
    return accounts.create(projects=["shop"])
