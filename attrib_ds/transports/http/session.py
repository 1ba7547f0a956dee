"""Send HTTP requests over pooled connections, read bodies within bounds, and retry what is safe to repeat."""

import codecs
import http.client
import http.cookiejar
import platform
import random
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter

import attrib_ds
from attrib_ds import display, errors
from attrib_ds.keys import Secret

T = TypeVar("T")

#: When to retry a failed attempt: always (the service did not start it), if the operation is safe to repeat,
#: or never.
Retry = Literal["always", "if safe", "never"]
#: Says whether a result is still wanted; None if it always is.
Wanted: TypeAlias = Callable[[], bool] | None

#: Maximum number of connections per host; further threads wait for a free one.
_CONNECTIONS: Final = 32
#: Bytes of a piece. Smaller ones are joined, since a service may send single bytes.
_PIECE: Final = 2**16
#: Window of gzip for zlib, and the first byte of each member of it.
_GZIP: Final = zlib.MAX_WBITS | 16
_MAGIC: Final = b"\x1f"
_LONGEST_MEDIA: Final = 80
#: Shorter waits are not reported, in seconds.
_SHORTEST_REPORTED: Final = 2.0
#: Seconds between two checks whether a waiting thread should continue.
_POLL_INTERVAL: Final = 0.25
_CHARSET: Final = re.compile(r"charset=\"?([\w.:-]+)", re.IGNORECASE)
#: Halves of characters in JSON, in which texts end that a service has cut; what the group matches is right.
_HALVES: Final = re.compile(
    rb"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.DOTALL
)
PROXY_ADVICE: Final = (
    "the proxy asks for a password; write it into HTTPS_PROXY: http://user:password@proxy.example:3128"
)
UNKNOWN: Final = "; the request may have been carried out, so check before you send it again"

#: Bytes of an id, a number, counts, an access token or an error.
SMALL: Final = 2**20
#: Bytes of one record, the outcomes of a batch or the data of a user.
MEDIUM: Final = 2**26
#: Bytes of a page or a list of records.
LARGE: Final = 2**28


@dataclass(frozen=True)
class Clock:
    """Source of time and randomness; tests replace it.

    Parameters
    ----------
    monotonic, wall : callable
        Return seconds of a monotonic clock, and the Unix time.
    sleep : callable
        Waits for a number of seconds.
    random : callable
        Returns a random number from 0 to 1, for jitter.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds.

    Parameters
    ----------
    connect : float, default 10
        Time to establish a connection.
    read : float, default 120
        Time for the first byte of the response, and then between two bytes.
    body : float, default 600
        Time within which a body that is read into memory must be complete.
    """

    connect: float = 10.0
    read: float = 120.0
    body: float = 600.0


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Number of attempts and waits between them: exponential backoff with full jitter.

    Parameters
    ----------
    attempts : int, default 6
        Maximum number of attempts.
    seconds : float, default 120
        Time budget, from the first attempt on; a wait that would end later is not started.
    first_wait, longest_wait : float
        Upper bounds in seconds of the first and of any wait, unless the service sends Retry-After.
    """

    attempts: int = 6
    seconds: float = 120.0
    first_wait: float = 0.5
    longest_wait: float = 20.0


class AttemptFailed(Exception):
    """One attempt failed.

    Parameters
    ----------
    error : AttribError
        Raised to the user unless another attempt succeeds.
    retry : str
        See :data:`Retry`.
    reached_service : bool, default True
        Whether the service may have started to carry out the request.
    """

    def __init__(self, error: errors.AttribError, retry: Retry, *, reached_service: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.retry = retry
        self.reached_service = reached_service


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
    token : Secret of str, optional
        Access token of the request, which :attr:`redact` removes from a text, in case the service repeats it.
    seconds : float
        Time within which a body that is read into memory must be complete.
    """

    def __init__(self, response: requests.Response, token: Secret[str] | None, *, seconds: float) -> None:
        self._response = response
        self.redact: Callable[[str], str] = str if token is None else token.redact
        self._seconds = seconds
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def media(self) -> str:
        """Media type in lower case, without parameters; empty if there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()[:_LONGEST_MEDIA]

    @property
    def retry_after(self) -> float | None:
        """Seconds that the service asks to wait, if it does; until an instant by the service's own clock."""
        with suppress(urllib3.exceptions.InvalidHeader, KeyError, ValueError, TypeError, OverflowError):
            # Gateways send it with other responses too; some write a Unix time, which has ten digits.
            reset = self.headers.get("RateLimit-Reset", "") if self.status == 429 else ""
            text = self.headers.get("Retry-After", reset if len(reset) < 10 else "")
            if "Date" not in self.headers or text.strip().isdecimal():
                return float(urllib3.Retry().parse_retry_after(text))
            until, now = map(parsedate_to_datetime, (text, self.headers["Date"]))
            return max((until - now).total_seconds(), 0.0)
        return None

    def pieces(self, most: int | None) -> Iterator[bytes]:
        """Read the body in pieces of 64 KiB or more, decompressed.

        Parameters
        ----------
        most : int or None
            Maximum number of bytes after decompression; None for a body that goes to disk.

        Raises
        ------
        AttemptFailed
            If the body is too large or too slow.
        """
        deadline = time.monotonic() + self._seconds
        piece = bytearray()
        size = 0
        is_gzip = self.headers.get("Content-Encoding", "").strip().lower() in ("gzip", "x-gzip")
        # read() would wait until a piece is full, however slowly it arrives.
        chunks = iter(partial(self._response.raw.read1, _PIECE, decode_content=not is_gzip), b"")
        for chunk in _decompressed(chunks) if is_gzip else chunks:
            size += len(chunk)
            if most is not None and size > most:
                text = f"the response is larger than the {most >> 20:,} MiB that are accepted"
                raise AttemptFailed(errors.ServiceFailure(f"{text}; request fewer records (limit=)"), "never")
            if most is not None and time.monotonic() > deadline:
                text = f"the response was not complete within {self._seconds:g} s"
                advice = "request fewer records (limit=, since=) or try again later"
                raise AttemptFailed(errors.Unavailable(f"{text}; {advice}"), "if safe")
            piece += chunk
            if len(piece) >= _PIECE:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    def content(self, most: int) -> bytes:
        """Read the whole body, text in UTF-8, of at most this many bytes."""
        return self._in_utf_8(b"".join(self.pieces(most)))

    def beginning(self) -> bytes:
        """Read at most a mebibyte of the body, enough for any error, or what comes if it breaks off."""
        read = bytearray()
        with suppress(AttemptFailed, urllib3.exceptions.HTTPError):
            for piece in self.pieces(SMALL):
                read += piece
        return self._in_utf_8(bytes(read))

    def _in_utf_8(self, content: bytes) -> bytes:
        charset = _CHARSET.search(self.headers.get("Content-Type", ""))
        if charset and charset[1].lower() not in ("utf-8", "utf8"):
            with suppress(LookupError, UnicodeDecodeError):
                content = content.decode(charset[1]).encode()
        if b"\\ud" in content or b"\\uD" in content:
            content = _HALVES.sub(lambda match: match[1] or b"\\ufffd", content)
        return content.removeprefix(codecs.BOM_UTF8)


