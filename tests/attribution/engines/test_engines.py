"""Engines: DuckDB with bounded memory, external tables, and the SQL of engines that are not installed."""

import hashlib
import math
from datetime import timedelta
from random import Random

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from support.law_examples import examples

import attrib_ds as at
from attrib_ds import Paths, attribute, errors
from attrib_ds.attribution import conversion_rates, markov
from attrib_ds.attribution.engines.engine import (
    PRIME,
    double,
    engine,
    engine_of,
    group_of,
    joined_in_order,
    number_of,
    total,
)
from attrib_ds.attribution.models import model_named, rule_models
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


@pytest.mark.large
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
    # A frame of midnights would be days.
    bought = CONVERSIONS.assign(date=CONVERSIONS["date"] + pd.Timedelta("1h"))
    lent = (
        backend.create_table("touched", arrow(TOUCHPOINTS)),
        backend.create_table("bought", arrow(bought)),
    )
    paths = Paths.from_frames(lent[0].filter(lent[0].user_id != "w"), lent[1])
    assert paths.touches.get_backend().con is backend.con
    pd.testing.assert_frame_equal(paths.to_pandas(), Paths.from_frames(TOUCHPOINTS, bought).to_pandas())
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


@pytest.mark.large
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
        # Two conversions at midnight would be days.
        bought = CONVERSIONS.assign(date=CONVERSIONS["date"] + pd.Timedelta("1h"))
        paths = Paths.from_frames(
            touched.assign(date=touched["date"] + pd.Timedelta("1h")), bought, lookback=text
        )
        assert paths.to_pandas()["node_id"].tolist() == [
            node for node, each in zip(["out", "in"], kept, strict=True) if each
        ]


# Pseudo-random numbers of users: known values, and uniformity.

TEXTS = [f"user-{number}" for number in range(20_000)]


def column(values, **columns):
    table = ibis.memtable(pa.table({"text": pa.array(values, pa.string())})).mutate(
        ibis.row_number().name("row")
    )
    made = table.mutate(**{name: of(table.text) for name, of in columns.items()})
    return {name: made.order_by("row").to_pyarrow()[name].to_numpy() for name in columns}


@pytest.fixture(scope="module")
def numbers():
    return column(TEXTS, number=number_of)["number"]


def digits(text):
    return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)


@pytest.mark.parametrize("groups", [1, 2, 7, 20])
def test_numbers_and_groups_are_those_of_md5(groups):
    texts = ["", "a", "ünï'\"; DROP", "1", "x" * 500, *TEXTS[:200]]
    found = column(texts, number=number_of, group=lambda text: group_of(text, groups))
    assert found["number"].tolist() == [digits(text) % PRIME for text in texts]
    bounds = [2**32 * group // groups for group in range(1, groups)]
    assert found["group"].tolist() == [sum(digits(text) >= bound for bound in bounds) for text in texts]


def test_a_missing_text_is_in_the_first_group_and_has_no_number():
    found = ibis.memtable(pa.table({"text": pa.array([None], pa.string())}))
    row = found.select(number=number_of(found.text), group=group_of(found.text, 20)).to_pyarrow().to_pylist()
    assert row == [{"number": None, "group": 0}]


def test_groups_and_numbers_are_uniform(numbers):
    groups = column(TEXTS, group=lambda text: group_of(text, 20))["group"]
    assert stats.chisquare(np.bincount(groups, minlength=20)).pvalue > 1e-4
    assert stats.kstest(numbers / PRIME, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(
    ("engine", "digest"),
    [
        ("duckdb", 'MD5("t0"."text")'),
        ("snowflake", 'MD5("t0"."text")'),
        ("postgres", 'MD5("t0"."text")'),
        ("bigquery", "TO_HEX(MD5(`t0`.`text`))"),
        ("clickhouse", 'LOWER(HEX(MD5("t0"."text")))'),
        ("trino", 'LOWER(TO_HEX(MD5(TO_UTF8("t0"."text"))))'),
    ],
)
def test_the_digest_is_hexadecimal_on_every_engine(engine, digest, table_of_engine):
    table = table_of_engine(engine, "users", {"text": "string"})
    assert digest in ibis.to_sql(table.select(group=group_of(table.text, 2)), dialect=engine)


# Reproducible sums, against the exact ones of ``math.fsum``.

amounts = st.lists(st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False), min_size=1, max_size=50)


@pytest.fixture(scope="module")
def backend():
    return engine("1GB")


def summed(backend, values):
    table = backend.create_table("amounts", pa.table({"x": values}), overwrite=True)
    return table.agg(sum=total(table.x)).to_pyarrow()["sum"][0].as_py()


@settings(max_examples=examples(60))
@given(values=amounts, random=st.randoms())
@example([131073.0, 393216.0, 294916.0, 0.55, -806916.0], Random(0))
def test_sums_are_exact_and_rounded_once_in_any_order(backend, values, random):
    shuffled = random.sample(values, len(values))
    found = summed(backend, values)
    assert found == summed(backend, shuffled)
    # Where amounts cancel, what is left on the finer grids may be larger than the sum: at most 2**17 an amount, with
    # 53 binary digits.
    cancelled = min(len(values) * 2.0**17, math.fsum(map(abs, values))) * 2.0**-53
    assert found == pytest.approx(math.fsum(values), rel=2**-50, abs=cancelled + 2.0**-80)


# The squares of a million orders in yen have a sum beyond 2**60.
@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e5, 1e12])
def test_millions_of_parts_have_the_exact_sum(backend, scale):
    values = np.random.default_rng(5).gamma(0.7, scale / 3, 1_000_000)
    assert summed(backend, values) == math.fsum(values)
    assert summed(backend, values[::-1]) == math.fsum(values)


