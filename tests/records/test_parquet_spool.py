"""Tables written one after the other into one Parquet file."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.written_files import ParquetSpool
from attrib_ds.schema import EVENT, is_json

COLUMNS = pa.schema([("_id", pa.string()), ("n", pa.int64())])


def table(*numbers):
    return pa.table({"_id": [f"row {number}" for number in numbers], "n": numbers}, schema=COLUMNS)


def test_rows_come_in_the_order_of_the_tables(tmp_path):
    with ParquetSpool(tmp_path / "rows.parquet", COLUMNS) as spool:
        for tables in (table(1, 2), table(), table(3)):
            spool.append(tables)
        assert spool.rows == 3
    written = parquet.read_table(tmp_path / "rows.parquet")
    assert written.schema == COLUMNS
    assert written.to_pydict() == {"_id": ["row 1", "row 2", "row 3"], "n": [1, 2, 3]}
    assert parquet.ParquetFile(tmp_path / "rows.parquet").num_row_groups == 1


@pytest.mark.parametrize("tables", [[], [EVENT.empty_table()]])
def test_no_rows_have_all_columns(tmp_path, tables):
    with ParquetSpool(tmp_path / "none.parquet", EVENT) as spool:
        for item in tables:
            spool.append(item)
    schema = parquet.read_schema(tmp_path / "none.parquet")
    assert schema.equals(EVENT)
    assert [field.name for field in schema if is_json(field)] == ["event", "user", "metrics"]


def test_many_rows_are_written_in_groups_while_they_come(tmp_path):
    wide = pa.table({"_id": ["x" * 1_000] * 20_000, "n": range(20_000)}, schema=COLUMNS)
    with ParquetSpool(tmp_path / "rows.parquet", COLUMNS) as spool:
        for _ in range(4):
            spool.append(wide)
        (part,) = tmp_path.glob(".rows.parquet.*.part")
        assert part.stat().st_size > 0
    written = parquet.ParquetFile(tmp_path / "rows.parquet")
    assert (written.num_row_groups, written.metadata.num_rows) == (2, 80_000)


def test_the_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "rows.parquet"
    with ParquetSpool(path, COLUMNS) as spool:
        spool.append(table(1))
        assert not path.exists()
    assert [item.name for item in tmp_path.iterdir()] == ["rows.parquet"]
    with ParquetSpool(str(path), COLUMNS) as spool:
        spool.append(table(2))
        assert parquet.read_table(path)["n"].to_pylist() == [1]
    assert parquet.read_table(path)["n"].to_pylist() == [2]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_what_broke_off(tmp_path, failure):
    path = tmp_path / "rows.parquet"
    with ParquetSpool(path, COLUMNS) as spool:
        spool.append(table(1))
    with pytest.raises(failure), ParquetSpool(path, COLUMNS) as spool:
        spool.append(table(2))
        raise failure
    assert [item.name for item in tmp_path.iterdir()] == ["rows.parquet"]
    assert parquet.read_table(path)["n"].to_pylist() == [1]


def test_a_table_of_other_columns_is_refused_and_leaves_nothing(tmp_path):
    with (
        pytest.raises((ValueError, pa.ArrowException)),
        ParquetSpool(tmp_path / "rows.parquet", COLUMNS) as spool,
    ):
        spool.append(table(1))
        spool.append(pa.table({"_id": ["a"]}))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_is_refused_at_once(tmp_path):
    with pytest.raises(InvalidRequest, match="does not exist"):
        ParquetSpool(tmp_path / "none" / "rows.parquet", COLUMNS)
    with pytest.raises(InvalidRequest, match="is a folder"):
        ParquetSpool(tmp_path, COLUMNS)
