"""ClickHouse backend with the semantics of the other engines for nulls, numbers, instants and text.

Columns of ClickHouse are not nullable by default. A row without a match in a left join, an aggregate of no
values and ``lag`` in the first row are then 0 or empty text instead of null. The SQL itself makes such values
nullable, because users who may only read cannot change the settings that do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import Any, Final

import ibis
import pyarrow as pa
import sqlglot as sg
import sqlglot.expressions as sge
from clickhouse_connect.driver.external import ExternalData
from ibis.backends.clickhouse import Backend
from ibis.backends.sql.compilers.clickhouse import ClickhouseAggGen, ClickHouseCompiler
from ibis.backends.sql.datatypes import ClickHouseType
from ibis.expr import datatypes as dt
from ibis.expr import operations as ops

#: Aggregates that are null without a value on other engines.
_NULL_WHEN_EMPTY: Final = frozenset({"avg", "groupBitOr", "max", "min", "sum"})
#: Joins whose right-hand rows may be missing.
_OUTER: Final = frozenset({"any_left", "left", "outer"})
#: Digits of a second.
_RESOLUTION: Final = 6


def _instant(kind: dt.Timestamp) -> Any:
    return kind.copy(scale=_RESOLUTION, timezone="UTC")


class _Types(ClickHouseType):  # type: ignore[misc]
    """All timestamps as instants in UTC; in ClickHouse, the zone only changes how they are shown."""

    @classmethod
    def _from_sqlglot_DATETIME(cls, timezone: Any = None, nullable: bool | None = None) -> Any:  # noqa: N802
        return _instant(super()._from_sqlglot_DATETIME(timezone, nullable))

    @classmethod
    def _from_sqlglot_DATETIME64(  # noqa: N802
        cls, scale: Any = None, timezone: Any = None, nullable: bool | None = None
    ) -> Any:
        return _instant(super()._from_sqlglot_DATETIME64(scale, timezone, nullable))

    @classmethod
    def _from_ibis_Timestamp(cls, dtype: dt.Timestamp) -> Any:  # noqa: N802
        return super()._from_ibis_Timestamp(_instant(dtype))

    @classmethod
    def _from_ibis_Date(cls, dtype: dt.Date) -> sge.DataType:  # noqa: ARG003, N802
        return sge.DataType(this=sge.DataType.Type.DATE32)


class _Aggregates(ClickhouseAggGen):  # type: ignore[misc]
    """Aggregates that are null without a value."""

    def aggregate(self, compiler: Any, name: str, *args: Any, where: Any = None, order_by: Any = ()) -> Any:
        if name in _NULL_WHEN_EMPTY:
            args = (compiler.f.toNullable(args[0]), *args[1:])
        return super().aggregate(compiler, name, *args, where=where, order_by=order_by)


class _Compiler(ClickHouseCompiler):  # type: ignore[misc]
    """The SQL of Ibis, except where ClickHouse interprets it differently from other engines."""

    type_mapper = _Types
    agg = _Aggregates()

    # The functions that Ibis uses take text for bytes, and have no dates before 1970 and after 2149.
    SIMPLE_OPS = ClickHouseCompiler.SIMPLE_OPS | {
        ops.Date: "toDate32",
        ops.Lowercase: "lowerUTF8",
        ops.StrRight: "rightUTF8",
        ops.StringLength: "lengthUTF8",
        ops.Uppercase: "upperUTF8",
    }

    def cast(self, arg: Any, to: dt.DataType) -> Any:
        return super().cast(arg, to if to.is_nested() else to.copy(nullable=True))

    def visit_Cast(self, op: Any, *, arg: Any, to: Any) -> Any:  # noqa: N802
        if to.is_floating() and isinstance(op.arg, ops.Literal) and op.arg.value is not None:
            # Older versions lose the last digits of numbers in text.
            return self.cast(sge.convert(float(op.arg.value)), to)
        if to.is_decimal() and op.arg.dtype.is_floating():
            return self.cast(self._decimal(arg, to.scale), to)
        return super().visit_Cast(op, arg=arg, to=to)

    def _decimal(self, number: Any, scale: int) -> Any:
        # A cast would drop the digits beyond the scale.
        units = self.f.toInt128(self._rounded(self._add_parens(number) * sge.convert(10**scale)))
        return self.f.toDecimal128(units, 0) * self.f.toDecimal128(f"{10**-scale:.{scale}f}", scale)

    def visit_Round(self, op: Any, *, arg: Any, digits: Any) -> Any:  # noqa: N802
        is_whole = isinstance(op.digits, ops.Literal) and op.digits.value == 0
        if not (is_whole and op.arg.dtype.is_floating()):
            return super().visit_Round(op, arg=arg, digits=digits)
        return self.cast(self._rounded(self._add_parens(arg)), op.dtype)

    def _rounded(self, number: Any) -> Any:
        # ClickHouse rounds halves to even numbers.
        whole = self.f.trunc(number)
        half = self.f.abs(number - whole) >= sge.convert(0.5)
        return whole + self.if_(half, self.f.sign(number), sge.convert(0))

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        if dtype.is_timestamp():
            instant = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            text = instant.isoformat(sep=" ", timespec="microseconds")
            return self.f.toDateTime64(text, _RESOLUTION, "UTC")
        if dtype.is_interval() and dtype.unit.short == "us":
            return self.f.toIntervalMicrosecond(value)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    def visit_Max(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: ARG002, N802
        return self.agg.max(arg, where=where)

    def visit_Min(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: ARG002, N802
        return self.agg.min(arg, where=where)

    def visit_BitOr(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: ARG002, N802
        return self.agg.groupBitOr(arg, where=where)

    def visit_Substring(self, op: Any, *, arg: Any, start: Any, length: Any) -> Any:  # noqa: ARG002, N802
        return self.f.substringUTF8(arg, start + 1, *([] if length is None else [length]))

    def visit_LagLead(self, op: Any, *, arg: Any, offset: Any, default: Any) -> Any:  # noqa: N802
        return super().visit_LagLead(op, arg=self.f.toNullable(arg), offset=offset, default=default)

    visit_Lag = visit_Lead = visit_LagLead  # noqa: N815

    def visit_WindowFunction(self, op: Any, **parts: Any) -> Any:  # noqa: N802
        window = super().visit_WindowFunction(op, **parts)
        if isinstance(op.func, ops.RankBase | ops.RowNumber):
            # Ranks are wrong within a frame.
            window.set("spec", None)
        return self._signed(window, op)

    def visit_Aggregate(self, op: Any, *, parent: Any, groups: Any, metrics: Any) -> Any:  # noqa: N802
        signed = {name: self._signed(sql, op.metrics[name]) for name, sql in metrics.items()}
        return super().visit_Aggregate(op, parent=parent, groups=groups, metrics=signed)

    def _signed(self, sql: Any, value: Any) -> Any:
        # Counts and ranks are unsigned, and have no common type with signed numbers.
        return self.cast(sql, value.dtype) if value.dtype.is_integer() else sql

    def visit_DatabaseTable(self, op: Any, *, name: str, schema: Any, source: Any, namespace: Any) -> Any:  # noqa: N802
        table = super().visit_DatabaseTable(op, name=name, schema=schema, source=source, namespace=namespace)
        return self._selected(table, schema, self._read)

    def _read(self, sql: Any, kind: Any) -> Any:
        # Ibis reads enumerations as text, and knows one type of instants and of days.
        if kind.is_string() or kind.is_uuid() or kind.is_inet():
            return self.cast(sql, dt.string)
        is_time = kind.is_timestamp() or kind.is_date()
        return self.cast(sql, kind) if is_time else self.f.toNullable(sql)

    def visit_DropColumns(self, op: Any, *, parent: Any, columns_to_drop: Any) -> Any:  # noqa: ARG002, N802
        # A star over a table fails in a query with a column of the name of the table.
        name = sg.to_identifier(parent.alias_or_name, quoted=self.quoted)
        kept = {column: sg.column(column, table=name, quoted=self.quoted) for column in op.schema}
        return sg.select(*self._cleanup_names(kept), copy=False).from_(parent, copy=False)

    def visit_JoinLink(self, op: Any, *, how: str, table: Any, predicates: Any) -> Any:  # noqa: N802
        if how in _OUTER:
            table = self._selected(table, op.table.schema, lambda sql, _: self.f.toNullable(sql))
        return super().visit_JoinLink(op, how=how, table=table, predicates=predicates)

    def _selected(self, table: Any, schema: Any, changed: Callable[[Any, Any], Any]) -> Any:
        """Return a subquery of a table with its columns changed, except lists and the like."""
        name = sg.to_identifier(table.alias_or_name, quoted=self.quoted)
        columns = {}
        for column, kind in schema.items():
            sql = sg.column(column, table=name, quoted=self.quoted)
            columns[column] = sql if kind.is_nested() else changed(sql, kind)
        return sg.select(*self._cleanup_names(columns)).from_(table).subquery(name)


class ClickHouse(Backend):  # type: ignore[misc]
    """The Ibis backend with its own SQL compiler and Arrow for results."""

    compiler = _Compiler()

    def get_schema(self, table_name: str, **where: Any) -> Any:
        """Return the columns of a table, nullable as the SQL reads them."""
        schema = super().get_schema(table_name, **where)
        return ibis.schema({name: kind.copy(nullable=True) for name, kind in schema.items()})

    def to_pyarrow(self, expr: Any, /, *, params: Any = None, limit: Any = None, **kwargs: Any) -> Any:  # noqa: ARG002
        """Run a query and return its rows."""
        table = expr.as_table()
        sql = self.compile(table, params=params, limit=limit)
        rows = self.con.query_arrow(sql, external_data=self._uploads(expr))
        return expr.__pyarrow_result__(_cast(rows, table.schema().to_pyarrow()))

    def to_pyarrow_batches(
        self,
        expr: Any,
        /,
        *,
        params: Any = None,
        limit: Any = None,
        chunk_size: int = 1 << 18,
        **kwargs: Any,  # noqa: ARG002
    ) -> pa.RecordBatchReader:
        """Run a query and return its rows in batches."""
        table = expr.as_table()
        sql = self.compile(table, params=params, limit=limit)
        schema = table.schema().to_pyarrow()

        def batches() -> Iterator[pa.RecordBatch]:
            with self.con.query_arrow_stream(sql, external_data=self._uploads(expr)) as blocks:
                for block in blocks:
                    yield from _cast(block, schema).to_batches(chunk_size)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _uploads(self, expr: Any) -> ExternalData | None:
        return self._normalize_external_tables(self._collect_in_memory_tables(expr))

    def _normalize_external_tables(
        self, external_tables: Mapping[str, Any] | None = None
    ) -> ExternalData | None:
        uploads = ExternalData()
        for name, table in (external_tables or {}).items():
            # Other engines read a column without values as text.
            schema = {column: dt.string if kind.is_null() else kind for column, kind in table.schema.items()}
            structure = [f"{self._quoted(column)} {self._type(kind)}" for column, kind in schema.items()]
            rows = table.data.to_pyarrow_bytes(ibis.schema(schema))
            uploads.add_file(file_name=name, data=rows, structure=structure, fmt="Arrow")
        return uploads if uploads.files else None

    def _quoted(self, name: str) -> str:
        return sg.to_identifier(name, quoted=True).sql(self.dialect)

    def _type(self, kind: dt.DataType) -> str:
        return str(self.compiler.type_mapper.to_string(kind.copy(nullable=not kind.is_nested())))


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows to a schema; instants of ClickHouse have a zone."""
    columns = []
    for column, field in zip(rows.columns, schema, strict=True):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            column = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        is_empty = pa.types.is_null(field.type)
        columns.append(pa.nulls(len(column)) if is_empty else column.cast(field.type))
    return pa.table(columns, schema=schema)
