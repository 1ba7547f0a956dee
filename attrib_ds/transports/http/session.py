"""Send HTTP requests over pooled connections, and translate the errors of the requests library."""

from __future__ import annotations

import http.cookiejar
import importlib.metadata
import platform
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar

import requests
import urllib3

from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.transports.http.bodies import SMALL, read_pieces
from attrib_ds.transports.http.response_heads import Adapter
from attrib_ds.transports.http.retrying import AttemptFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from attrib_ds.keys.secret import Secret
    from attrib_ds.transports.http.retrying import Retry

T = TypeVar("T")

#: Maximum number of connections per host; further threads wait for a free one.
_CONNECTIONS: Final = 32
_CHUNK: Final = 2**16
_LONGEST_MEDIA: Final = 80


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds.

    Parameters
    ----------
    connect : float, default 10
        Time to establish a connection.
    read : float, default 120
        Time for the headers of the response, and then between two bytes of its body.
    body : float, default 600
        Time within which a body that is read into memory must be complete.
    """

    connect: float = 10.0
    read: float = 120.0
    body: float = 600.0


@dataclass(frozen=True, kw_only=True)
class Call:
    """One HTTP request, with its secrets kept separate.

    Parameters
    ----------
    method, url : str
        HTTP method and URL.
    query, headers : mapping of str to str
        Query parameters and headers.
    content : bytes or Path, optional
        Body, or the path of a file with the body.
    token : Secret of str, optional
        Access token.
    form : mapping of str to (str or Secret), optional
        Form fields, sent instead of a body.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Path | None = None
    token: Secret[str] | None = None
    form: Mapping[str, str | Secret[str]] | None = None


class Response:
    """An HTTP response whose body has not been read.

    Parameters
    ----------
    response : requests.Response
        Opened with ``stream=True``.
    seconds : float
        Time within which a body that is read into memory must be complete.
    """

    def __init__(self, response: requests.Response, *, seconds: float) -> None:
        self._response = response
        self._seconds = seconds
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def media(self) -> str:
        """Media type in lower case, without parameters; empty if there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()[:_LONGEST_MEDIA]

    def pieces(self, most: int | None) -> Iterator[bytes]:
        """Read the body in pieces, decompressed.

        Parameters
        ----------
        most : int or None
            Maximum number of bytes; None for a body that goes to disk.
        """
        return read_pieces(
            self._chunks(),
            encoding=self.headers.get("Content-Encoding", ""),
            most=most,
            seconds=None if most is None else self._seconds,
        )

    def _chunks(self) -> Iterator[bytes]:
        """Yield what has arrived, as it was sent; read() would wait until a chunk is full, however slowly."""
        while chunk := self._response.raw.read1(_CHUNK, decode_content=False):
            yield chunk

    def content(self, most: int) -> bytes:
        """Read the whole body, of at most this many bytes."""
        return b"".join(self.pieces(most))

    def beginning(self) -> bytes:
        """Read at most a mebibyte of the body, enough for any error."""
        read = bytearray()
        with suppress(AttemptFailed):
            for piece in self.pieces(SMALL):
                read += piece
        return bytes(read)


class _Requests(requests.Session):
    """A session that leaves redirects alone: requests would read their bodies, however large."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, as for a response that is no redirect."""


