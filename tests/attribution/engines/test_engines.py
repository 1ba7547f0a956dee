"""Engines: DuckDB with bounded memory, external tables, and the SQL of engines that are not installed."""

from datetime import timedelta

import ibis
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot

import attrib_ds as at
from attrib_ds import Paths, errors
from attrib_ds.attribution.engines.engine import double, engine, engine_of, joined_in_order
from attrib_ds.attribution.models.named import model_named, rule_models
from attrib_ds.attribution.path_models import conversion_rates, markov
from attrib_ds.attribution.paths.sequences import Sequences, prepared
from attrib_ds.attribution.paths.windows import Window, pair
from attrib_ds.attribution.rules import weighted

ENGINES = ["bigquery", "clickhouse", "duckdb", "postgres", "snowflake", "trino"]

TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": ["u", "u", "v"],
        "node_id": ["search", "email", "email"],
        "date": pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-02"], utc=True),
    }
)
CONVERSIONS = pd.DataFrame(
    {"event_id": ["e"], "user_id": ["u"], "date": pd.to_datetime(["2025-01-03"], utc=True), "value": [30.0]}
)


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def setting(backend, name):
    return backend.con.execute("SELECT current_setting(?)", [name]).fetchone()[0]


@pytest.mark.slow
def test_memory_is_bounded_and_files_go_to_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    backend = engine("100MB")
    assert setting(backend, "memory_limit") == "95.3 MiB"
    assert setting(backend, "temp_directory").startswith(str(tmp_path))
    # Data larger than memory is sorted, and leaves no file behind.
    rows = "SELECT (i * 7919) % 8000009 AS i, repeat('x', 20) || i AS text FROM range(8000000) AS r(i)"
    largest = backend.con.execute(
        f"SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY text) AS n FROM ({rows}))"
    )
    assert largest.fetchone() == (8_000_000,)
    backend.disconnect()
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


@pytest.mark.parametrize("memory", ["4", "lots", 4, "-1GB", "4GB; DROP", ""])
def test_invalid_memory_is_refused(memory):
    with pytest.raises(errors.InvalidRequest, match="memory: .*allowed: an amount of memory such as '4GB'"):
        Paths.from_frames(TOUCHPOINTS, CONVERSIONS, memory=memory)


def test_bounded_memory_changes_no_credit():
    bounded = Paths.from_frames(TOUCHPOINTS, CONVERSIONS, memory="64MB")
    models = ["linear", "markov"]
    expected = at.attribute(Paths.from_frames(TOUCHPOINTS, CONVERSIONS), models)
    pd.testing.assert_frame_equal(at.attribute(bounded, models), expected)


def test_tables_of_external_engines_are_not_copied():
    backend = ibis.duckdb.connect()
    backend.con.execute("SET TimeZone = 'America/New_York'")
    lent = (
        backend.create_table("touched", arrow(TOUCHPOINTS)),
        backend.create_table("bought", arrow(CONVERSIONS)),
    )
    paths = Paths.from_frames(lent[0].filter(lent[0].user_id != "w"), lent[1])
    assert paths.touches.get_backend() is backend
    pd.testing.assert_frame_equal(paths.to_pandas(), Paths.from_frames(TOUCHPOINTS, CONVERSIONS).to_pandas())
    beside = Paths.from_frames(
        lent[0],
        lent[1],
        users=lent[0]
        .group_by("user_id")
        .agg(since=ibis.timestamp("2025-01-01"), until=ibis.timestamp("2025-02-01")),
    )
    assert beside.observed.count().to_pyarrow().as_py() == 2


def test_tables_of_two_engines_are_refused():
    lent = [ibis.duckdb.connect().create_table("rows", arrow(TOUCHPOINTS)) for _ in range(2)]
    with pytest.raises(
        errors.InvalidRequest, match="they are in 2 engines; allowed: tables of one connection"
    ):
        Paths.from_frames(*lent)
    with pytest.raises(errors.InvalidRequest, match="memory: it cannot be set for tables in your own engine"):
        engine_of(lent[:1], memory="1GB")


def test_duplicate_identifiers_of_external_tables_are_named():
    backend = ibis.duckdb.connect()
    twice = backend.create_table("bought", arrow(pd.concat([CONVERSIONS, CONVERSIONS])))
    with pytest.raises(
        errors.InvalidRequest, match="2 rows .* 'event_id' occurs more than once, for example 'e'"
    ):
        Paths.from_frames(TOUCHPOINTS, twice)


