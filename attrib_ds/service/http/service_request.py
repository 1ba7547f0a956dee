"""A request with what its response tells about it: an id and the caller's quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from attrib_ds.service.http import rate_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.service.http.rate_limits import Quota


class ServiceRequest(Request):
    """A request to the service.

    Attributes
    ----------
    id : str
        Its id, in the log and in the response.
    quotas : sequence of Quota
        Added to every response, errors included (G-186).
    """

    id: str = ""
    quotas: Sequence[Quota] = ()

    def added_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the quotas."""
        fields = rate_limits.headers(self.quotas)
        return [(name.lower().encode(), value.encode()) for name, value in fields.items()]
