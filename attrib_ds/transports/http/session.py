"""Sends requests over pooled connections; the only file that knows how requests reports failures."""

from __future__ import annotations

import http.cookiejar
import importlib.metadata
import io
import platform
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter

from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.transports.http.retrying import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from attrib_ds.transports.http.retrying import Again
    from attrib_ds.transports.http.secret import Secret

T = TypeVar("T")

#: Connections to one host; further workers wait for one of them.
_CONNECTIONS: Final = 32
_CHUNK: Final = 2**16
_LARGEST_ERROR: Final = 2**20


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """How long the service may be silent, in seconds.

    Parameters
    ----------
    connect : float, default 10
        Until a connection is there.
    read : float, default 120
        Until the next byte.
    """

    connect: float = 10.0
    read: float = 120.0


@dataclass(frozen=True, kw_only=True)
class Call:
    """One HTTP request, its secrets apart.

    Parameters
    ----------
    method, url : str
        Where it goes.
    query, headers : mapping of str to str
        As they are sent.
    content : bytes or Path, optional
        Body, or the file that is the body.
    token : Secret of str, optional
        Access token.
    form : mapping of str to (str or Secret), optional
        Sent as a form in place of the body.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Path | None = None
    token: Secret[str] | None = None
    form: Mapping[str, str | Secret[str]] | None = None


class Response:
    """What came back, of which the body is still to be read.

    Parameters
    ----------
    response : requests.Response
        With its connection.
    """

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def media(self) -> str:
        """The media type, in lower case and without parameters; empty if none is given."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def chunks(self) -> Iterator[bytes]:
        """Read the body piece by piece, unpacked."""
        return self._response.iter_content(_CHUNK)

    def content(self) -> bytes:
        """Read the whole body."""
        return b"".join(self.chunks())

    def beginning(self) -> bytes:
        """Read the body of an error, of which no more is needed than this."""
        read = b""
        for chunk in self.chunks():
            read += chunk
            if len(read) > _LARGEST_ERROR:
                break
        return read

    def file(self) -> io.BufferedIOBase:
        """Read the body as a file."""
        return io.BufferedReader(_File(self.chunks()), _CHUNK)


class _File(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


class Session:
    """Send requests and read their answers.

    Parameters
    ----------
    timeouts : Timeouts
        How long the service may be silent.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._session = requests.Session()
        self._session.headers["User-Agent"] = _user_agent()
        # Tokens say who asks; a cookie never does.
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        adapter = HTTPAdapter(pool_connections=4, pool_maxsize=_CONNECTIONS, pool_block=True, max_retries=0)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    def exchange(self, call: Call, read: Callable[[Response], T], *, direct: bool) -> T:
        """Send one request and read what comes back.

        Parameters
        ----------
        call : Call
            What to send.
        read : callable
            Reads the answer; the connection is free again when it returns.
        direct : bool
            Whether no proxy is asked, as for this machine.

        Returns
        -------
        object
            What ``read`` returned.

        Raises
        ------
        Failed
            If there is no answer, or it breaks off.
        """
        # Without names in between: the frames that hold the token are gone when Failed is raised.
        try:
            with (
                _opened(call.content) as content,
                self._session.request(
                    call.method,
                    call.url,
                    params=dict(call.query),
                    data=content,
                    headers=dict(call.headers),
                    auth=_Proof(call.token, call.form),
                    timeout=(self._timeouts.connect, self._timeouts.read),
                    # A redirect drops the body of a POST, and may lead a token elsewhere.
                    allow_redirects=False,
                    proxies={"http": "", "https": ""} if direct else None,
                    stream=True,
                ) as response,
            ):
                return read(Response(response))
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            problem, again, began = _told(error, call, self._timeouts)
        raise Failed(Unavailable(problem), again, began=began)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


def _opened(content: bytes | Path | None) -> AbstractContextManager[bytes | BinaryIO | None]:
    if not isinstance(content, Path):
        return nullcontext(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{str(content)!r} cannot be read: {error.strerror}") from error


class _Proof(requests.auth.AuthBase):
    """Puts secrets into a request at the last moment; without any it keeps a .netrc file out."""

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


def _told(error: Exception, call: Call, timeouts: Timeouts) -> tuple[str, Again, bool]:
    """Return what is wrong and what to do, whether to try again, and whether the service may have begun."""
    where = call.url.partition("?")[0]
    host = "/".join(call.url.split("/")[:3])
    if isinstance(error, requests.exceptions.SSLError):
        return (
            f"{host}: the connection is not secure ({_cause(error)}); check the address and the clock, and "
            "where your network has a certificate authority of its own, name its file in REQUESTS_CA_BUNDLE",
            "never",
            False,
        )
    if isinstance(error, requests.exceptions.ProxyError):
        return f"{host}: the proxy does not let through ({_cause(error)}); check HTTPS_PROXY", "always", False
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return (
            f"{host}: no connection within {timeouts.connect:g} s; check the address and the network",
            "always",
            False,
        )
    if isinstance(error, requests.exceptions.ReadTimeout) or _is_read_timeout(error):
        return (
            f"{where}: no answer for {timeouts.read:g} s; ask for less at once (limit=, since=), or try "
            "again later",
            "if safe",
            True,
        )
    if _is_refused(error):
        return f"{host}: no connection ({_cause(error)}); check the address and the network", "always", False
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return f"{host}: is no address of a service", "never", False
    return f"{where}: the connection broke off ({_cause(error)}); try again", "if safe", True


def _is_read_timeout(error: BaseException) -> bool:
    return any(isinstance(each, urllib3.exceptions.ReadTimeoutError) for each in _chain(error))


def _is_refused(error: BaseException) -> bool:
    return any(isinstance(each, urllib3.exceptions.NewConnectionError) for each in _chain(error))


def _cause(error: BaseException) -> str:
    """Return the system's own words for a failure, which never hold a header or a body."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.strerror and not isinstance(each, requests.RequestException):
            return each.strerror
    return type(_chain(error)[-1]).__name__


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and those inside it, the outermost first."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, BaseException) and each not in found:
            found.append(each)
            waiting += [*each.args, getattr(each, "reason", None), each.__cause__, each.__context__]
    return found


def _user_agent() -> str:
    try:
        version = importlib.metadata.version("attrib-ds")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return f"attrib-ds/{version} python/{platform.python_version()} requests/{requests.__version__}"
