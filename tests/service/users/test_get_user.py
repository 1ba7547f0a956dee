"""Reading one user, whole."""

from __future__ import annotations

import pytest
from support.service_records import hex_id, send

from attrib_ds import schema
from attrib_ds.errors import NotFound


def test_r255_a_user_is_complete(crowd):
    answer = send(crowd, "get_user", id=hex_id(1))
    assert answer.read().schema == schema.USER
    (record,) = answer.read().to_pylist()
    assert {name for name, value in record.items() if value is None} == {
        f"mostProbableLocation.{name}"
        for name in ("source", "confidence", "location.type", "location.coordinates")
    }
    assert (record["_id"], record["projectId"], record["eventCount"]) == (hex_id(1), "shop", 2)


def test_r255_an_unknown_id_is_not_found(crowd):
    with pytest.raises(NotFound, match="id: there is no user") as error:
        send(crowd, "get_user", id=hex_id(99))
    assert error.value.field == "id"


def test_g148_an_id_that_was_merged_away_answers_with_the_survivor(crowd):
    row = f"('{hex_id(70)}', '{hex_id(2)}', TIMESTAMP '2100-01-01', '{{}}')"
    crowd._store.write(lambda connection: connection.execute(f"INSERT INTO merged_users VALUES {row}"))
    try:
        (record,) = send(crowd, "get_user", id=hex_id(70)).read().to_pylist()
        assert record == send(crowd, "get_user", id=hex_id(2)).read().to_pylist()[0]
        assert (record["_id"], record["updatedAt"].year) == (hex_id(2), 2100)
        assert send(crowd, "search_users", fields=[], id_from=hex_id(70)).total == 0
    finally:
        crowd._store.write(lambda connection: connection.execute("DELETE FROM merged_users"))
