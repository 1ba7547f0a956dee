"""Credits on engines on which the tests do not run: refused, or checked to add up to their conversions."""

import ibis
import pandas as pd
import pytest
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.expr import operations as ops
from support.engine_tables import MODELS, engine_tables

import attrib_ds as at
from attrib_ds import errors


class ZeroForNull(DuckDBCompiler):
    """The maximum of no values is 0, as in ClickHouse."""

    def visit_WindowFunction(self, op, *, func, **rest):
        found = super().visit_WindowFunction(op, func=func, **rest)
        return self.f.coalesce(found, 0) if isinstance(op.func, ops.Max) else found


class InnerJoins(DuckDBCompiler):
    """Conversions without touchpoints are lost."""

    def visit_JoinLink(self, op, *, how, table, predicates):
        return super().visit_JoinLink(
            op, how="inner" if how == "left" else how, table=table, predicates=predicates
        )


def engine_with_tables(*, name="unknown", compiler=None):
    """Return DuckDB under the name of an engine that nobody has compared."""
    backend = ibis.duckdb.connect()
    for each, table in engine_tables().items():
        backend.create_table(each, table)
    backend.name = name
    backend.compiler = backend.compiler if compiler is None else compiler
    return backend


def paths_of(backend, **settings):
    return at.Paths.from_frames(
        backend.table("touched"), backend.table("converted"), columns={"touch": "touch_id"}, **settings
    )


REFUSAL = (
    "tables: the results of unknown are not checked .*; checked: clickhouse, duckdb, postgres, pyspark; "
)


def test_engines_without_tests_are_refused():
    backend = engine_with_tables()
    for attempt in (
        lambda: paths_of(backend),
        lambda: at.open_tables(backend, interactions="interactions", events="events"),
    ):
        with pytest.raises(errors.NotSupported, match=REFUSAL):
            attempt()


@pytest.mark.slow
def test_an_unchecked_engine_with_right_results_is_accepted():
    duckdb = engine_with_tables(name="duckdb")
    found, expected = (
        at.attribute(paths_of(backend, unchecked=True), MODELS) for backend in (engine_with_tables(), duckdb)
    )
    pd.testing.assert_frame_equal(found, expected, rtol=1e-9)


@pytest.mark.slow
def test_an_unchecked_project_is_accepted():
    backend = engine_with_tables()
    shop = at.open_tables(backend, interactions="interactions", events="events", unchecked=True)
    paths = at.conversion_paths(shop, event_type="order", statistic="turnover", state="paid", reset="any")
    credits = at.attribute(paths, ["last_non_direct", "markov"], confidence=0.9)
    assert set(credits["model"]) == {"last_non_direct", "markov"}


def test_aggregated_paths_are_not_of_another_engine():
    rows = pd.DataFrame({"path": ["a > b"], "n": [2]})
    assert at.attribute(at.Paths.from_sequences(rows, path="path", conversions="n"), "linear").shape[0] == 2


def test_credits_that_do_not_add_up_are_refused():
    paths = paths_of(engine_with_tables(name="zero", compiler=ZeroForNull()), unchecked=True)
    at.attribute(paths, ["linear", "participation"])
    # All touchpoints of one conversion are direct.
    message = "on zero, the credits of last_non_direct add up to 82 of 83 conversions, so zero computes them"
    with pytest.raises(errors.NotSupported, match=message):
        at.attribute(paths, ["linear", "last_non_direct"])


@pytest.mark.parametrize("model", ["linear", "markov", "shapley"])
def test_conversions_that_the_engine_loses_are_missed(model):
    paths = paths_of(engine_with_tables(name="lossy", compiler=InnerJoins()), unchecked=True)
    # 23 conversions have no touchpoint.
    with pytest.raises(
        errors.NotSupported, match=f"on lossy, the credits of {model} add up to 60 of 83 conv"
    ):
        at.attribute(paths, model)
