"""Tables of engines that are not here, to write their SQL."""

from dataclasses import dataclass

import ibis.expr.operations as ops
import ibis.expr.schema as sch
import pytest


@dataclass(frozen=True)
class Engine:
    name: str


@pytest.fixture(scope="session")
def table_of_engine():
    """Return a table that says which engine it is in, and has no connection."""

    def make(engine, name, columns):
        return ops.DatabaseTable(name=name, schema=sch.Schema(columns), source=Engine(engine)).to_expr()

    return make
