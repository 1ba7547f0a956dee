"""Command-line options for the columns of users' files, by role."""

from __future__ import annotations

from typing import Final

OPTIONS: Final[dict[str, str]] = {
    **{
        role: f"--{role}"
        for role in (
            *("user", "device", "node", "date", "touch"),
            *("conversion", "flag", "value", "quantity", "currency"),
        )
    },
    "conversion_user": "--conversion-user",
    "conversion_date": "--conversion-date",
    "spend": "--amount",
    "spend_node": "--spend-node",
    "path": "--path",
    "conversions": "--path-conversions",
    "total_value": "--path-value",
    "nulls": "--path-nulls",
}

#: Roles that several columns can have; options list them with commas.
LISTED: Final = ("node", "date", "conversion_date", "spend_node", "path")
