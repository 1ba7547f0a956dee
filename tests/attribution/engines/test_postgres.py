"""Results on PostgreSQL equal those on DuckDB; the tests start a server of their own."""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.attribution.engines.engine import engine, portable
from attrib_ds.attribution.engines.hashing import group_of, number_of
from attrib_ds.attribution.models.named import rule_models

pytestmark = pytest.mark.postgres

PERIOD = {"since": "2025-01-01T00:00:00Z", "until": "2025-06-30T23:59:59Z"}
RATES = pd.DataFrame({"currency": ["USD", "USD"], "date": ["2024-12-31", "2025-01-15"], "rate": [0.9, 0.5]})
#: Types of a server's columns. Its texts are sorted by a language, in which capitals do not come first.
TYPES = {
    "string": 'text COLLATE "en-x-icu"',
    "large_string": 'text COLLATE "en-x-icu"',
    "double": "double precision",
    "int64": "bigint",
    "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamptz",
    "timestamp[us]": "timestamp",
}


def programs():
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((each for each in reversed(folders) if (each / "pg_ctl").exists()), None)


@pytest.fixture(scope="module")
def server():
    """Start a PostgreSQL server on a free local port, and return its connection."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("PostgreSQL needs psycopg; pip install 'attrib-ds[postgres]'")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL needs the programs of its server, initdb and pg_ctl")
    # The server refuses to run as root, and its user cannot read pytest's folders.
    home = Path(tempfile.mkdtemp(prefix="attrib_ds-postgres-"))
    other = {}
    if os.getuid() == 0:
        import pwd

        known = {each.pw_name for each in pwd.getpwall()}
        other = {"user": "postgres" if "postgres" in known else "nobody"}
        shutil.chown(home, **other)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program, *arguments):
        command = [folder / program, "-D", home / "data", *arguments]
        # The server inherits the output streams of its starter, so reading them to the end would block.
        with (home / "output").open("ab") as output:
            subprocess.run(command, check=True, cwd=home, stdout=output, stderr=output, timeout=60, **other)

    try:
        run("initdb", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "timezone": "America/New_York",
        }
        run("pg_ctl", "start", "-w", "-o", " ".join(f"-c {name}='{each}'" for name, each in settings.items()))
        try:
            yield {"host": "127.0.0.1", "port": port, "user": "tester", "database": "postgres"}
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(home)


def sent(backend, name, frame):
    """Copy a frame into a table of the server."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    columns = ", ".join(f'"{each.name}" {TYPES[str(each.type)]}' for each in table.schema)
    with backend.con.cursor() as cursor:
        cursor.execute(f'CREATE TABLE "{name}" ({columns})')
        with cursor.copy(f'COPY "{name}" FROM STDIN') as lines:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                lines.write_row(row)
        cursor.execute(f'ANALYZE "{name}"')


def world():
    """Ties of time, ids whose order depends on the locale, two currencies, refunds."""
    random = np.random.default_rng(20250103)
    found = at.simulate("synergy", users=2_000, seed=7)
    touched, converted = pd.DataFrame(found.touchpoints).copy(), pd.DataFrame(found.conversions).copy()
    names = {"email": "Email", "social": "_social", "display": "dIsplay"}
    touched["node_id"] = touched["node_id"].map(lambda node: names.get(node, node))
    touched["date"] = touched["date"].dt.floor("12h").astype("datetime64[us, UTC]")
    touched["type"] = random.choice(["click", "view"], len(touched))
    touched["touch_id"] = [f"{'tT_-'[number % 4]}{number * 7919}" for number in range(len(touched))]
    converted["date"] = converted["date"].astype("datetime64[us, UTC]")
    converted["value"] = random.gamma(2, 40, len(converted)).round(2)
    converted["currency"] = random.choice(["EUR", "USD"], len(converted))
    refunds = converted[["event_id", "date", "value"]].iloc[::3].copy()
    refunds["date"] += pd.Timedelta("3D")
    refunds["value"] /= -2
    users = pd.DataFrame(found.users).astype({"since": "datetime64[us, UTC]", "until": "datetime64[us, UTC]"})
    return {"touched": touched, "converted": converted, "refunds": refunds, "observed": users}


