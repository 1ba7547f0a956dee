"""Keys of service accounts, and the access tokens that they are exchanged for, shared between threads."""

import copy
import json
import os
import re
import stat
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from attrib_ds import json_numbers
from attrib_ds.contract.administration import JWT_BEARER
from attrib_ds.contract.json_values import is_deeper
from attrib_ds.errors import AttribError, InvalidRequest, ServiceFailure, Unauthorized, Unavailable
from attrib_ds.keys import FULL_ACCESS, Secret
from attrib_ds.transports.http.remote_errors import read_body, told
from attrib_ds.transports.http.session import PROXY_ADVICE, SMALL, AttemptFailed, Call, Response, Session

#: A path, or the content as a secret.
KeySource: TypeAlias = str | Path | Secret[Mapping[str, Any]] | Secret[str]

_MEMBERS: Final = ("clientId", "serviceAccountEmail", "privateKeyId", "privateKey")
_FEWEST_BITS: Final = 2_048
_LARGEST: Final = 65_536
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ALGORITHM: Final = "RS256"
#: Validity of an assertion in seconds; a service accepts an hour at most.
_VALIDITY: Final = 300
#: Seconds by which ``iat`` is backdated, for services whose clock is slightly behind.
_SECONDS_BEFORE: Final = 10
#: Smaller differences of clocks come from latency and from the whole seconds of a Date header.
_SMALLEST_DIFFERENCE: Final = 5.0
#: Lifetime of a token in seconds if the response states none.
_DEFAULT_LIFETIME: Final = 300.0
#: A token that is said to live longer is renewed after a day.
_LONGEST_LIFETIME: Final = 86_400
_LONGEST_MARGIN: Final = 60.0
_MARGIN: Final = 0.1
#: Characters that a header can carry; slightly more than RFC 6750, section 2.1 allows.
_TOKEN: Final = re.compile(r"[!-~]{1,65536}")
_LONGEST_DESCRIPTION: Final = 300
_MEMBERS_OF_ERRORS: Final = ("error", "error_description", "message")


@dataclass(frozen=True)
class Credentials:
    """Key of a service account.

    Parameters
    ----------
    client_id, email : str
        Id and email of the account.
    key_id : str
        Id of the key.
    private_key : Secret of str
        Private key in PEM.
    """

    client_id: str
    email: str
    key_id: str
    private_key: Secret[str]


def protect_key(key: str | Path | Mapping[str, Any] | Secret[Any]) -> KeySource:
    """Wrap the content of a key in a secret; a path stays as it is. Never raises.

    Examples
    --------
    >>> protect_key({"privateKey": "-----BEGIN PRIVATE KEY-----"}), protect_key("key.json")
    ([secret], 'key.json')
    """
    if isinstance(key, Mapping):
        return Secret[Mapping[str, Any]](dict(key))
    return Secret(key) if isinstance(key, str) and key.lstrip().startswith("{") else key


def read_credentials(key: KeySource, *, argument: str = "key") -> Credentials:
    """Read and check a key.

    Parameters
    ----------
    key : str, Path or Secret
        Path of a key file, or its content from :func:`protect_key`.
    argument : str, default "key"
        Name of the argument, for errors.

    Returns
    -------
    Credentials
        Complete, with a private key that can sign.

    Raises
    ------
    InvalidRequest
        If the file does not exist, a member is missing, or the private key is invalid. No message shows the
        key.

    Warns
    -----
    UserWarning
        If users other than its owner may read the file.
    """
    shown, problem, content = "the content given", None, key
    if not isinstance(content, Secret):
        shown, (content, problem) = repr(str(key)), _content(Path(content).expanduser())
    members, problem = ({}, problem) if problem else _parsed(content)
    missing = [name for name in _MEMBERS if name not in members]
    if problem is None and missing:
        problem = f"has no {' and '.join(missing)}; a key file contains {', '.join(_MEMBERS)} as strings"
    problem = problem or _problem_of_private_key(members["privateKey"])
    if problem is not None:
        raise InvalidRequest(f"{argument}: {shown} {problem}")
    client_id, email, key_id, private_key = (members[name] for name in _MEMBERS)
    return Credentials(client_id.reveal(), email.reveal(), key_id.reveal(), private_key)


