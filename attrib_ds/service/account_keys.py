"""Keys of service accounts, administered through their project."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from attrib_ds import errors, instants, schema
from attrib_ds.contract import Answer
from attrib_ds.contract.administration import CreateKey, ListKeys, RevokeKey
from attrib_ds.service.accounts import Accounts, Key
from attrib_ds.service.store import audit
from attrib_ds.service.store.store import Store


def list_keys(home: Path, _store: Store, request: ListKeys, _line: audit.AuditEntry | None) -> Answer:
    """Return the keys of accounts whose only project is this one, oldest first."""
    if not _has_accounts(home):
        return _answer([])
    with _accounts(home) as accounts:
        return _answer(accounts.list_keys_of_project(request.projectId))


def create_key(home: Path, store: Store, request: CreateKey, line: audit.AuditEntry | None) -> Answer:
    """Register a public key; the value of the answer is whether it is new."""
    store.require_writing()
    with _accounts(home) as accounts:
        key, is_new = accounts.register(
            request.publicKey,
            project_id=request.projectId,
            scopes=request.scopes,
            expires_at=request.expiresAt,
        )
        try:
            _log(store, line, key.key_id)
        except BaseException:
            # No key works without its line in the audit log.
            with suppress(errors.AttribError):
                accounts.revoke_key(key.key_id)
            raise
    return _answer([key], value=is_new)


def revoke_key(home: Path, store: Store, request: RevokeKey, line: audit.AuditEntry | None) -> Answer:
    """Revoke a key of an account whose only project is this one, and its tokens."""
    store.require_writing()
    if not _has_accounts(home):
        raise errors.NotFound(f"key_id: the project has no key {request.keyId!r}")
    with _accounts(home) as accounts:
        is_changed = accounts.revoke_key_of_project(request.projectId, request.keyId)
    _log(store, line, request.keyId)
    return Answer(value=int(is_changed))


# Imported late: accounts need cryptography and JWT, which most embedded projects never load.
def _has_accounts(home: Path) -> bool:
    from attrib_ds.service.accounts.accounts import FILE

    return (home / FILE).exists()


def _accounts(home: Path) -> AbstractContextManager[Accounts]:
    from attrib_ds.service.accounts.accounts import Accounts

    return closing(Accounts.open(home))


def _log(store: Store, line: audit.AuditEntry | None, key_id: str) -> None:
    if line is not None:
        entry = replace(line, subject=key_id)
        store.write(lambda connection: audit.append(connection, [entry]))


def _answer(keys: Sequence[Key], *, value: object = None) -> Answer:
    records = [
        {
            "_id": key.key_id,
            "clientId": key.client_id,
            "serviceAccountEmail": key.email,
            "scopes": list(key.scopes),
            "createdAt": instants.truncate(key.created_at),
            "expiresAt": key.expires_at and instants.truncate(key.expires_at),
            "revokedAt": key.revoked_at and instants.truncate(key.revoked_at),
        }
        for key in keys
    ]
    return Answer.of(pa.Table.from_pylist(records, schema.KEY), value=value)