def _decompressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress gzip; raise an error if it ends early, which urllib3 takes for the end of the body."""
    member = zlib.decompressobj(wbits=_GZIP)
    is_whole = True
    for chunk in chunks:
        while chunk and not (member.eof and chunk[:1] != _MAGIC):
            member = zlib.decompressobj(wbits=_GZIP) if member.eof else member
            try:
                yield member.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise urllib3.exceptions.DecodeError from error
            chunk, is_whole = member.unconsumed_tail or member.unused_data, member.eof
    if not is_whole:
        raise urllib3.exceptions.ProtocolError


class _Final(http.client.HTTPResponse):
    """An HTTP response after all interim ones, of which http.client skips 100 only."""

    def begin(self) -> None:
        """Read heads until the final one; a head that is known is not read again."""
        super().begin()
        while self.status < 200:
            self.headers = self.msg = None  # type: ignore[assignment]
            super().begin()


class _Adapter(HTTPAdapter):
    """Connections that read the final response."""

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return a pool of such connections."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        if pool.ConnectionCls.response_class is not _Final:
            pool.ConnectionCls = type("_Connection", (pool.ConnectionCls,), {"response_class": _Final})
        return pool


class _Requests(requests.Session):
    """A session that leaves redirects alone.

    They drop the body of a POST and may leak the token to another host; requests would read their bodies.
    """

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, as for a response that is not a redirect."""


