"""Brings the tables of an older file to the present version, one step per version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.service.store.tables import VERSION

if TYPE_CHECKING:
    import duckdb

#: The statements that lead from a version to the next one. They name tables as they were then, so that they
#: stay true when the tables change again.
_STEPS: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "ALTER TABLE event_types ADD COLUMN retentionDurationInDays BIGINT",
        "ALTER TABLE event_types ADD COLUMN piiFields VARCHAR[]",
        "CREATE TABLE users (_id VARCHAR, createdAt TIMESTAMP)",
        "CREATE TABLE merged_users (_id VARCHAR, userId VARCHAR, mergedAt TIMESTAMP, undo VARCHAR)",
        "CREATE TABLE audiences (_id VARCHAR, projectId VARCHAR, name VARCHAR, condition VARCHAR, "
        "createdAt TIMESTAMP, updatedAt TIMESTAMP)",
        "CREATE TABLE settings (name VARCHAR, value VARCHAR)",
        "CREATE TABLE rates (currency VARCHAR, date TIMESTAMP, rate DOUBLE)",
        "CREATE TABLE audit (_id VARCHAR, date TIMESTAMP, account VARCHAR, operation VARCHAR, "
        "subject VARCHAR, details VARCHAR)",
        "CREATE TABLE tombstones (kind VARCHAR, hash VARCHAR, date TIMESTAMP)",
        "INSERT INTO users SELECT userId, min(seen) FROM ("
        "SELECT userId, createdAt AS seen FROM events UNION ALL "
        "SELECT userId, coalesce(ingestedAt, startDate) FROM interactions"
        ") WHERE userId IS NOT NULL GROUP BY userId",
        # Whose identities are that loaded records carry was asked when somebody came with one.
        "INSERT INTO identities SELECT kind, value, arg_min(userId, (seen, id)) FROM ("
        "SELECT 'email' AS kind, lower(trim(json_extract_string(userData, '$.email'))) AS value, userId, "
        "startDate AS seen, _id AS id FROM interactions "
        "UNION ALL SELECT 'vendorUserId', trim(json_extract_string(userData, '$.vendorUserId')), userId, "
        "startDate, _id FROM interactions "
        "UNION ALL SELECT 'email', lower(trim(json_extract_string(\"user\", '$.email.current'))), userId, "
        "eventDate, _id FROM events "
        "UNION ALL SELECT 'vendorUserId', trim(json_extract_string(\"user\", '$.vendorUserId.current')), "
        "userId, eventDate, _id FROM events"
        ") AS carried ANTI JOIN identities USING (kind, value) WHERE value <> '' AND userId IS NOT NULL "
        "GROUP BY kind, value ORDER BY kind, value",
    ),
}


def migrate(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    """Bring the tables of a file to the present version, in one transaction.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Outside a transaction.
    version : int
        Of the file; smaller than the present one.
    """
    connection.begin()
    try:
        for step in range(version, VERSION):
            for statement in _STEPS[step]:
                connection.execute(statement)
        connection.execute("UPDATE meta SET schema_version = ?", [VERSION])
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
