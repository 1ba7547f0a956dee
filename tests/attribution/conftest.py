"""Tables of engines that are not installed, to compile their SQL."""

from dataclasses import dataclass

import ibis.expr.operations as ops
import ibis.expr.schema as sch
import pytest


@dataclass(frozen=True)
class Engine:
    name: str


@pytest.fixture(scope="session")
def table_of_engine():
    """Return a table of a named engine without a connection."""

    def make(engine, name, columns):
        return ops.DatabaseTable(name=name, schema=sch.Schema(columns), source=Engine(engine)).to_expr()

    return make
