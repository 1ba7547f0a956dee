"""PostgreSQL backend with the semantics of the other engines for numbers, text order and small tables."""

from __future__ import annotations

from typing import Any, Final

import ibis.expr.operations as ops
import psycopg
import sqlglot as sg
import sqlglot.expressions as sge
from ibis.backends.postgres import Backend
from ibis.backends.sql.compilers.postgres import PostgresCompiler
from ibis.expr import datatypes as dt

from attrib_ds.errors import NotSupported

#: Powers of exponents below are negligible beside 1, and so are their squares.
_LEAST_EXPONENT: Final = -340


class _Compiler(PostgresCompiler):  # type: ignore[misc]
    """The SQL of Ibis, except where PostgreSQL interprets it differently from other engines."""

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        # PostgreSQL reads 0.1 as a decimal, which is slow and not returned as a double.
        literal = super().visit_NonNullLiteral(op, value=value, dtype=dtype)
        return self.cast(repr(float(value)), dtype) if dtype.is_floating() else literal

    def visit_Cast(self, op: Any, *, arg: Any, to: Any) -> Any:  # noqa: N802
        # Booleans can only be cast to 32-bit integers.
        is_flag = op.arg.dtype.is_boolean() and to.is_numeric() and not to.is_int32()
        return super().visit_Cast(op, arg=self.cast(arg, dt.int32) if is_flag else arg, to=to)

    def visit_Exp(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        # PostgreSQL raises an error on underflow instead of returning 0.
        power = self.cast(arg, op.dtype)
        return self.if_(power < _LEAST_EXPONENT, self.cast(sge.convert("0"), op.dtype), self.f.exp(power))

    def visit_SortKey(self, op: Any, *, arg: Any, ascending: bool, nulls_first: bool) -> Any:  # noqa: N802
        return super().visit_SortKey(
            op, arg=_by_bytes(op.arg, arg), ascending=ascending, nulls_first=nulls_first
        )

    def _extremum(self, op: Any, *, arg: Any, where: Any) -> Any:
        return getattr(super(), f"visit_{type(op).__name__}")(op, arg=_by_bytes(op.arg, arg), where=where)

    def _comparison(self, op: Any, *, left: Any, right: Any) -> Any:
        return self.binop(self.BINARY_INFIX_OPS[type(op)], _by_bytes(op.left, left), right)

    visit_Min = visit_Max = _extremum  # noqa: N815
    visit_Less = visit_LessEqual = visit_Greater = visit_GreaterEqual = _comparison  # noqa: N815


def _by_bytes(value: Any, sql: Any) -> Any:
    """Collate text by bytes, as other engines do, instead of by the locale of the database."""
    if not value.dtype.is_string():
        return sql
    return sge.Collate(this=sge.paren(sql, copy=False), expression=sg.to_identifier("C", quoted=True))


class Postgres(Backend):  # type: ignore[misc]
    """The Ibis backend with its own SQL compiler and upload of small tables."""

    compiler = _Compiler()

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        table = self._quoted(op.name)
        columns = ", ".join(f"{self._quoted(name)} {self._type(kind)}" for name, kind in op.schema.items())
        with self.con.cursor() as cursor, self.con.transaction():
            # Another backend of the same session may have created it.
            if cursor.execute("SELECT to_regclass(%s)", [f"pg_temp.{table}"]).fetchone() != (None,):
                return
            try:
                cursor.execute(f"CREATE TEMPORARY TABLE {table} ({columns})")
            except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
                raise NotSupported(
                    f"tables: {error.diag.message_primary}; attribution needs a temporary table of nodes; "
                    "grant TEMPORARY on the database, and use a server that is not read-only"
                ) from error
            with cursor.copy(f"COPY {table} FROM STDIN") as lines:
                for batch in op.data.to_pyarrow(op.schema).to_batches():
                    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        lines.write_row(row)
            # Without statistics, joins with it are planned badly.
            cursor.execute(f"ANALYZE {table}")

    def _quoted(self, name: str) -> str:
        return sg.to_identifier(name, quoted=True).sql(self.dialect)

    def _type(self, kind: dt.DataType) -> str:
        # Other engines read a column without values as text.
        return str(self.compiler.type_mapper.to_string(dt.string if kind.is_null() else kind))
