"""Documentation of the HTTP interface: the OpenAPI document and an HTML overview (G-214)."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final

from attrib_ds.contract.openapi import document

#: Content security policy of the page, which loads no resources.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
code {{ font: 14px/1.5 ui-monospace, monospace; overflow-wrap: anywhere }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #8884 }}
</style>
<h1>{title} {version}</h1>
<p>Full description: <a href="/api/openapi.json">OpenAPI</a>. Get an access token from
<code>POST /auth/oidc/token</code>.</p>
<table>
<thead><tr><th>Operation</th><th>Method</th><th>Path</th><th>Token</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</html>
"""


def openapi() -> bytes:
    """Return the OpenAPI document as JSON.

    Examples
    --------
    >>> json.loads(openapi())["openapi"]
    '3.1.0'
    """
    return json.dumps(document(), separators=(",", ":")).encode()


def overview() -> bytes:
    """Return an HTML page that lists the operations.

    Examples
    --------
    >>> b"Search interactions" in overview()
    True
    """
    specification = document()
    rows = [
        _row(method, path, operation)
        for path, methods in specification["paths"].items()
        for method, operation in methods.items()
    ]
    info = {name: escape(specification["info"][name]) for name in ("title", "version")}
    return _PAGE.format(**info, rows="\n".join(rows)).encode()


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    token = "required" if operation["security"] == [{"token": []}] else ""
    return (
        f"<tr><td>{escape(operation['summary'])}</td><td>{escape(method.upper())}</td>"
        f"<td><code>{escape(path)}</code></td><td>{token}</td></tr>"
    )
