"""The append-only audit log: who did what to which record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from attrib_ds import instants, schema
from attrib_ds.contract import Answer, administration, json_values
from attrib_ds.instants import naive
from attrib_ds.service.sql import without_literals
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import insert_records, new_uuid

#: Writes that are always logged; other writes only for requests with a token.
_WRITES: Final = frozenset({
    "compact_project", "create_holdout", "create_key", "delete_holdout", "delete_user",
    "merge_users", "repair_project", "restore_project", "revoke_key", "split_user", "update_settings",
})  # fmt: skip
#: Bulk exports, always logged, as are searches by SQL.
_EXPORTS: Final = frozenset({"export_users", "export_user_data"})
#: Arguments that name the subject of an operation, most specific first; by default it is the project.
_SUBJECTS: Final = ("id", "outlayId", "parentCampaignId", "vendorId", "reference", "holdout")
#: Further logged arguments. Nothing personal: the log outlives erasures.
_DETAILS: Final = {
    "create_holdout": ("nodeId", "share", "firstDay", "lastDay"),
    "delete_user": ("mode",),
    "merge_users": ("userId",),
    "split_user": ("userId",),
    "update_event_state": ("storageKey",),
    "update_event_statistic": ("storageKey",),
    "update_settings": (
        "lenientOptionalFields", "retentionDurationInDays", "piiFields", "requireTokenForEvents",
        "allowedOrigins", "excludedReferrers", "domains", "anonymousNodesPerDay",
        "respectGpc", "respectDnt", "visitorOfTheDay", "anonymousIdentification",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """An entry of the audit log.

    Parameters
    ----------
    account : str or None
        Client id of the token; None for embedded use.
    operation, subject : str
        Name of the operation, and its record.
    details : mapping of str to object
        Further arguments; nothing personal, since the log outlives erasures.
    is_read : bool
        Whether the operation changes nothing.
    """

    account: str | None
    operation: str
    subject: str
    details: Mapping[str, object]
    is_read: bool = False


def line_of(operation: str, request: Any, account: str | None) -> AuditEntry | None:
    """Return the audit entry of a request, to be appended if the request succeeds.

    Parameters
    ----------
    operation : str
        Name of the operation.
    request : Request
        Its arguments.
    account : str or None
        Client id of the token; None for embedded use.

    Returns
    -------
    AuditEntry or None
        None if the operation is not logged.

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
    # Reading an attribute that a request lacks is slow.
    given = vars(request)
    sql = given.get("sqlQuery")
    # Copies of the file are logged only for requests with a token.
    is_copy = operation == "back_up_project" and account is not None
    is_read = sql is not None or operation in _EXPORTS or is_copy
    if account is None and not is_read and operation not in _WRITES:
        return None
    details: dict[str, object] = request.model_dump(
        include=set(_DETAILS.get(operation, ())), exclude_none=True
    )
    if operation == "export_users":
        details = {"columns": request.exporterDataConfig.columns, "type": request.outputFormatConfig.type}
    if sql is not None:
        details["sqlQuery"] = without_literals(sql)
    subjects = (given[name] for name in _SUBJECTS if given.get(name) is not None)
    subject = next(subjects, request.projectId)
    return AuditEntry(account=account, operation=operation, subject=subject, details=details, is_read=is_read)


def append(connection: duckdb.DuckDBPyConnection, lines: Sequence[AuditEntry]) -> None:
    """Append entries to the audit log.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction of the logged operation.
    lines : sequence of AuditEntry
        The entries.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> line = AuditEntry(account=None, operation="delete_user", subject="5f0c", details={"mode": "delete"})
    >>> store.write(lambda connection: append(connection, [line]))
    >>> store.write(lambda connection: connection.execute("SELECT details FROM audit").fetchall())
    [('{"mode":"delete"}',)]
    >>> store.close()
    """
    insert_records(connection, "audit", rows_of(lines))


def rows_of(lines: Sequence[AuditEntry]) -> list[dict[str, Any]]:
    """Return the rows of the table ``audit`` for entries of now."""
    now = naive(instants.now())
    return [
        {
            "_id": new_uuid(),
            "date": now,
            "account": line.account,
            "operation": line.operation,
            "subject": line.subject,
            "details": json_values.encode(line.details),
        }
        for line in lines
    ]


def list_audit(store: Store, request: administration.ListAudit) -> Answer:
    """Return one page of the audit log, newest first."""
    conditions = {"operation = ?": request.operationName, "account = ?": request.account}
    # Lines of one millisecond in the order in which they were written.
    order = {"date": -1, "rowid": -1}
    return store.page("audit", conditions, schema.AUDIT_LINE, request, sort=order, ties="rowid")
