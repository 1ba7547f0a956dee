"""Splits URLs of pages into their parts, in SQL."""

from __future__ import annotations

import re
from typing import Final

from attrib_ds import schema
from attrib_ds.records.numbered_rows import literal, quoted

_PATTERN: Final = (
    r"^([a-zA-Z][a-zA-Z0-9+.-]*:)//(?:[^/?#@]*@)?(\[[^/?#\]]*\]|[^/?#:]*)(?::([0-9]+))?"
    r"([^?#]*)(\?[^#]*)?(#.*)?$"
)
#: Parts by the groups of the pattern.
_GROUPS: Final = ("protocol", "hostname", "port", "pathname", "search", "hash")
#: An origin.
SITE: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/?")
_ORIGIN: Final = r"^([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*)"


def url_parts(page: str, prefix: str) -> dict[str, str]:
    """Return SQL for the parts of a URL, by column ``<prefix>.<part>``; all are null if it is no URL.

    Examples
    --------
    >>> import duckdb
    >>> parts = url_parts("'https://shop.example:8443/boots?size=42'", "page")
    >>> [duckdb.sql(f"SELECT {parts[f'page.{part}']}").fetchone()[0] for part in ("origin", "search", "hash")]
    ['https://shop.example:8443', '?size=42', '']
    """
    names = ", ".join(map(literal, _GROUPS))
    # The engine evaluates equal expressions once per row, so the pattern is matched once.
    groups = f"regexp_extract({page}, {literal(_PATTERN)}, [{names}])"
    parts = {name: f"({groups}).{name}" for name in _GROUPS}
    parts["pathname"] = f"coalesce(nullif({parts['pathname']}, ''), '/')"
    parts["origin"] = f"regexp_extract({page}, {literal(_ORIGIN)}, 1)"
    return {
        f"{prefix}.{name}": f"CASE WHEN ({groups}).protocol <> '' THEN {parts[name]} END"
        for name in schema.URL_PARTS
    }


def selected_url_parts(page: str, prefix: str) -> str:
    """Return the parts of a URL as columns of a SELECT; see :func:`url_parts`."""
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in url_parts(page, prefix).items())
