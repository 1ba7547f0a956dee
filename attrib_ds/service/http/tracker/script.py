"""Prepares and serves the tracking script."""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha384
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

PATH: Final = b"/t.js"
#: Comments that fill their lines, and indentation.
_UNSERVED: Final = re.compile(r"^ *(?:/\*\*(?:[^*]|\*(?!/))*\*/|//[^\n]*)\n|^ +", re.MULTILINE)
_SECONDS_TO_CACHE: Final = 3_600


@dataclass(frozen=True)
class Script:
    """The tracking script as it is served.

    Parameters
    ----------
    content, compressed : bytes
        As it is, and in gzip format.
    integrity : str
        Value of the attribute ``integrity`` of a script tag (Subresource Integrity).
    """

    content: bytes
    compressed: bytes
    integrity: str

    @property
    def etag(self) -> str:
        """Value of the header ETag, the same for both forms."""
        return f'W/"{self.integrity.partition("-")[2][:16]}"'

    async def answer(self, request: Request) -> Response:
        """Answer a request for the script; without content if the client has it already."""
        headers = {
            "Cache-Control": f"public, max-age={_SECONDS_TO_CACHE}",
            "ETag": self.etag,
            "Vary": "Accept-Encoding",
            # Pages that isolate themselves load only what allows it.
            "Cross-Origin-Resource-Policy": "cross-origin",
        }
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        media = "text/javascript; charset=utf-8"
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                self.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=media
            )
        return Response(self.content, headers=headers, media_type=media)


@cache
def tracking_script() -> Script:
    """Return the script of this package, without comments.

    Examples
    --------
    >>> script = tracking_script()
    >>> len(script.compressed) < 3_000, script.integrity[:7]
    (True, 'sha384-')
    """
    source = files("attrib_ds.service.http.tracker").joinpath("t.js").read_text(encoding="utf-8")
    content = _UNSERVED.sub("", source.replace("/// ", "// ")).encode()
    compressed = gzip.compress(content, 9, mtime=0)
    return Script(content, compressed, f"sha384-{b64encode(sha384(content).digest()).decode()}")
