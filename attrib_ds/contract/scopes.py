"""The scopes of access tokens."""

from typing import Final

#: Allows what every other scope allows.
FULL_ACCESS: Final = "full_access"
SCOPES: Final = (
    FULL_ACCESS,
    "interactions:read",
    "interactions:write",
    "events:read",
    "events:write",
    "users:read",
    "users:write",
    "users:export",
    "users:sql",
    "event-types:read",
    "event-types:write",
    "campaigns:read",
    "campaigns:write",
    "privacy:write",
    "admin",
)