def paths_in(engine_name, table_of_engine):
    touchpoints = table_of_engine(
        engine_name,
        "touchpoints",
        {
            "user_id": "string",
            "node_id": "string",
            "date": "timestamp(6)",
            "touch_id": "string",
            "type": "string",
        },
    )
    columns = {
        "event_id": "string",
        "user_id": "string",
        "event_date": "timestamp(6)",
        "conversions": "float64",
    }
    columns |= {"value": "float64", "currency": "string", "milestone.lead": "timestamp(6)"}
    conversions = table_of_engine(engine_name, "conversions", columns)
    window = Window.of({"click": "30D", "default": "1D"}, precedence=("click", "view"))
    return Paths(
        touches=pair(touchpoints, conversions, window=window), touchpoints=touchpoints, converted=conversions
    )


def queries(paths):
    """Return every expression that a model counts in the engine, by name."""
    nodes = ["a", "b", "c"]
    sequences = Sequences(paths, nodes, 20)
    rules = {name: model_named(name) for name in rule_models()} | {
        "milestones": at.models.PositionBased(0.3, 0.3, milestones={"lead": 0.3}),
        "shapley": at.models.Shapley(),
        "steps of time": at.models.TimeDecay("7D", step="1D"),
    }
    found = {name: paths.touches.select("event_id", w=weighted(paths, rule)) for name, rule in rules.items()}
    for model in (
        at.models.Markov(),
        at.models.Markov(order=3, transform="exposure"),
        at.models.Markov(transform="first", steps=4),
    ):
        for kind, steps in (("converting", sequences.converting()), ("null", sequences.nulls())):
            counted = markov._counted(prepared(steps, model, nodes), model.order)
            found[f"{model.transform} {kind}"] = counted
    found["frequency"] = prepared(
        sequences.converting(), at.models.Fractribution(transform="frequency"), nodes
    ).table
    left_out = at.models.Fractribution(remove_if_not_all=("a",), remove_if_last_and_not_all=("b",))
    found["left out"] = prepared(sequences.converting(), left_out, nodes).table
    found["sets"] = conversion_rates._counted(sequences.converting())
    found["null sets"] = conversion_rates._counted(sequences.nulls())
    touches = paths.touches
    joined = joined_in_order(touches.node_id, touches.position, " > ")
    found["joined"] = touches.group_by("event_id").agg(path=joined)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_every_expression_compiles_to_the_sql_of_the_engine(name, table_of_engine):
    for label, expression in queries(paths_in(name, table_of_engine)).items():
        text = ibis.to_sql(expression, dialect=name)
        assert sqlglot.parse_one(text, read=name).find(sqlglot.exp.Select), label


@pytest.mark.parametrize("name", ["snowflake", "trino"])
def test_quotients_are_those_of_doubles(name, table_of_engine):
    # These engines read 1.0 as a decimal, and would round 1.0 / 3 to one digit.
    paths = paths_in(name, table_of_engine)
    text = ibis.to_sql(paths.touches.select(w=weighted(paths, at.models.Linear())), dialect=name)
    assert "CAST('1.0' AS DOUBLE) /" in text


@pytest.mark.parametrize("number", [0.0, 1.0, 0.1, 86_400_000_000.0, 1e-300])
def test_constants_keep_every_digit(number):
    table = ibis.memtable({"x": [1]}, schema={"x": "int64"})
    assert table.select(y=double(number)).to_pyarrow()["y"][0].as_py() == number


def test_intervals_below_a_second_and_whole_ones_are_exact():
    instant = pd.Timestamp("2025-01-03", tz="UTC")
    lengths = {"1us": [False, True], "1s": [False, True]}
    for text, kept in lengths.items():
        length = timedelta(microseconds=1) if text == "1us" else timedelta(seconds=1)
        touched = pd.DataFrame(
            {
                "user_id": "u",
                "node_id": ["out", "in"],
                "date": [instant - length, instant - length / 2 if text == "1s" else instant],
            }
        )
        paths = Paths.from_frames(touched, CONVERSIONS, lookback=text)
        assert paths.to_pandas()["node_id"].tolist() == [
            node for node, each in zip(["out", "in"], kept, strict=True) if each
        ]