def tables_of(frames):
    """The same data as tables of a project."""
    random = np.random.default_rng(20250104)
    touched, converted = frames["touched"], frames["converted"]
    names = {"touch_id": "_id", "user_id": "userId", "node_id": "nodeId", "date": "startDate"}
    interactions = touched.rename(columns=names)
    interactions["isBot"] = random.random(len(touched)) < 0.1
    interactions["duration"] = random.random(len(touched)) * 100
    interactions["geo.city"] = random.choice(["Paris", "paris", "Évry", None], len(touched))
    names = {"event_id": "_id", "user_id": "userId", "date": "eventDate", "value": "statistics.turnover"}
    events = converted.rename(columns=names | {"currency": "statistics.turnover.currency"})
    events["eventType"] = "order"
    paid = events["eventDate"] + pd.Timedelta("2D")
    events["states.paid"] = paid.where(random.random(len(events)) < 0.8)
    nodes = pd.DataFrame({"_id": sorted(touched["node_id"].unique())})
    nodes["name"] = nodes["_id"].str.title()
    nodes["channel"] = ["paid" if number % 2 else "free" for number in range(len(nodes))]
    return {"interactions": interactions, "events": events, "nodes": nodes}


@pytest.fixture(scope="module")
def engines(server):
    """DuckDB and PostgreSQL with the same tables."""
    backends = ibis.duckdb.connect(), ibis.postgres.connect(**server)
    frames = world()
    for name, frame in (frames | tables_of(frames)).items():
        backends[0].create_table(name, pa.Table.from_pandas(frame, preserve_index=False))
        sent(backends[1], name, frame)
    yield backends
    backends[1].disconnect()


@pytest.fixture(scope="module")
def shops(engines):
    return [
        at.open_tables(backend, interactions="interactions", events="events", nodes="nodes")
        for backend in engines
    ]


def paths_of(backend, **settings):
    tables = {name: backend.table(name) for name in ("touched", "converted", "observed")}
    return at.Paths.from_frames(
        tables["touched"], tables["converted"], users=tables["observed"], touch="touch_id", **settings
    )


@pytest.fixture(scope="module")
def both(engines):
    return [paths_of(backend) for backend in engines]


def same(answers):
    expected, found = answers
    assert len(expected)
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"where": at.interaction("geo.city") >= "P", "nodes": at.node("channel") == "paid"},
        {"where": at.interaction("geo.city").contains("ari"), "level": "channel"},
        {"state": "paid", "anchor": "state", "reset": "any", "lookback": "36h"},
    ],
)
def test_paths_are_the_same(shops, settings):
    paths = [
        at.conversion_paths(shop, event_type="order", statistic="turnover", **settings) for shop in shops
    ]
    same(each.to_pandas() for each in paths)
    same(each.summary(top=None) for each in paths)
    same(each.lags() for each in paths)


def test_windows_of_types_are_the_same(engines):
    settings = {"lookback": {"click": "8D", "view": "1D"}, "precedence": ("click", "view"), "reset": "any"}
    same(paths_of(backend, **settings).to_pandas() for backend in engines)


MODELS = {
    **dict.fromkeys(rule_models()),
    "steps": at.models.TimeDecay("7D", step="1D"),
    "a minute": at.models.TimeDecay("1min"),
    "own": at.models.CustomWeights(lambda touch: 1 / (1 + touch.age_days)),
    "markov": at.models.Markov(),
    "second order": at.models.Markov(order=2, transform="exposure"),
    "first of last": at.models.Markov(transform="first", steps=3, nulls=False),
    "frequency": at.models.Markov(transform="frequency"),
    "shapley": at.models.Shapley(),
    "ordered": at.models.OrderedShapley(),
    "rates": at.models.ConversionRateShapley(),
    "fractribution": at.models.Fractribution(),
    "discrete": at.models.DiscreteHazard(),
}
MODELS = {name: name if model is None else model for name, model in MODELS.items()}


def test_every_model_is_the_same(both):
    same(at.attribute(paths, MODELS) for paths in both)


