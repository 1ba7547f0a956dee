"""What PostgreSQL alone does: temporary tables and privileges."""

import ibis
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds import errors

pytestmark = pytest.mark.postgres


def test_uploaded_tables_may_exist_already(postgres):
    chosen = ibis.memtable(pa.table({"node_id": ["Email", "direct"]}))
    touched = postgres.table("touched").join(chosen, "node_id")
    assert touched.count().to_pyarrow().as_py()
    credits = at.attribute(at.Paths.from_frames(touched, postgres.table("converted")), "linear")
    assert set(credits["node_id"].dropna()) == {"Email", "direct"}


def test_missing_tables_and_privileges_are_named(postgres, postgres_server):
    with pytest.raises(
        errors.InvalidRequest, match=r"events: there is no table 'event' \(did you mean 'events'\?\)"
    ):
        at.open_tables(postgres, interactions="interactions", events="event")
    with postgres.con.cursor() as cursor:
        cursor.execute("CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader")
        cursor.execute("REVOKE TEMPORARY ON DATABASE postgres FROM public")
    reader = ibis.postgres.connect(**postgres_server | {"user": "reader"})
    paths = at.Paths.from_frames(reader.table("touched"), reader.table("converted"))
    assert len(at.attribute(paths, "linear"))
    with pytest.raises(errors.NotSupported, match="temporary tables in database .*; .* grant TEMPORARY"):
        at.attribute(paths, "markov")
    reader.disconnect()