def _content(path: Path) -> tuple[Secret[str], str | None]:
    """Return the content of a file, and a description of the problem, if there is one."""
    content = Secret("")
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) or path.stat().st_size > _LARGEST:
            return content, "is not a key file"
        content = Secret(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return content, "does not exist; pass the path of the service account's JSON file"
    except (OSError, UnicodeDecodeError) as error:
        return content, f"cannot be read ({type(error).__name__})"
    if os.name == "posix" and mode & _OTHERS:
        problem = f"{str(path)!r} can be read by other users of this machine"
        warnings.warn(f"key: {problem}; restrict it to yourself: chmod 600 {path}", stacklevel=5)
    return content, None


def _parsed(content: Secret[Any]) -> tuple[dict[str, Secret[str]], str | None]:
    """Return the members that are strings; never raises, so that no traceback holds the plain content."""
    try:
        plain = content.reveal()
        if isinstance(plain, str):
            plain = None if is_deeper(plain.encode()) else json.loads(plain)
    except ValueError:
        return {}, "is not JSON"
    if not isinstance(plain, Mapping):
        return {}, "is not a JSON object"
    return {
        name: Secret(plain[name]) for name in _MEMBERS if isinstance(plain.get(name), str) and plain[name]
    }, None


def _problem_of_private_key(private_key: Secret[str]) -> str | None:
    try:
        loaded = load_pem_private_key(private_key.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "has a privateKey that is not an unencrypted private key in PEM (with line breaks as \\n)"
    if not isinstance(loaded, RSAPrivateKey):
        return "has a privateKey that is not an RSA key"
    if loaded.key_size < _FEWEST_BITS:
        return f"has a privateKey of {loaded.key_size} bits; allowed: {_FEWEST_BITS} or more"
    return None


class Tokens:
    """The access token of one transport, requested with a signed assertion (RFC 7523).

    Parameters
    ----------
    session : Session
        Sends the requests.
    credentials : Credentials
        Key of the service account.
    url : str
        URL of the token route.
    direct : bool
        Whether to bypass the proxy.
    """

    def __init__(self, session: Session, credentials: Credentials, url: str, *, direct: bool) -> None:
        self._session = session
        self._clock = session.clock
        self._credentials = credentials
        self._url = url
        self._direct = direct
        self._lock = threading.Lock()
        self._token: Secret[str] | None = None
        self._renew_at = 0.0
        #: Number of requests that ended, and the error of the last one.
        self._requests = 0
        self._failure: AttribError | None = None
        #: Requested for every token, until the service says that the key has fewer scopes.
        self._scope: str | None = FULL_ACCESS
        #: Seconds by which the service's clock is ahead.
        self._ahead = 0.0

    def get(self, *, rejected: Secret[str] | None = None) -> Secret[str]:
        """Return a valid token, another one than the rejected; one thread requests it for all that wait."""
        requests = self._requests
        with self._lock:
            if self._token not in (None, rejected) and self._clock.monotonic() < self._renew_at:
                return self._token
            failure = self._failure if self._requests > requests else None
            if failure is None:
                self._failure = None
                try:
                    self._token = self._session.retry(self._request, is_safe=True)
                    return self._token
                except AttribError as error:
                    self._failure = error
                    raise
                finally:
                    self._requests += 1
        # The request that this thread waited for failed; each thread raises an error of its own.
        raise copy.copy(failure)

    def _request(self) -> Secret[str]:
        started_at = self._clock.monotonic()
        result, ahead = self._exchange()
        if self._scope is not None and _is_error(result, "invalid_scope"):
            # A key with fewer scopes is used with those that it has.
            self._scope = None
            result, ahead = self._exchange()
        is_refusal = isinstance(result, AttemptFailed) and isinstance(result.error, Unauthorized)
        if is_refusal and abs(ahead - self._ahead) >= _SMALLEST_DIFFERENCE:
            # The clock of this machine is wrong.
            self._ahead = ahead
            result, _ = self._exchange()
        if isinstance(result, AttemptFailed):
            raise result
        token, seconds = result
        self._renew_at = started_at + seconds - min(_LONGEST_MARGIN, seconds * _MARGIN)
        return token

    def _exchange(self) -> tuple[tuple[Secret[str], float] | AttemptFailed, float]:
        """Request a token once; return it with its lifetime, and by how much the service's clock is ahead."""
        now = self._clock.wall() + self._ahead
        assertion = make_assertion(self._credentials, audience=self._url, now=now, scope=self._scope)
        call = Call(
            method="POST",
            url=self._url,
            headers={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
            form={"grant_type": JWT_BEARER, "client_id": self._credentials.client_id, "assertion": assertion},
        )

        def read(response: Response) -> tuple[tuple[Secret[str], float] | AttemptFailed, float]:
            try:
                # Half a second: the header is truncated to whole seconds.
                date = parsedate_to_datetime(response.headers["Date"]).timestamp() + 0.5
            except (KeyError, ValueError, TypeError, OverflowError):
                date = now
            return _read_grant(response, assertion), date - self._clock.wall()

        return self._session.exchange(call, read, direct=self._direct)


def make_assertion(
    credentials: Credentials, *, audience: str, now: float, scope: str | None = FULL_ACCESS
) -> Secret[str]:
    """Sign an assertion.

    Parameters
    ----------
    credentials : Credentials
        Key of the service account.
    audience : str
        URL of the token route.
    now : float
        Unix time by the service's clock.
    scope : str, optional
        Scopes to request; None for those that the account has.

    Returns
    -------
    Secret of str
        A JWT.

    Raises
    ------
    InvalidRequest
        If the private key cannot sign.
    """
    claims = {
        "iss": credentials.client_id,
        "sub": credentials.email,
        "aud": audience,
        **({} if scope is None else {"scope": scope}),
        "iat": int(now) - _SECONDS_BEFORE,
        "exp": int(now) + _VALIDITY,
    }
    headers = {"kid": credentials.key_id, "typ": "JWT"}
    try:
        signed = jwt.encode(claims, credentials.private_key.reveal(), algorithm=_ALGORITHM, headers=headers)
        return Secret(signed)
    except (jwt.PyJWTError, ValueError, TypeError):
        pass
    # Outside the handler: the traceback of the failure holds the private key.
    raise InvalidRequest(f"key: the private key {credentials.key_id!r} cannot sign")


def _is_error(result: object, name: str) -> bool:
    return isinstance(result, AttemptFailed) and {"error": name} in result.error.details


def _read_grant(response: Response, assertion: Secret[str]) -> tuple[Secret[str], float] | AttemptFailed:
    """Return the token and its lifetime; a failure is not raised: its traceback would hold both."""
    if not 200 <= response.status < 300:
        return _read_failure(response, read_body(response.beginning(), assertion.redact))
    members = read_body(response.content(SMALL), assertion.redact)
    token: Any = members.get("access_token")
    token_type = members.get("token_type") or "Bearer"
    problem = None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        problem = "without an access_token; check auth_url="
    elif not isinstance(token_type, str) or token_type.strip().lower() != "bearer":
        problem = "with a token_type other than Bearer"
    if problem is not None:
        # Anything else may be the token.
        quotable = {*_MEMBERS_OF_ERRORS, *(["title"] if "html" in response.media else [])}
        said = told({name: value for name, value in members.items() if name in quotable})
        text = f"the token route answered {problem}{f': {said}' if said else ''}"
        return AttemptFailed(ServiceFailure(text), "never")
    seconds = json_numbers.count(members.get("expires_in")) or 0
    return Secret(token), float(min(seconds, _LONGEST_LIFETIME)) if seconds > 0 else _DEFAULT_LIFETIME


def _read_failure(response: Response, members: dict[str, Any]) -> AttemptFailed:
    status = response.status
    values = {told(members.get(name)): None for name in _MEMBERS_OF_ERRORS}
    said = (": ".join(filter(None, values)) or told(members))[:_LONGEST_DESCRIPTION]
    text = f"the token route answered {status}{': ' if said else ''}{said}"
    if status in (408, 425, 429) or (status >= 500 and status != 501):
        return AttemptFailed(Unavailable(text, retry_after=response.retry_after), "always")
    if 300 <= status < 400 or status in (404, 405, 410, 501):
        location = response.headers.get("Location", "").partition("?")[0][:_LONGEST_DESCRIPTION]
        moved = f"it has moved to {location}; pass auth_url= without /oidc/token"
        advice = moved if location else "check auth_url="
        return AttemptFailed(InvalidRequest(f"{text}; {advice}", field="auth_url"), "never")
    if status == 407:
        return AttemptFailed(Unavailable(f"{text}; {PROXY_ADVICE}"), "never")
    advice = "check that the key is the right one and is not revoked"
    if members.get("error") == "invalid_scope":
        advice = "the service grants no scope to this key"
    elif members.get("error") == "invalid_grant":
        advice += ", that auth_url= is the service's own address, and that this machine's clock is right"
    details = [{"error": members["error"]}] if isinstance(members.get("error"), str) else []
    return AttemptFailed(Unauthorized(f"{text}; {advice}", field="key", details=details), "never")
