"""Command-line options that name the columns of a user's own files, by the role a column plays."""

from __future__ import annotations

from typing import Final

OPTIONS: Final[dict[str, str]] = {
    **{
        role: f"--{role}"
        for role in ("user", "node", "date", "touch", "conversion", "flag", "value", "currency")
    },
    "conversion_date": "--conversion-date",
    "spend": "--amount",
    "path": "--path",
    "conversions": "--path-conversions",
    "total_value": "--path-value",
    "nulls": "--path-nulls",
}
