"""Checks who sends an event without a token (G-175)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from attrib_ds.service.http.error_responses import HttpError

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from attrib_ds.service.store.settings import ProjectSettings


def check_sender(headers: Headers, settings: ProjectSettings) -> None:
    """Raise 401 without a required token or ingest key, 403 for an origin that is not allowed."""
    if settings.require_token_for_events:
        raise HttpError(401)
    key = headers.get("x-ingest-key", "").encode()
    if settings.ingest_keys and not any(
        secrets.compare_digest(key, known.encode()) for known in settings.ingest_keys
    ):
        raise HttpError(401, "the header X-Ingest-Key has none of the ingest keys of this project")
    if settings.allowed_origins and headers.get("origin") not in settings.allowed_origins:
        raise HttpError(403, "events of this project are not accepted from this origin")
