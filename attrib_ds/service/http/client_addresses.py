"""The address that a request counts for: that of its connection, or the one that a trusted proxy forwards."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, TypeAlias

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_proxies(text: str) -> Network:
    """Return the address of a trusted proxy, or the network of several.

    Parameters
    ----------
    text : str
        Such as ``"10.0.0.5"`` or ``"172.18.0.0/16"``.

    Raises
    ------
    InvalidRequest
        If it is neither an address nor a network, or all addresses there are.

    Examples
    --------
    >>> parse_proxies("10.0.0.5"), parse_proxies("172.18.0.0/16")
    (IPv4Network('10.0.0.5/32'), IPv4Network('172.18.0.0/16'))
    """
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise InvalidRequest(
            f"trusted_proxies: {text!r} is not an address; allowed: an IP address or a network, such as "
            "'10.0.0.5' or '172.18.0.0/16'",
            field="trusted_proxies",
        ) from None
    if not network.prefixlen:
        raise InvalidRequest(
            f"trusted_proxies: {text!r} is every address, so that any client could forge its own; allowed: "
            "the addresses of your proxies",
            field="trusted_proxies",
        )
    return network


def is_proxy(peer: str, proxies: Collection[Network]) -> bool:
    """Return whether the other end of a connection is a trusted proxy."""
    address = _parsed(peer)
    return address is not None and any(address in network for network in proxies)


def network_of_client(request: Request, proxies: Collection[Network]) -> str:
    """Return what counts as the address of the client of a request; see :func:`network_of`."""
    return network_of(address_of_client(request, proxies))


def address_of_client(request: Request, proxies: Collection[Network]) -> str:
    """Return the address of the client of a request.

    A trusted proxy appends the address of its client to ``X-Forwarded-For``. Earlier entries come from the
    client itself, who may write there what it likes.
    """
    peer = request.client.host if request.client else ""
    if is_proxy(peer, proxies):
        forwarded = ",".join(request.headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
        if _parsed(forwarded) is not None:
            return forwarded
    return peer


def network_of(address: str) -> str:
    """Return what counts as one client address: for IPv6 the 64 bits of a network, whose host picks the rest.

    Examples
    --------
    >>> network_of("203.0.113.7"), network_of("2001:db8::7"), network_of("::ffff:203.0.113.7")
    ('203.0.113.7', '2001:db8::', '203.0.113.7')
    """
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Address(int(parsed) >> 64 << 64))
    return address if parsed is None else str(parsed)


def _parsed(text: str) -> Address | None:
    """Return an address; None if it is none. An IPv4 address may be written as an IPv6 address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
