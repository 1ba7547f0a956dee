"""Spark as an engine that gives and takes Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ibis.backends.pyspark import Backend
from ibis.backends.sql.compilers.pyspark import PySparkCompiler

if TYPE_CHECKING:
    import ibis.expr.operations as ops


class _Compiler(PySparkCompiler):  # type: ignore[misc]
    """The SQL of Ibis, but for what Spark has and it does not write."""

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        # Spark reads 0.1 as a decimal, whose quotients and squares it rounds.
        written = super().visit_NonNullLiteral(op, value=value, dtype=dtype)
        return self.cast(repr(value), dtype) if dtype.is_floating() else written

    def visit_BitOr(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: ARG002, N802
        return self.agg.bit_or(arg, where=where)


class Spark(Backend):  # type: ignore[misc]
    """The backend of Ibis, but for how tables cross the border: its own way goes through pandas below 3."""

    compiler = _Compiler()

    def to_pyarrow(self, expr: Any, /, *, params: Any = None, limit: Any = None, **kwargs: Any) -> Any:
        """Run a query and return its rows."""
        self._run_pre_execute_hooks(expr)
        table = expr.as_table()
        query = self.compile(table, params=params, limit=limit, **kwargs)
        rows = self.raw_sql(query).toArrow()
        return expr.__pyarrow_result__(rows.cast(table.schema().to_pyarrow()))

    def _create_cached_table(self, name: str, expr: Any) -> Any:
        # Ibis does not send the small tables beside a query whose rows it keeps.
        self._run_pre_execute_hooks(expr)
        return super()._create_cached_table(name, expr)

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        rows = op.data.to_pyarrow(op.schema)
        # A column without a value is text to Spark, but not a column that is nothing at all.
        kinds = [pa.string() if pa.types.is_null(each.type) else each.type for each in rows.schema]
        fields = zip(rows.schema.names, kinds, strict=True)
        self._session.createDataFrame(rows.cast(pa.schema(list(fields)))).createOrReplaceTempView(op.name)
