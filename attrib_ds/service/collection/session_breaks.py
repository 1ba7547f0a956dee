"""Splits the hits of each tracker into sessions (G-190)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

#: Time without a hit that ends a session, in milliseconds.
TIMEOUT: Final = 30 * 60 * 1_000
#: Longest time from the first hit of a session to its last one, in milliseconds, and most hits of a session.
LONGEST: Final = 24 * 60 * 60 * 1_000
MOST_HITS: Final = 10_000

_OF_TRACKER: Final = "PARTITION BY trackerId ORDER BY serverDate, id"
_OF_BLOCK: Final = "PARTITION BY trackerId, block ORDER BY position"
_REST: Final = f"{_OF_BLOCK} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"


def split_into_sessions(connection: duckdb.DuckDBPyConnection, hits: str, *, into: str) -> None:
    """Create a table of hits with the first hit of their session.

    The result depends on the set of hits only. A block is a run of hits without the timeout between them;
    blocks do not depend on each other, so that blocks without a new hit are left out.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection that can create temporary tables.
    hits : str
        Table with ``id``, ``trackerId``, ``serverDate``, ``nodeId`` (node of its traffic source), ``isBot``,
        ``isCampaign`` (whether it may open a session because its node is another one) and ``sessionId``,
        null for new hits.
    into : str
        Name of the temporary table to create: the columns of ``hits`` and ``firstHitId``.

    Examples
    --------
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> rows = "('a', '10:00'), ('b', '10:29'), ('c', '10:59')"
    >>> _ = connection.execute("CREATE TABLE hits AS SELECT id, 't' AS trackerId, 'direct' AS nodeId, "
    ...     "false AS isBot, false AS isCampaign, CAST(NULL AS VARCHAR) AS sessionId, "
    ...     f"CAST('2025-01-31 ' || time AS TIMESTAMP) AS serverDate FROM (VALUES {rows}) AS rows (id, time)")
    >>> split_into_sessions(connection, "hits", into="split_hits")
    >>> connection.execute("SELECT id, firstHitId FROM split_hits ORDER BY id").fetchall()
    [('a', 'a'), ('b', 'a'), ('c', 'c')]
    """
    connection.execute(
        f"""
        CREATE TEMP TABLE numbered_hits AS
        WITH ordered AS (
            SELECT *, epoch_ms(serverDate) AS instant, row_number() OVER tracker AS position,
                coalesce(instant - lag(epoch_ms(serverDate)) OVER tracker >= {TIMEOUT}, true) AS opens_block
            FROM {hits} WINDOW tracker AS ({_OF_TRACKER})
        ), blocks AS (
            SELECT *, count(*) FILTER (opens_block) OVER tracker AS block,
                last_value(CASE WHEN opens_block OR isCampaign THEN nodeId END IGNORE NULLS) OVER (
                    {_OF_TRACKER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS node_before
            FROM ordered WINDOW tracker AS ({_OF_TRACKER})
        )
        SELECT * EXCLUDE (opens_block, node_before),
            -- Without the limits of length, the node of a session is that of the last campaign.
            max(CASE WHEN opens_block OR (isCampaign AND nodeId <> node_before) THEN position END)
                OVER (PARTITION BY trackerId ORDER BY position) AS opening
        FROM blocks
        """
    )
    if connection.execute(f"SELECT 1 FROM {hits} WHERE sessionId IS NOT NULL LIMIT 1").fetchone():
        connection.execute(
            "DELETE FROM temp.numbered_hits WHERE (trackerId, block) NOT IN "
            "(SELECT (trackerId, block) FROM temp.numbered_hits WHERE sessionId IS NULL)"
        )
    _split_long_blocks(connection)
    connection.execute(
        f"""
        CREATE TEMP TABLE {into} AS
        SELECT hit.* EXCLUDE (instant, position, block, opening), opening.id AS firstHitId
        FROM temp.numbered_hits AS hit JOIN temp.numbered_hits AS opening
        ON opening.trackerId = hit.trackerId AND opening.position = hit.opening
        """
    )
    connection.execute("DROP TABLE temp.numbered_hits")


def _split_long_blocks(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the limits of length to blocks with a session that exceeds one.

    There, where a session opens depends on where the one before it did. For every hit, the query computes
    where the next session would open if one opened here; the recursion then takes one step per session.
    """
    connection.execute(
        f"""
        CREATE TEMP TABLE long_blocks AS SELECT DISTINCT trackerId, block FROM (
            SELECT trackerId, block FROM temp.numbered_hits GROUP BY trackerId, block, opening
            HAVING max(instant) - min(instant) >= {LONGEST} OR count(*) > {MOST_HITS}
        )
        """
    )
    if connection.execute("SELECT 1 FROM temp.long_blocks LIMIT 1").fetchone():
        connection.execute(
            f"""
            CREATE TEMP TABLE openings AS
            WITH RECURSIVE campaigns AS (
                SELECT trackerId, block, position, instant, nodeId, isCampaign,
                    min(CASE WHEN isCampaign THEN position END) OVER ({_REST}) AS next_campaign,
                    first_value(CASE WHEN isCampaign THEN nodeId END IGNORE NULLS) OVER ({_REST})
                        AS next_node,
                    max(position) OVER (PARTITION BY trackerId, block) AS last_position
                FROM temp.numbered_hits SEMI JOIN temp.long_blocks USING (trackerId, block)
            ), changes AS (
                -- Of a campaign: the first campaign after it with another node.
                SELECT *, min(CASE WHEN isCampaign AND next_node <> nodeId THEN next_campaign END) OVER (
                    {_OF_BLOCK} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS next_change
                FROM campaigns
            ), pointers AS (
                SELECT hit.trackerId, hit.block, hit.position, least(
                    CASE WHEN hit.next_node <> hit.nodeId THEN hit.next_campaign
                        ELSE campaign.next_change END,
                    hit.position + {MOST_HITS},
                    min(hit.position) OVER (
                        PARTITION BY hit.trackerId, hit.block ORDER BY hit.instant
                        RANGE BETWEEN {LONGEST} FOLLOWING AND UNBOUNDED FOLLOWING)
                ) AS next, hit.last_position
                FROM changes AS hit LEFT JOIN changes AS campaign
                ON campaign.trackerId = hit.trackerId AND campaign.position = hit.next_campaign
            ), jumps AS (
                SELECT trackerId, min(position) AS position FROM pointers GROUP BY trackerId, block
                UNION ALL
                SELECT pointers.trackerId, pointers.next
                FROM jumps JOIN pointers USING (trackerId, position) WHERE next <= last_position
            )
            SELECT * FROM jumps
            """
        )
        connection.execute(
            """
            UPDATE temp.numbered_hits AS hit SET opening = split.opening FROM (
                SELECT hit.trackerId, hit.position, max(openings.position)
                    OVER (PARTITION BY hit.trackerId ORDER BY hit.position) AS opening
                FROM temp.numbered_hits AS hit SEMI JOIN temp.long_blocks USING (trackerId, block)
                LEFT JOIN temp.openings USING (trackerId, position)
            ) AS split WHERE hit.trackerId = split.trackerId AND hit.position = split.position
            """
        )
        connection.execute("DROP TABLE temp.openings")
    connection.execute("DROP TABLE temp.long_blocks")
