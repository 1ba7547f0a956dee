"""What is in the queue of a project's file."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from attrib_ds.service.store.files import queue_of


def queued(file: Path, table: str) -> list[Any]:
    """Return the records of a table of the queue, in order."""
    with closing(sqlite3.connect(queue_of(file))) as connection:
        rows = connection.execute(f"SELECT content FROM {table} ORDER BY number").fetchall()
    return [json.loads(content) for (content,) in rows]
