"""The audit log: writes by token, exports, erasures and other sensitive operations of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.project import Project


def list_audit(
    project: Project,
    *,
    operation_name: str | None = None,
    account: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the entries of the audit log, newest first.

    The log of a served project has every write by a token. The log of every project, embedded or served, has
    exports, searches by SQL, erasures, merges and splits of users, changes of settings, and keys created and
    revoked through it. A project that is open read-only logs nothing. Entries never change and survive a
    restore of the project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    operation_name : str, optional
        Only entries of this operation, such as ``"delete_user"``.
    account : str, optional
        Only entries of this client id.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per entry, newest first: ``_id``, ``date``, ``account`` (client id of the service account;
        missing for direct use of the file), ``operation``, ``subject`` (the record concerned, or the project)
        and ``details`` (JSON text without personal data; SQL without its literals).
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.update_settings(shop, retention_duration_in_days=365)
    ...     at.admin.list_audit(shop)["details"].tolist()
    ['{"retentionDurationInDays":365}']
    """
    answer = project.send(
        "list_audit", operation_name=operation_name, account=account, limit=limit, offset=offset
    )
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame
