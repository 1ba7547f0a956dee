"""The generator and the shipped files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_data.generate import generate, write

from attrib_ds import schema
from attrib_ds.sample import files

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = {
    "nodes": schema.NODE,
    "interactions": schema.INTERACTION,
    "hits": schema.HIT,
    "events": schema.EVENT,
    "spend": schema.OUTLAY,
}
OPEN = ("states.", "statistics.", "event.", "user.")  # flat columns of the properties of events
EXCLUDED = {"projectId", "path", "userLifetimeIndex", "attributable"}  # set or derived by the store


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return generate()


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMAS)
def test_shipped_files_are_up_to_date(name: str, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    write({name: tables[name]}, tmp_path)
    assert pq.read_table(tmp_path / f"{name}.parquet").equals(pq.read_table(files()[name]))


def test_another_seed_gives_other_data(tables: dict[str, pa.Table]) -> None:
    other = generate(seed=7)
    assert not other["interactions"].equals(tables["interactions"])
    assert {name: table.schema for name, table in other.items()} == {
        name: table.schema for name, table in tables.items()
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_columns_are_those_of_the_schema(name: str) -> None:
    shipped = pq.read_schema(files()[name])
    schema_of_resource = SCHEMAS[name]
    own = [column for column in shipped.names if not (name == "events" and column.startswith(OPEN))]
    assert own == [column for column in schema_of_resource.names if column in own]
    assert [shipped.field(column).type for column in own] == [
        schema_of_resource.field(column).type for column in own
    ]
    assert not EXCLUDED & set(shipped.names)


def test_events_have_a_column_per_state_statistic_and_field() -> None:
    shipped = pq.read_schema(files()["events"])
    states = {f"states.{key}{suffix}" for key in ("confirmed", "refunded", "qualified", "converted")
              for suffix in ("", ".date")}  # fmt: skip
    statistics = {"statistics.turnover.amount", "statistics.turnover.currency", "statistics.items"}
    assert {column for column in shipped.names if column.startswith(OPEN)} == (
        states | statistics | {"event.orderNumber", "user.email"}
    )


def test_files_are_small() -> None:
    assert sum(path.stat().st_size for path in files().values()) <= 1_200_000
    assert pq.read_metadata(files()["hits"]).num_rows <= 25_000


def test_files_are_compressed_with_zstd() -> None:
    for path in files().values():
        assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
