"""Build the transport of a remote project from its address, key and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract import OPERATIONS
from attrib_ds.keys.secret import Secret
from attrib_ds.transports.http.addresses import read_addresses
from attrib_ds.transports.http.credentials import protect_key, read_credentials
from attrib_ds.transports.http.routes import read_routes
from attrib_ds.transports.http.transport import Http

if TYPE_CHECKING:
    from attrib_ds.transports.http.configuration import Remote
    from attrib_ds.transports.http.transport import Options


def open_http(remote: Remote, *, allow_insecure: bool = False, options: Options | None = None) -> Http:
    """Return the transport of a service, without connecting.

    Parameters
    ----------
    remote : Remote
        Addresses, key and routes.
    allow_insecure : bool, default False
        Whether to allow ``http://`` to other machines.
    options : Options, optional
        Timeouts, retries and paging.

    Returns
    -------
    Http
        To be closed by the caller.

    Raises
    ------
    InvalidRequest
        If an address, the key or the routes are invalid.
    """
    addresses = read_addresses(
        remote.url, url_v2=remote.url_v2, auth_url=remote.auth_url, allow_insecure=allow_insecure
    )
    key = remote.key
    if key is not None and not isinstance(key, Secret):
        key = protect_key(key)
    credentials = None if key is None else read_credentials(key)
    operations = OPERATIONS if remote.routes is None else read_routes(remote.routes)
    return Http(addresses, credentials, operations=operations, options=options)