def test_amounts_beyond_the_grids_are_summed_as_doubles(backend):
    assert summed(backend, [1e300, 1.0, -1e300, 3e15, 0.25]) == pytest.approx(3e15, rel=1e-12)
    assert summed(backend, [4e14, 0.125, 7e-20]) == pytest.approx(4e14 + 0.125, rel=1e-15)


def test_missing_amounts_are_left_out_and_no_amounts_have_no_sum(backend):
    assert summed(backend, pa.array([None, 0.1, 0.2])) == math.fsum([0.1, 0.2])
    assert summed(backend, pa.array([None, None], pa.float64())) is None


def test_a_window_has_the_exact_sum_too(backend):
    table = backend.create_table(
        "amounts", pa.table({"of": ["a", "a", "b", "a"], "x": [0.1, 0.2, 5.0, 0.3]}), overwrite=True
    )
    rows = table.mutate(sum=total(table.x, over=ibis.window(group_by=table["of"]))).order_by("x")
    assert rows.to_pyarrow()["sum"].to_pylist() == [math.fsum([0.1, 0.2, 0.3])] * 3 + [5.0]


# Credits


def large(seed):
    """Return enough rows for engines to add them in parallel."""
    random = np.random.default_rng(seed)
    users, rows = 40_000, 260_000
    touchpoints = pa.table(
        {
            "user_id": random.integers(0, users, rows),
            "node_id": np.array(list("abcdefg"))[random.integers(0, 7, rows)],
            "date": np.datetime64("2025-03-01", "us")
            + random.integers(0, 25 * 86_400_000_000, rows).astype("m8[us]"),
        }
    )
    conversions = pa.table(
        {
            "event_id": np.arange(users // 8),
            "user_id": random.permutation(users)[: users // 8],
            "date": np.full(users // 8, np.datetime64("2025-03-27", "us")),
            "value": random.gamma(2.0, 17.123, users // 8),
        }
    )
    return touchpoints, conversions


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "asked"),
    [
        (["linear", "time_decay", "position_based", "shapley"], {"confidence": 0.9}),
        (["last_touch", "markov", "markov_2", "conversion_rate_shapley", "fractribution"], {}),
        (["markov"], {"confidence": 0.9}),
        (["linear", "markov"], {"confidence": 0.9, "intervals": "bootstrap", "replicates": 10}),
    ],
)
def test_the_same_data_in_another_order_give_the_same_bytes(models, asked):
    touchpoints, conversions = large(seed=3)
    shuffled = [
        each.take(np.random.default_rng(4).permutation(len(each))) for each in (touchpoints, conversions)
    ]
    once, again = (
        attribute(Paths.from_frames(*tables), models, **asked)
        for tables in ((touchpoints, conversions), shuffled)
    )
    pd.testing.assert_frame_equal(once, again, check_exact=True)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"intervals": "bootstrap", "replicates": 10}])
def test_aggregated_paths_in_another_order_give_the_same_bytes(options):
    random = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "path": [" > ".join(random.choice(list("abcd"), random.integers(1, 5))) for _ in range(60)],
            "n": random.integers(1, 20, 60),
            "value": random.lognormal(3.0, 1.0, 60).round(2),
            "nulls": random.integers(0, 50, 60),
        }
    )
    once, again = (
        attribute(
            Paths.from_sequences(rows, path="path", conversions="n", value="value", nulls="nulls"),
            ["linear", "last_touch", "markov", "fractribution"],
            confidence=0.9,
            **options,
        )
        for rows in (frame, frame.sample(frac=1.0, random_state=1))
    )
    pd.testing.assert_frame_equal(once, again, check_exact=True)
