"""Fixtures for every test: no network, no user's own folders, and a small shop."""

import functools
import gc
import importlib.util
import itertools
import shutil
import signal

import jwt.algorithms
import pandas as pd
import pytest
import support.no_iri_grammar  # noqa: F401
from _pytest.doctest import DoctestItem
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, Phase, settings
from support import sample_copies
from support.few_cases import keep_few_cases
from support.flaky_tests import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401

from attrib_ds import connect, load, sample_project
from attrib_ds.errors import Unavailable
from attrib_ds.transports.http import credentials

# Laws whose settings say nothing, and those of law_examples. A change is judged by the same examples each time;
# "exploring" draws others with every run. "quick" does not shrink what fails, which takes minutes; the others do.
# None of them looks at the clock: on a busy machine a correct law would fail.
_unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "quick",
    _unhurried,
    max_examples=20,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.register_profile("thorough", _unhurried, max_examples=100, derandomize=True)
settings.register_profile("exploring", _unhurried, max_examples=100)
settings.load_profile("quick")


def pytest_configure(config):
    # Hooks of this file would not be called for examples, which are in another folder.
    config.pluginmanager.register(sample_copies)


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, metavar="N", help="run at most N cases of each test")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep what collection makes out of garbage collection: it lives as long as the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Call examples on the sample project slow."""
    for item in items:
        if isinstance(item, DoctestItem) and any(
            "sample_project()" in example.source for example in item.dtest.examples
        ):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.sample_example)
    keep_few_cases(items, at_most=config.getoption("cases"))


_HOMES = itertools.count()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """Give each test its own folder for embedded projects, and no remote service.

    The folder is created by what stores there: most tests store nothing, and a ``tmp_path`` costs time.
    """
    folder = tmp_path_factory.getbasetemp() / "homes" / str(next(_HOMES))
    for name in ("URL", "URL_V2", "AUTH_URL", "KEY", "ROUTES"):
        monkeypatch.delenv(f"ATTRIB_DS_{name}", raising=False)
    monkeypatch.setenv("ATTRIB_DS_HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    return folder / "home"


@pytest.fixture(scope="session", autouse=True)
def keys_checked_once():
    """Load each private key once: OpenSSL looks for primes whenever it loads one, a tenth of a second."""
    load_once = functools.lru_cache(serialization.load_pem_private_key)
    with pytest.MonkeyPatch.context() as patch:
        for module in (serialization, jwt.algorithms, credentials):
            patch.setattr(module, "load_pem_private_key", load_once)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Spark on two threads of this machine, for all tests; a backend of Ibis."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("Spark needs pyspark; pip install 'attrib-ds[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or later")
    folder = str(tmp_path_factory.mktemp("spark"))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        # Queries on few rows end before the optimising compiler pays: it takes half of the time.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": folder,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": folder,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    import ibis
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield ibis.pyspark.connect(session)
    session.stop()


@pytest.fixture(scope="session")
def clickhouse_database():
    """Return a function that makes a database of ClickHouse inside this process; a backend of Ibis."""
    if importlib.util.find_spec("chdb") is None or importlib.util.find_spec("clickhouse_connect") is None:
        pytest.skip("ClickHouse needs chdb and clickhouse-connect; pip install chdb 'attrib-ds[clickhouse]'")
    import ibis
    from support.chdb_client import ChdbClient

    clients = []

    def create(name):
        # Instants without a zone are shown in that of the session.
        clients.append(ChdbClient.connect(name, session_timezone="America/New_York"))
        return ibis.clickhouse.from_connection(clients[-1])

    yield create
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def sample():
    """The sample project, for all tests that only read it."""
    with sample_project() as project:
        yield project


def hexadecimal(number: int) -> str:
    return f"{number:024x}"


@pytest.fixture(scope="session")
def small_shop():
    """The shop that tests share, until one of them changes it."""
    held = []
    yield held
    for project, _ in held:
        project.close()


@pytest.fixture
def shop(small_shop):
    """A tree of six nodes, seven interactions of three users, four events and two outlays.

    A test that writes gets the shop as it is built, and the next test one of its own.
    """
    if not small_shop or _writes(small_shop[0][0]) != small_shop[0][1]:
        for project, _ in small_shop:
            project.close()
        project = _open_small_shop()
        small_shop[:] = [(project, _writes(project))]
    return small_shop[0][0]


def _writes(project):
    """Return the number of transactions that wrote to a project; None if a test has closed it."""
    try:
        with project.transport._store.cursor() as cursor:
            return cursor.execute("SELECT writes FROM meta").fetchone()[0]
    except Unavailable:
        return None


def _open_small_shop():
    nodes = pd.DataFrame(
        [
            ("ads", None, "integration", "Ads", "Paid Search"),
            ("brand", "ads", "campaign", "Brand", "Paid Search"),
            ("shoes", "brand", "adset", "Shoes", "Paid Search"),
            ("boots", "brand", "adset", "Boots", "Paid Search"),
            ("letter", None, "campaign", "Newsletter", "Email"),
            ("direct", None, "channel", "Direct", "Direct"),
        ],
        columns=["_id", "parentId", "type", "name", "channel"],
    )
    anna, ben, carl = (hexadecimal(number) for number in (10, 11, 12))
    interactions = pd.DataFrame(
        [
            (hexadecimal(1), anna, "shoes", "2025-01-01T10:00:00Z", "session", False, None, "FR"),
            (hexadecimal(2), anna, "letter", "2025-01-05T10:00:00Z", "session", False, None, "FR"),
            (hexadecimal(3), anna, "direct", "2025-01-09T10:00:00Z", "session", False, None, "DE"),
            (hexadecimal(4), ben, "boots", "2025-01-02T10:00:00Z", "session", False, None, "DE"),
            (hexadecimal(5), ben, "letter", "2025-01-03T10:00:00Z", "session", True, None, "DE"),
            (hexadecimal(6), ben, "direct", "2025-01-04T10:00:00Z", "session", False, "office", "DE"),
            (hexadecimal(7), carl, "letter", "2024-11-01T10:00:00Z", "offline", False, None, None),
        ],
        columns=[
            "_id",
            "userId",
            "nodeId",
            "startDate",
            "type",
            "isBot",
            "trafficFilterId",
            "geo.countryCode",
        ],
    )
    events = pd.DataFrame(
        {
            "_id": [f"00000000-0000-7000-8000-00000000000{number}" for number in (1, 2, 3, 4)],
            "userId": [anna, ben, carl, anna],
            "eventType": ["order", "order", "order", "lead"],
            "eventDate": [
                "2025-01-10T10:00:00Z",
                "2025-01-10T10:00:00Z",
                "2025-01-10T10:00:00Z",
                "2025-01-06T10:00:00Z",
            ],
            "statistics.turnover.amount": [90.0, 40.0, 20.0, None],
            "statistics.turnover.currency": ["EUR", "EUR", "EUR", None],
            "states.confirmed": pd.array([1, 0, 1, None], dtype="Int64"),
            "states.qualified": pd.array([None, None, None, 1], dtype="Int64"),
            "states.qualified.date": [None, None, None, "2025-01-07T10:00:00Z"],
        }
    )
    spend = pd.DataFrame(
        {
            "campaignId": ["brand", "letter"],
            "amount.amount": [30.0, 10.0],
            "amount.currency": ["EUR", "EUR"],
            "startDate": ["2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"],
            "endDate": ["2025-01-31T00:00:00Z", "2025-01-11T00:00:00Z"],
        }
    )
    project = connect("small-shop", path=":memory:")
    report = load(project, nodes=nodes, interactions=interactions, events=events, spend=spend)
    assert report.rejected.empty, report.rejected.to_dict("records")
    return project


@pytest.fixture
def interruptible():
    """Let Ctrl-C raise KeyboardInterrupt, also where the tests were started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
