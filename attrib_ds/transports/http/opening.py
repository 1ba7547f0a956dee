"""Makes the transport of a remote project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract import OPERATIONS
from attrib_ds.transports.http.addresses import read_addresses
from attrib_ds.transports.http.credentials import read_credentials, veiled
from attrib_ds.transports.http.routes import read_routes
from attrib_ds.transports.http.secret import Secret
from attrib_ds.transports.http.transport import Http

if TYPE_CHECKING:
    from attrib_ds.transports.http.configuration import Remote
    from attrib_ds.transports.http.transport import Options


def open_http(remote: Remote, *, allow_insecure: bool = False, options: Options | None = None) -> Http:
    """Return the transport of a service; nothing is sent yet.

    Parameters
    ----------
    remote : Remote
        Where it is, and who asks.
    allow_insecure : bool, default False
        Whether ``http://`` is allowed to other machines.
    options : Options, optional
        How it requests.

    Returns
    -------
    Http
        To be closed.

    Raises
    ------
    InvalidRequest
        If an address, the key or the routes are not in order.
    """
    addresses = read_addresses(
        remote.url, url_v2=remote.url_v2, auth_url=remote.auth_url, allow_insecure=allow_insecure
    )
    key = remote.key
    if key is not None and not isinstance(key, Secret):
        key = veiled(key)
    credentials = None if key is None else read_credentials(key)
    operations = OPERATIONS if remote.routes is None else read_routes(remote.routes)
    return Http(addresses, credentials, operations=operations, options=options)
