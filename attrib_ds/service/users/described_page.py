"""Describes the users of a page by a query that is compiled once for all pages like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.service.users.derived import described
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.service.store import Store

#: The table of the connection that holds the users of a page.
PAGE: Final = "users_of_page"
_DESCRIBED: Final = "described_users"


def described_page(store: Store, backend: Backend, keys: Iterable[str], mode: str = "latest") -> ir.Table:
    """Return what :func:`described` returns of the users in the table :data:`PAGE`.

    Parameters
    ----------
    store : Store
        Remembers the query.
    backend : ibis.backends.duckdb.Backend
        From its :meth:`~Store.read`, with that table.
    keys, mode
        As for :func:`described`.

    Returns
    -------
    ibis.Table
        One row per user, in no order; a view of the connection.
    """
    wanted = tuple(keys)
    audiences = ()
    if "audienceIds" in wanted:
        audiences = tuple(backend.con.execute("SELECT _id, condition FROM audiences ORDER BY _id").fetchall())
    question = (wanted, mode, Vocabulary(backend.con).declarations, audiences)
    query = store.compiled.get(
        question, lambda: str(backend.compile(described(backend, backend.table(PAGE), wanted, mode)))
    )
    backend.con.execute(f"CREATE OR REPLACE TEMP VIEW {_DESCRIBED} AS {query}")
    return backend.table(_DESCRIBED)
