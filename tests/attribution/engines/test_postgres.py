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


def test_text_is_compared_by_bytes():
    """The locale of a database may put "b" before "B"; numbers have none."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs psycopg; pip install 'attrib-ds[postgres]'")
    rows = ibis.table({"name": "string", "size": "int64"}, name="rows")
    name, size = rows["name"], rows["size"]
    compared = [rows.filter(each) for each in (name < "b", name <= "b", name > "b", name >= "b")]
    for query in [*compared, name.min(), name.max(), rows.order_by("name")]:
        assert _sql(query).count('("t0"."name") COLLATE "C"') == 1
    for query in [rows.filter(size < 3), size.max(), rows.order_by("size")]:
        assert "COLLATE" not in _sql(query)
    assert _sql(compared[1]).endswith("""COLLATE "C" <= 'b'""")
    assert _sql(name.max()).startswith("SELECT MAX(")


def _sql(query):
    from attrib_ds.attribution.engines.postgres import Postgres

    return Postgres.compiler.to_sqlglot(query).sql("postgres")
