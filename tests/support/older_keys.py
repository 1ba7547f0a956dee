"""Keys of a server that time has passed for, so that no test waits until one expires."""

import sqlite3
from contextlib import closing

from attrib_ds.service.accounts.accounts import FILE


def grow_older(home, key_id, *, by):
    """Bring the end of a key and of its tokens nearer by a timedelta."""
    with closing(sqlite3.connect(home / FILE)) as connection, connection:
        for table in ("keys", "tokens"):
            connection.execute(
                f"UPDATE {table} SET expires_at = expires_at - ? WHERE key_id = ?",
                (by.total_seconds(), key_id),
            )
