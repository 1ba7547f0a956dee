"""Writes down who did what to whom; what is written is never changed (G-211)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import schema
from attrib_ds.contract.json_text import encode
from attrib_ds.service.store.batches import insert_records, naive
from attrib_ds.service.store.ids import new_uuid
from attrib_ds.service.store.records import read_page
from attrib_ds.service.users.sql_check import without_literals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from attrib_ds.contract import Answer
    from attrib_ds.contract.audit import ListAudit
    from attrib_ds.service.store.store import Store

#: Writes that are written down whoever asks; the other ones are when a token asks.
_WRITES: Final = frozenset({"delete_user", "merge_users", "split_user", "update_settings", "restore_project"})
#: What hands out data in bulk, which is written down whoever asks; a search is when it is by SQL.
_EXPORTS: Final = frozenset({"export_users", "export_user_data"})
#: Whoever has the file has a copy of it without asking.
_COPIES: Final = frozenset({"back_up_project"})
#: What names the record that an operation is about, the closest first; otherwise it is the project.
_SUBJECTS: Final = ("id", "outlayId", "parentCampaignId", "vendorId", "reference")
#: What else of a request is written down. Nothing personal: the log outlives what is erased.
_DETAILS: Final = {
    "delete_user": ("mode",),
    "merge_users": ("userId",),
    "split_user": ("userId",),
    "update_event_state": ("storageKey",),
    "update_event_statistic": ("storageKey",),
    "update_settings": (
        "lenientOptionalFields",
        "retentionDurationInDays",
        "piiFields",
        "requireTokenForEvents",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """What is written down of a request.

    Parameters
    ----------
    account : str or None
        The client who asked; None for whoever has the file.
    operation, subject : str
        What was done, and to which record.
    details : mapping of str to object
        More about it; nothing personal, since the log outlives what is erased.
    is_read : bool
        Whether it is written down although it changes nothing.
    """

    account: str | None
    operation: str
    subject: str
    details: Mapping[str, object]
    is_read: bool = False


def line_of(operation: str, request: Any, account: str | None) -> Line | None:
    """Return what is to be written down of a request, should it do what it asks for.

    Parameters
    ----------
    operation : str
        Its name.
    request : Request
        What was asked.
    account : str or None
        The client who asked; None for whoever has the file.

    Returns
    -------
    Line or None
        None if nothing is written down of it, whatever it does.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> user = "5f0c0ffee0ddba11ad0be123"
    >>> request = build(OPERATIONS["delete_user"], project_id="shop", id=user)
    >>> line_of("delete_user", request, None).details
    {'mode': 'anonymise'}
    >>> line_of("get_user", build(OPERATIONS["get_user"], project_id="shop", id=user), None) is None
    True
    """
    sql = getattr(request, "sqlQuery", None)
    is_read = sql is not None or operation in _EXPORTS or (operation in _COPIES and account is not None)
    if account is None and not is_read and operation not in _WRITES:
        return None
    named = [getattr(request, name, None) for name in _SUBJECTS]
    given = {name: getattr(request, name) for name in _DETAILS.get(operation, ())}
    details: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if operation == "export_users":
        details = {"columns": request.exporterDataConfig.columns, "type": request.outputFormatConfig.type}
    if sql is not None:
        details["sqlQuery"] = without_literals(sql)
    subject = next((each for each in named if each is not None), request.projectId)
    return Line(account=account, operation=operation, subject=subject, details=details, is_read=is_read)


def append(connection: duckdb.DuckDBPyConnection, lines: Sequence[Line]) -> None:
    """Add lines to the audit log.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction of what is done.
    lines : sequence of Line
        What is done.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> line = Line(account=None, operation="delete_user", subject="5f0c", details={"mode": "delete"})
    >>> store.write(lambda connection: append(connection, [line]))
    >>> store.write(lambda connection: connection.execute("SELECT details FROM audit").fetchall())
    [('{"mode":"delete"}',)]
    >>> store.close()
    """
    now = naive(datetime.now(UTC))
    records = [
        {
            "_id": new_uuid(),
            "date": now,
            "account": each.account,
            "operation": each.operation,
            "subject": each.subject,
            "details": encode(each.details),
        }
        for each in lines
    ]
    insert_records(connection, "audit", records)


def mode_of(details: str) -> str:
    """Return how the user of a line of ``delete_user`` was erased.

    Examples
    --------
    >>> mode_of('{"mode":"anonymise"}')
    'anonymise'
    """
    return str(json.loads(details).get("mode", "delete"))


def list_audit(store: Store, request: ListAudit) -> Answer:
    """Answer one page of the audit log, the newest first."""
    with store.read() as backend:
        return read_page(
            backend,
            "audit WHERE operation = coalesce(?, operation) AND (? IS NULL OR account = ?)",
            [request.operationName, request.account, request.account],
            schema.AUDIT_LINE,
            sort="date",
            descending=True,
            ties="_id",
            offset=request.offset,
            limit=request.limit,
        )