class Session:
    """Send requests, read their responses, and retry them.

    Parameters
    ----------
    timeouts : Timeouts
        Connect and read timeouts.
    retry_policy : RetryPolicy
        Applied to each request.
    clock : Clock
        Source of time.
    """

    def __init__(self, timeouts: Timeouts, retry_policy: RetryPolicy, clock: Clock) -> None:
        self._timeouts = timeouts
        self._retry_policy = retry_policy
        self.clock = clock
        self._session = _Requests()
        versions = f"attrib-ds/{attrib_ds.__version__} python/{platform.python_version()}"
        self._session.headers["User-Agent"] = f"{versions} requests/{requests.__version__}"
        self._session.headers["Accept-Encoding"] = "gzip"
        # Tokens authenticate the caller; cookies are never stored.
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        adapter = _Adapter(pool_connections=4, pool_maxsize=_CONNECTIONS, pool_block=True, max_retries=0)
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
                    proxies={"http": "", "https": ""} if direct else None,
                    stream=True,
                ) as response,
            ):
                return read(Response(response, call.token, seconds=self._timeouts.body))
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            problem, retry, reached_service = _diagnose(error, call, self._timeouts)
        except OSError as error:
            # requests raises a plain one for certificates that are not there.
            if "certificate" not in str(error):
                raise
            problem, retry, reached_service = f"{error}; check REQUESTS_CA_BUNDLE", "never", False
        raise AttemptFailed(errors.Unavailable(problem), retry, reached_service=reached_service)

    def retry(self, attempt: Callable[[], T], *, is_safe: bool, is_wanted: Wanted = None) -> T:
        """Run a request, and retry it after a failure if that is safe.

        Parameters
        ----------
        attempt : callable
            Raises :class:`AttemptFailed` if it may be retried; other exceptions propagate.
        is_safe : bool
            Whether the request is idempotent.
        is_wanted : callable, optional
            Returns whether to continue; also polled during waits.

        Returns
        -------
        object
            Result of the successful attempt.

        Raises
        ------
        AttribError
            The error of the last attempt.
        """
        policy = self._retry_policy
        deadline = self.clock.monotonic() + policy.seconds
        number = 0
        while True:
            number += 1
            try:
                return attempt()
            except AttemptFailed as failed:
                failure = failed
            error = failure.error
            if failure.retry == "never" or (failure.retry == "if safe" and not is_safe):
                if failure.retry == "if safe" and failure.reached_service:
                    error.message += UNKNOWN
                    error.is_unknown = True
                break
            if number == policy.attempts:
                break
            longest = min(policy.first_wait * 2.0 ** (number - 1), policy.longest_wait)
            wait = self.clock.random() * longest if error.retry_after is None else error.retry_after
            if self.clock.monotonic() + wait > deadline:
                if error.retry_after is not None:
                    error.message += f"; the service asks to wait {error.retry_after:,.0f} s"
                break
            self._wait(wait, error.message.partition("\n")[0][:200], is_wanted)
            if is_wanted is not None and not is_wanted():
                break
        # Outside the handler, so that the error carries no other traceback or context.
        raise error

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _wait(self, seconds: float, reason: str, is_wanted: Wanted) -> None:
        """Wait while the result is wanted; report long waits to an interactive user."""
        if seconds >= _SHORTEST_REPORTED and display.is_watched():
            sys.stderr.write(f"attrib-ds: waiting {seconds:.0f} s: {reason}\n")
            sys.stderr.flush()
        while seconds > 0 and (is_wanted is None or is_wanted()):
            pause = seconds if is_wanted is None else min(seconds, _POLL_INTERVAL)
            self.clock.sleep(pause)
            seconds -= pause


def _open_body(content: bytes | Path | None) -> AbstractContextManager[bytes | BinaryIO | None]:
    if not isinstance(content, Path):
        return nullcontext(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise errors.InvalidRequest(f"{str(content)!r} cannot be read: {error.strerror}") from error


class _Authentication(requests.auth.AuthBase):
    """Add secrets to a request just before it is sent; always set, so that .netrc is never used."""

    def __init__(self, token: Secret[str] | None, form: Mapping[str, str | Secret[str]] | None) -> None:
        self._token = token
        self._form = form

    def __call__(self, prepared: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is not None:
            prepared.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        if self._form is not None:
            form = self._form.items()
            plain = {name: value if isinstance(value, str) else value.reveal() for name, value in form}
            prepared.prepare_body(plain, None)
        return prepared


def _diagnose(error: Exception, call: Call, timeouts: Timeouts) -> tuple[str, Retry, bool]:
    """Return the message, when to retry, and whether the request may have reached the service."""
    where = call.url.partition("?")[0]
    host = "/".join(call.url.split("/")[:3])
    chain = _chain(error)
    if isinstance(error, requests.exceptions.SSLError):
        problem = f"the connection is not secure ({_cause(chain)}); check the address and the clock"
        advice = "if your network has its own certificate authority, set REQUESTS_CA_BUNDLE to its file"
        return f"{host}: {problem}; {advice}", "never", False
    if isinstance(error, requests.exceptions.ProxyError):
        problem = f"the proxy refused the connection ({_cause(chain)})"
        is_locked = any("407" in str(cause) for cause in chain)
        advice = PROXY_ADVICE if is_locked else "check HTTPS_PROXY"
        return f"{host}: {problem}; {advice}", "never" if is_locked else "always", False
    if any(isinstance(cause, urllib3.exceptions.ReadTimeoutError) for cause in chain):
        advice = "request fewer records (limit=, since=) or try again later"
        return f"{where}: no response within {timeouts.read:g} s; {advice}", "if safe", True
    if any(isinstance(cause, urllib3.exceptions.DecodeError) for cause in chain):
        return f"{where}: the response is not compressed as its Content-Encoding says", "if safe", True
    is_late = isinstance(error, requests.exceptions.ConnectTimeout)
    if is_late or any(isinstance(cause, urllib3.exceptions.NewConnectionError) for cause in chain):
        problem = "no connection " + (f"within {timeouts.connect:g} s" if is_late else f"({_cause(chain)})")
        return f"{host}: {problem}; check the address and the network", "always", False
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return f"{host}: is not the address of a service", "never", False
    return f"{where}: the connection was interrupted ({_cause(chain)}); try again", "if safe", True


def _cause(chain: list[BaseException]) -> str:
    """Return the operating system's message for a failure, which never contains a header or a body."""
    for cause in chain:
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            return cause.strerror
    return type(chain[-1]).__name__


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
