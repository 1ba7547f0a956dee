"""Keeps the secret with which visitors without a tracker are recognised again."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Final

from attrib_ds.contract.json_values import encode

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.service.store.store import Store

_SETTING: Final = "visitorSecret"
_BYTES: Final = 32


def visitor_secret(store: Store) -> str:
    """Return the secret of the project, created when it is first asked for.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> visitor_secret(store) == visitor_secret(store)
    True
    >>> store.close()
    """

    def write(connection: duckdb.DuckDBPyConnection) -> str:
        row = connection.execute("SELECT value FROM settings WHERE name = ?", [_SETTING]).fetchone()
        if row is not None:
            return str(json.loads(row[0]))
        secret = secrets.token_hex(_BYTES)
        connection.execute("INSERT INTO settings VALUES (?, ?)", [_SETTING, encode(secret)])
        return secret

    return store.write(write)