class Session:
    """Send requests and read their responses.

    Parameters
    ----------
    timeouts : Timeouts
        Connect and read timeouts.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._session = _Requests()
        self._session.headers["User-Agent"] = _user_agent()
        self._session.headers["Accept-Encoding"] = "gzip"
        # Tokens authenticate the caller; cookies are never stored.
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        adapter = Adapter(pool_connections=4, pool_maxsize=_CONNECTIONS, pool_block=True, max_retries=0)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    def exchange(self, call: Call, read: Callable[[Response], T], *, direct: bool) -> T:
        """Send one request and read its response.

        Parameters
        ----------
        call : Call
            The request.
        read : callable
            Reads the response; the connection is released when it returns.
        direct : bool
            Whether to bypass the proxy, as for this machine.

        Returns
        -------
        object
            The return value of ``read``.

        Raises
        ------
        AttemptFailed
            If there is no response, or it is truncated.
        """
        # No intermediate variables: the frames that hold the token are gone when AttemptFailed is raised.
        try:
            with (
                _open_body(call.content) as content,
                self._session.request(
                    call.method,
                    call.url,
                    params=dict(call.query),
                    data=content,
                    headers=dict(call.headers),
                    auth=_Authentication(call.token, call.form),
                    timeout=(self._timeouts.connect, self._timeouts.read),
                    # A redirect drops the body of a POST and may leak the token to another host.
                    allow_redirects=False,
                    proxies={"http": "", "https": ""} if direct else None,
                    stream=True,
                ) as response,
            ):
                return read(Response(response, seconds=self._timeouts.body))
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            problem, retry, reached_service = _diagnose(error, call, self._timeouts)
        raise AttemptFailed(Unavailable(problem), retry, reached_service=reached_service)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


def _open_body(content: bytes | Path | None) -> AbstractContextManager[bytes | BinaryIO | None]:
    if not isinstance(content, Path):
        return nullcontext(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{str(content)!r} cannot be read: {error.strerror}") from error


class _Authentication(requests.auth.AuthBase):
    """Add secrets to a request just before it is sent; always set, so that .netrc is never used."""

    def __init__(self, token: Secret[str] | None, form: Mapping[str, str | Secret[str]] | None) -> None:
        self._token = token
        self._form = form

    def __call__(self, prepared: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is not None:
            prepared.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        if self._form is not None:
            prepared.prepare_body(
                {
                    name: value if isinstance(value, str) else value.reveal()
                    for name, value in self._form.items()
                },
                None,
            )
        return prepared


def _diagnose(error: Exception, call: Call, timeouts: Timeouts) -> tuple[str, Retry, bool]:
    """Return the message, when to retry, and whether the request may have reached the service."""
    where = call.url.partition("?")[0]
    host = "/".join(call.url.split("/")[:3])
    if isinstance(error, requests.exceptions.SSLError):
        return (
            f"{host}: the connection is not secure ({_cause(error)}); check the address and the clock; if "
            "your network has its own certificate authority, set REQUESTS_CA_BUNDLE to its file",
            "never",
            False,
        )
    if isinstance(error, requests.exceptions.ProxyError):
        return (
            f"{host}: the proxy refused the connection ({_cause(error)}); check HTTPS_PROXY",
            "always",
            False,
        )
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return (
            f"{host}: no connection within {timeouts.connect:g} s; check the address and the network",
            "always",
            False,
        )
    if isinstance(error, requests.exceptions.ReadTimeout) or _is_read_timeout(error):
        return (
            f"{where}: no response within {timeouts.read:g} s; request fewer records (limit=, since=) or try "
            "again later",
            "if safe",
            True,
        )
    if _is_refused(error):
        return f"{host}: no connection ({_cause(error)}); check the address and the network", "always", False
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return f"{host}: is not the address of a service", "never", False
    return f"{where}: the connection was interrupted ({_cause(error)}); try again", "if safe", True


def _is_read_timeout(error: BaseException) -> bool:
    return any(isinstance(cause, urllib3.exceptions.ReadTimeoutError) for cause in _chain(error))


def _is_refused(error: BaseException) -> bool:
    return any(isinstance(cause, urllib3.exceptions.NewConnectionError) for cause in _chain(error))


def _cause(error: BaseException) -> str:
    """Return the operating system's message for a failure, which never contains a header or a body."""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            return cause.strerror
    return type(_chain(error)[-1]).__name__


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, the outermost first."""
    chain: list[BaseException] = []
    queue: list[object] = [error]
    while queue:
        cause = queue.pop(0)
        if isinstance(cause, BaseException) and cause not in chain:
            chain.append(cause)
            queue += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
    return chain


def _user_agent() -> str:
    try:
        version = importlib.metadata.version("attrib-ds")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return f"attrib-ds/{version} python/{platform.python_version()} requests/{requests.__version__}"