@pytest.mark.parametrize("intervals", ["closed_form", "bootstrap"])
def test_intervals_are_the_same(both, intervals):
    models = ["linear", "markov", "shapley", "conversion_rate_shapley", "fractribution"]
    same(at.attribute(paths, models, confidence=0.9, intervals=intervals, replicates=20) for paths in both)


def test_money_and_series_are_the_same(engines):
    settings = {"in_currency": "EUR", "rates": RATES, "later_rate": "own"}
    paths = [paths_of(each, adjustments=each.table("refunds"), **settings) for each in engines]
    same(at.attribute(each, ["linear", "markov"]) for each in paths)
    for date in ("event", "touch"):
        same(
            at.credit_series(each, "linear", date=date, interval="week", timezone="Europe/Paris")
            for each in paths
        )


def test_single_conversions_are_explained_alike(both):
    event_id = both[0].to_pandas().groupby("event_id").size().idxmax()
    for model in ("linear", "fractribution"):
        same(at.explain(paths, model, event_id) for paths in both)
    same(at.touch_credits(paths, "time_decay") for paths in both)


def test_comparisons_are_the_same(both):
    same(at.compare_lookbacks(paths, ["7D", "30D"]) for paths in both)
    same(at.compare_orders(paths, [1, 2]) for paths in both)


@pytest.mark.parametrize(
    "settings",
    [
        {"interval": "week", "timezone": "Europe/Paris"},
        {"interval": "hourOfDay", "timezone": "America/New_York", "sort": "-interval"},
        {"interval": "month", "group_by": "geo.city"},
        {"interval": "custom", "segments": 7, **PERIOD},
    ],
)
def test_insights_are_the_same(shops, settings):
    same(at.interaction_insights(shop, **settings) for shop in shops)


@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_insights_of_events_are_the_same(shops, timezone):
    asked = {"metrics": ["event-count", "turnover", "paid"], "interval": "week", "timezone": timezone}
    same(at.event_insights(shop, group_by="event-type", **asked, **PERIOD) for shop in shops)


def test_random_numbers_are_the_same(engines):
    texts = pa.table({"text": ["", "ünï", *(f"user-{number}" for number in range(300)), None]})
    local = engine()
    local.con.register("texts", texts)
    sent(engines[1], "texts", texts.to_pandas())
    tables = local.table("texts"), portable(engines[1]).table("texts")
    numbered = [
        each.mutate(number=number_of(each.text), group=group_of(each.text, 20)).order_by("text")
        for each in tables
    ]
    expected, found = (each.to_pyarrow().to_pandas() for each in numbered)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_frames_and_tables_may_be_mixed(engines, both):
    frames = world()
    touched = engines[1].table("touched")
    beside = at.Paths.from_frames(
        touched, frames["converted"], users=frames["observed"].assign(segment=None), touch="touch_id"
    )
    models = ["linear", "discrete_hazard"]
    same([at.attribute(both[0], models), at.attribute(beside, models)])


def test_uploaded_tables_may_exist_already(engines):
    chosen = ibis.memtable(pa.table({"node_id": ["Email", "direct"]}))
    touched = engines[1].table("touched").join(chosen, "node_id")
    assert touched.count().to_pyarrow().as_py()
    credits = at.attribute(at.Paths.from_frames(touched, engines[1].table("converted")), "linear")
    assert set(credits["node_id"].dropna()) == {"Email", "direct"}


def test_missing_tables_and_privileges_are_named(engines, server):
    with pytest.raises(
        errors.InvalidRequest, match=r"events: there is no table 'event' \(did you mean 'events'\?\)"
    ):
        at.open_tables(engines[1], interactions="interactions", events="event")
    with engines[1].con.cursor() as cursor:
        cursor.execute("CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader")
        cursor.execute("REVOKE TEMPORARY ON DATABASE postgres FROM public")
    reader = ibis.postgres.connect(**server | {"user": "reader"})
    paths = at.Paths.from_frames(reader.table("touched"), reader.table("converted"))
    assert len(at.attribute(paths, "linear"))
    with pytest.raises(errors.NotSupported, match="temporary tables in database .*; .* grant TEMPORARY"):
        at.attribute(paths, "markov")
    reader.disconnect()
