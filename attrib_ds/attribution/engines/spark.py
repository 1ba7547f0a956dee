"""Spark backend that exchanges Arrow tables."""

from __future__ import annotations

from typing import Any

import ibis.expr.operations as ops
import pyarrow as pa
from ibis.backends.pyspark import Backend
from ibis.backends.sql.compilers.pyspark import PySparkCompiler


class _Compiler(PySparkCompiler):  # type: ignore[misc]
    """The SQL of Ibis, with double literals and the bitwise aggregate of Spark."""

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        # Spark reads 0.1 as a decimal, and rounds its quotients and squares.
        literal = super().visit_NonNullLiteral(op, value=value, dtype=dtype)
        return self.cast(repr(value), dtype) if dtype.is_floating() else literal

    def visit_BitOr(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: ARG002, N802
        return self.agg.bit_or(arg, where=where)


class Spark(Backend):  # type: ignore[misc]
    """The Ibis backend with Arrow instead of pandas for input and output; it requires pandas below 3."""

    compiler = _Compiler()

    def to_pyarrow(self, expr: Any, /, *, params: Any = None, limit: Any = None, **kwargs: Any) -> Any:
        """Run a query and return its rows."""
        self._run_pre_execute_hooks(expr)
        table = expr.as_table()
        query = self.compile(table, params=params, limit=limit, **kwargs)
        rows = self.raw_sql(query).toArrow()
        return expr.__pyarrow_result__(rows.cast(table.schema().to_pyarrow()))

    def _create_cached_table(self, name: str, expr: Any) -> Any:
        # Ibis does not upload the in-memory tables of a query that it caches.
        self._run_pre_execute_hooks(expr)
        return super()._create_cached_table(name, expr)

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        rows = op.data.to_pyarrow(op.schema)
        # Spark has no null type; columns without values are sent as text.
        kinds = [pa.string() if pa.types.is_null(column.type) else column.type for column in rows.schema]
        fields = zip(rows.schema.names, kinds, strict=True)
        self._session.createDataFrame(rows.cast(pa.schema(list(fields)))).createOrReplaceTempView(op.name)
