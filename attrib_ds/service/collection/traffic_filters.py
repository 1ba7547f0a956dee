"""Captures hits and questions of pages by the traffic filters of the project (G-198)."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.sources import literal
from attrib_ds.service.store.table_access import arrow_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_ADDRESS: Final = "address"
_USER_AGENT: Final = "userAgent"
_PAGE: Final = "hostname"
#: The host of a URL in lower case, without ``www.``.
HOST: Final = r"^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?(?:www\.)?(\[[^/?#\]]*\]|[^/?#:]+)"


def capture_sql(filters: Sequence[str], *, captured: str) -> str:
    """Return SQL for the first filter that captures a hit, or NULL.

    Parameters
    ----------
    filters : sequence of str
        The setting ``trafficFilters``.
    captured : str
        SQL for the list of filters that capture the hit's address, from :func:`create_captured_addresses`.

    Examples
    --------
    >>> import duckdb
    >>> sql = capture_sql(["hostname:test.shop.example", "userAgent:Probe"], captured="[]")
    >>> hit = "(SELECT 'shop.example' AS page_host, 'probe/2' AS userAgent)"
    >>> duckdb.sql(f"SELECT {sql} FROM {hit}").fetchone()
    ('userAgent:Probe',)
    """
    branches = "".join(
        f" WHEN {_condition(text, captured=captured)} THEN {literal(text)}" for text in filters
    )
    return f"CASE{branches} END" if branches else "CAST(NULL AS VARCHAR)"


def _condition(text: str, *, captured: str) -> str:
    kind, _, value = text.partition(":")
    if kind == _ADDRESS:
        return f"list_contains({captured}, {literal(text)})"
    if kind == _USER_AGENT:
        return f"contains(lower(userAgent), {literal(value.lower())})"
    host = "page_host" if kind == _PAGE else "referrer_host"
    name = _captured_host(value)
    return f"({host} = {literal(name)} OR ends_with({host}, {literal(f'.{name}')}))"


def create_captured_addresses(
    connection: duckdb.DuckDBPyConnection, filters: Sequence[str], hits: str
) -> None:
    """Create ``captured_addresses``: each distinct ``address`` of hits with the filters that capture it."""
    networks = {
        text: ipaddress.ip_network(text.partition(":")[2], strict=False)
        for text in filters
        if text.startswith(f"{_ADDRESS}:")
    }
    texts = []
    if networks:
        query = f"SELECT DISTINCT address FROM {hits} WHERE address IS NOT NULL"
        texts = [text for (text,) in connection.execute(query).fetchall()]
    captured = [
        [text for text, network in networks.items() if address is not None and address in network]
        for address in map(parse_address, texts)
    ]
    columns = {"address": pa.array(texts, pa.string()), "filters": pa.array(captured, pa.list_(pa.string()))}
    with arrow_view(connection, pa.table(columns)) as view:
        connection.execute(f"CREATE TEMP TABLE captured_addresses AS FROM {view}")


def captures(filters: Sequence[str], *, address: str, user_agent: str, page: str, referrer: str) -> bool:
    """Return whether a filter captures what a page sends, as :func:`capture_sql` does with its hits.

    Parameters
    ----------
    filters : sequence of str
        The setting ``trafficFilters``.
    address, user_agent : str
        Of the client.
    page, referrer : str
        URL or origin of the page, and of the page that led there; empty if unknown.

    Examples
    --------
    >>> client = {"address": "203.0.113.7", "user_agent": "probe/2", "referrer": ""}
    >>> captures(["hostname:shop.example"], page="https://test.shop.example", **client)
    True
    """
    hosts = {_PAGE: _host(page), "referrer": _host(referrer)}
    for text in filters:
        kind, _, value = text.partition(":")
        if kind == _USER_AGENT and value.lower() in user_agent.lower():
            return True
        # An empty host is no part of a domain.
        if kind in hosts and f".{hosts[kind]}".endswith(f".{_captured_host(value)}"):
            return True
    return captures_address(filters, address)


def _captured_host(value: str) -> str:
    return value.lower().removeprefix("www.")


def _host(url: str) -> str:
    found = re.match(HOST, url.lower())
    return found[1].rstrip(".") if found else ""


def captures_address(filters: Sequence[str], address: str) -> bool:
    """Return whether a filter captures an address.

    Examples
    --------
    >>> filters = ["address:203.0.113.0/24", "hostname:test.shop.example"]
    >>> captures_address(filters, "203.0.113.7"), captures_address(filters, "198.51.100.7")
    (True, False)
    """
    networks = [text.partition(":")[2] for text in filters if text.startswith(f"{_ADDRESS}:")]
    parsed = parse_address(address) if networks else None
    return parsed is not None and any(
        parsed in ipaddress.ip_network(network, strict=False) for network in networks
    )


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, as IPv4 if it is mapped to IPv6; None if the text is no address.

    Examples
    --------
    >>> parse_address("::ffff:203.0.113.7"), parse_address("unix:")
    (IPv4Address('203.0.113.7'), None)
    """
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
