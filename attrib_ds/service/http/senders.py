"""Checks who sends an event or a hit without a token (G-175, G-189)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from attrib_ds.contract.events import CreateEvent
from attrib_ds.contract.hits import OPPORTUNITY
from attrib_ds.service.http.error_responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.datastructures import Headers

    from attrib_ds.service.store.settings import ProjectSettings


def check_sender(headers: Headers, settings: ProjectSettings) -> None:
    """Raise 401 without a required token or ingest key, 403 for an origin that is not allowed."""
    if settings.require_token_for_events:
        raise HttpError(401)
    if settings.ingest_keys and not _is_known(headers.get("x-ingest-key", ""), settings):
        raise HttpError(401, "the header X-Ingest-Key has none of the ingest keys of this project")
    if settings.allowed_origins and headers.get("origin") not in settings.allowed_origins:
        raise HttpError(403, "events of this project are not accepted from this origin")


def check_event_types(events: Iterable[object]) -> None:
    """Raise 403 if there are opportunities: results of experiments rest on what the service itself logged."""
    if any(isinstance(event, CreateEvent) and event.eventType == OPPORTUNITY for event in events):
        raise HttpError(
            403,
            f"the event type {OPPORTUNITY!r} is reserved: the service logs opportunities itself; sending "
            "them needs a token",
        )


def check_page(headers: Headers, settings: ProjectSettings, *, ingest_key: str) -> None:
    """Raise 401 for a hit without a required ingest key, 403 for a page whose origin is not allowed.

    A token is never required: a page has none. Images have no ``Origin``, but a ``Referer``.
    """
    if settings.ingest_keys and not _is_known(ingest_key, settings):
        raise HttpError(401, "ingestKey is none of the ingest keys of this project")
    origin = headers.get("origin") or "/".join(headers.get("referer", "").split("/", 3)[:3])
    if settings.allowed_origins and origin not in settings.allowed_origins:
        raise HttpError(403, "hits of this project are not accepted from this origin")


def _is_known(key: str, settings: ProjectSettings) -> bool:
    return any(secrets.compare_digest(key.encode(), known.encode()) for known in settings.ingest_keys)
