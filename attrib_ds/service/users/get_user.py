"""Reads one user with all properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import NotFound
from attrib_ds.service.identity.merging import find_survivor
from attrib_ds.service.store.table_access import read_table
from attrib_ds.service.users.described_page import PAGE, described_page

if TYPE_CHECKING:
    from attrib_ds.contract.users import GetUser
    from attrib_ds.service.store.store import Store


def get_user(store: Store, request: GetUser) -> Answer:
    """Return one user with all properties; the id of a merged user means the survivor (G-148)."""
    with store.read() as backend:
        survivor = find_survivor(backend.con, request.id)
        backend.con.execute(f"CREATE TEMP TABLE {PAGE} AS SELECT _id FROM users WHERE _id = ?", [survivor])
        query = described_page(store, backend, schema.USER.names)
        table = read_table(backend.con, f"({query})", [], schema.USER)
    if not table.num_rows:
        raise NotFound(f"id: there is no user {request.id!r}", field="id")
    return Answer.of(table)
