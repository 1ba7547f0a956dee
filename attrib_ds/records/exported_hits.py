"""Makes raw hits of the page views in another service's export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.numbered_rows import ROW, literal, quoted
from attrib_ds.records.sources import UNREADABLE, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from attrib_ds.records.export_tables import Export

_TABLE: Final = "page_views"


def create_page_views(
    connection: duckdb.DuckDBPyConnection,
    exports: Sequence[Export],
    columns: Mapping[str, str],
    *,
    where: str,
) -> tuple[Source, int]:
    """Copy page views of the table ``source_events`` into a new table; drop the tables of the exports.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection with the tables ``source_events`` and ``rejected``.
    exports : sequence of Export
        The exports that the events come from.
    columns : mapping of str to str
        SQL of each column of raw hits.
    where : str
        SQL for whether an event is a page view.

    Returns
    -------
    source : Source
        The raw hits. Rows are numbered across all exports; unreadable are those that are no events.
    skipped : int
        Number of events that are no page views.
    """
    number = _number(exports)
    selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    connection.execute(
        f"CREATE TABLE {_TABLE} AS SELECT {number} AS {quoted(ROW)}, {selected} FROM source_events "
        f"WHERE {where}"
    )
    ((skipped, rows),) = connection.execute(
        f"SELECT (SELECT count(*) FROM source_events) - count(*), count(*) FROM {_TABLE}"
    ).fetchall()
    unreadable = connection.execute(f"SELECT {number} AS row, reason FROM rejected ORDER BY row")
    rejected = unreadable.to_arrow_table().cast(UNREADABLE)
    described = connection.execute(f"DESCRIBE {_TABLE}").fetchall()
    types = {name: kind for name, kind, *_ in described if name != ROW}
    connection.execute("DROP TABLE source_events; DROP TABLE records; DROP TABLE rejected")
    place = exports[0].source.relation.rsplit(".", 1)[0]
    for export in exports:
        connection.execute(f"DROP TABLE {export.source.relation}")
    return Source(f"{place}.{_TABLE}", types, rows, rejected), skipped


def _number(exports: Sequence[Export]) -> str:
    """Return SQL for the position of an event's row among the rows of all exports."""
    first, branches = 0, []
    for export in exports:
        branches.append(f"WHEN {literal(export.name)} THEN {first}")
        first += export.source.rows + export.source.unreadable.num_rows
    return f"row + CASE file {' '.join(branches)} END"


def with_parameters(page: str, parameters: Mapping[str, str]) -> str:
    """Return SQL for a URL with the parameters that it does not have, of those that are not null.

    Parameters
    ----------
    page : str
        SQL for the URL.
    parameters : mapping of str to str
        SQL for the value of each parameter.

    Examples
    --------
    >>> import duckdb
    >>> page = with_parameters("'https://shop.example/?utm_source=a#top'",
    ...                        {"utm_source": "'b'", "utm_medium": "'e mail'", "gclid": "NULL"})
    >>> duckdb.sql(f"SELECT {page}").fetchone()[0]
    'https://shop.example/?utm_source=a&utm_medium=e%20mail#top'
    """
    added = " || ".join(
        f"CASE WHEN {value} IS NULL OR regexp_matches({page}, '(?i)[?&]{name}=') THEN '' "
        f"ELSE '&{name}=' || url_encode({value}) END"
        for name, value in parameters.items()
    )
    whole, anchor = f"regexp_extract({page}, '^[^#]*')", f"regexp_extract({page}, '#.*$')"
    query = f"CASE WHEN contains({whole}, '?') THEN {added} ELSE regexp_replace({added}, '^&', '?') END"
    return f"{whole} || {query} || {anchor}"
