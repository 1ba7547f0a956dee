"""Check and complete the addresses of a remote service."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from attrib_ds.contract import BASES
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from attrib_ds.contract import Operation

_LONGEST_SHOWN: Final = 80


@dataclass(frozen=True)
class Addresses:
    """Base URLs of a service.

    Parameters
    ----------
    v1, v2, auth : str
        URLs without a trailing slash.
    """

    v1: str
    v2: str
    auth: str

    def of(self, operation: Operation, path: str) -> str:
        """Return the full URL of an operation's path."""
        return {"v1": self.v1, "v2": self.v2, "auth": self.auth}[operation.base] + path


def read_addresses(
    url: str, *, url_v2: str | None = None, auth_url: str | None = None, allow_insecure: bool = False
) -> Addresses:
    """Check the addresses of a service and complete them.

    Parameters
    ----------
    url : str
        With or without ``/api/v1`` at the end.
    url_v2 : str, optional
        With or without ``/api/v2`` at the end; derived from ``url`` by default.
    auth_url : str, optional
        Parent of ``/oidc/token``; by default ``/auth`` at the origin of ``url``.
    allow_insecure : bool, default False
        Whether to allow ``http://`` to other machines.

    Returns
    -------
    Addresses
        Base URLs of v1, v2 and authentication.

    Raises
    ------
    InvalidRequest
        If one is not a URL, or would send secrets unencrypted.

    Examples
    --------
    >>> read_addresses("https://shop.example/api/v1/")  # doctest: +NORMALIZE_WHITESPACE
    Addresses(v1='https://shop.example/api/v1', v2='https://shop.example/api/v2',
              auth='https://shop.example/auth')
    """
    root = _checked("url", url, allow_insecure).removesuffix(BASES["v1"])
    root_v2 = _checked("url_v2", url_v2, allow_insecure).removesuffix(BASES["v2"]) if url_v2 else root
    origin = urlsplit(root)
    auth = f"{origin.scheme}://{origin.netloc}{BASES['auth']}"
    return Addresses(
        v1=root + BASES["v1"],
        v2=root_v2 + BASES["v2"],
        auth=_checked("auth_url", auth_url, allow_insecure) if auth_url else auth,
    )


def is_here(url: str) -> bool:
    """Return whether an address is on this machine.

    Examples
    --------
    >>> [is_here(url) for url in ("http://localhost:8000", "http://[::1]:80", "http://10.0.0.1")]
    [True, True, False]
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _checked(argument: str, url: str, allow_insecure: bool) -> str:
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        shown = "it" if "@" in str(url) else f"{str(url)[:_LONGEST_SHOWN]!r}"
        raise InvalidRequest(
            f"{argument}: {shown} is not an address; expected one such as 'https://attribution.example'",
            field=argument,
        )
    if parts.username is not None or parts.query or parts.fragment:
        # Not shown: it may contain a password.
        raise InvalidRequest(
            f"{argument}: contains a user name, a query or a fragment; allowed: a host and a path",
            field=argument,
        )
    if parts.scheme == "http" and not is_here(url) and not allow_insecure:
        raise InvalidRequest(
            f"{argument}: {url!r} would send tokens and data unencrypted; use 'https://{parts.netloc}', or "
            "allow_insecure=True on a trusted network",
            field=argument,
        )
    return url.strip().rstrip("/")


def _parts(url: object) -> SplitResult | None:
    try:
        parts = urlsplit(url.strip()) if isinstance(url, str) else None
        # Reading the port validates it.
        _ = parts.port if parts else None
    except ValueError:
        return None
    return parts
