"""Answers that are written to disk when it is full: a documented error, and no file is left."""

import pyarrow as pa
import pytest
from support.limited_files import full_disk
from support.scripted_service import Reply
from transports.http.test_hostile_service import ID, arrow

import attrib_ds as at
from attrib_ds.errors import Unavailable

MANY = [f"{number:024x}" for number in range(20_000)]


def many(total=None):
    metadata = {"total": str(len(MANY))} if total is None else {}
    starts = pa.array([0] * len(MANY), pa.timestamp("us", "UTC"))
    return arrow(pa.table({"_id": MANY, "startDate": starts}).replace_schema_metadata(metadata))


def test_a_spool_of_records(open_shop, service):
    # The first answer shows that the service offers Arrow; the second goes to disk.
    service.script = [arrow(pa.table({"_id": [ID]}).replace_schema_metadata({"total": "1"})), many()]
    shop = open_shop()
    at.search_interactions(shop, limit=1)
    with (
        full_disk(room=10_000),
        pytest.raises(Unavailable, match="temporary folder .* cannot be written") as caught,
    ):
        at.search_interactions(shop)
    assert "TMPDIR" in str(caught.value)
    # Once, since the disk stays full.
    assert len(service.asked) == 2


def test_a_file_of_users(open_shop, service, tmp_path):
    service.script = [Reply(body=b"_id\n" * 100_000, media="text/csv")]
    shop = open_shop()
    with full_disk(room=10_000), pytest.raises(Unavailable, match="temporary folder .* cannot be written"):
        at.export_users(shop, tmp_path / "users.csv", columns=["_id"])
    assert list(tmp_path.iterdir()) == []
    assert len(service.asked) == 1


@pytest.mark.parametrize("room", [0, 10_000])
def test_a_parquet_file(open_shop, service, tmp_path, room):
    service.script = [arrow(pa.table({"_id": [ID]}).replace_schema_metadata({"total": "1"})), many()]
    shop = open_shop(page=len(MANY))
    at.search_interactions(shop, limit=1)
    with full_disk(room=room), pytest.raises(Unavailable, match="cannot be written"):
        at.export_interactions(shop, tmp_path / "visits.parquet", limit=len(MANY))
    assert list(tmp_path.iterdir()) == []
