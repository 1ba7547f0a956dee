"""What is known of a visitor: place of the address, user agent, whether a bot, and filtered traffic."""

import ipaddress
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import maxminddb
import pyarrow as pa
import ua_parser
from crawleruseragents import CRAWLER_USER_AGENTS_DATA, is_crawler
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import schema, sql_results
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import arrow_view

#: Processor time after which a text of a hit is given up.
_MOST_SECONDS: Final = 1.0
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Unresolved:
    """Why a text of a hit has no result."""

    reason: str


def resolve_in_time(
    resolve: Callable[[Key], Value],
    keys: Sequence[Key],
    *,
    example: Key | None = None,
    seconds: float = _MOST_SECONDS,
) -> list[Value | Unresolved]:
    """Return what a function makes of each key; those that fail or take too long do not hold up the others.

    The example is resolved first, without a limit: loading the rules takes none of the first key's time.

    Examples
    --------
    >>> resolve_in_time(lambda key: 1 / key, [2, 0])
    [0.5, Unresolved(reason='cannot be read: division by zero')]
    """
    results: list[Value | Unresolved] = []
    if keys and example is not None:
        resolve(example)
    while len(results) < len(keys):
        # A thread cannot be interrupted; it is left behind, and ends with the process at the latest.
        found: list[Value | Unresolved] = []
        is_given_up, clock = threading.Event(), _ThreadClock()
        arguments = (resolve, keys[len(results) :], seconds, found, is_given_up, clock)
        thread = threading.Thread(target=_resolve_each, args=arguments, daemon=True)
        thread.start()
        count, began = 0, clock.seconds()
        # Processor time of the thread: neither a busy machine nor other threads make it give up.
        while thread.is_alive() and (len(found) > count or clock.seconds() - began <= seconds):
            if len(found) > count:
                count, began = len(found), clock.seconds()
            thread.join(seconds / 4)
        is_given_up.set()
        results += found[:]
        if len(results) < len(keys):
            results.append(_late(seconds))
    return results


class _ThreadClock:
    """The processor time of a thread, read from another one; of the process where the system has none."""

    def __init__(self) -> None:
        self._id: int | None = None
        self._is_started = threading.Event()

    def start(self) -> None:
        """Measure the thread that calls this."""
        find = getattr(time, "pthread_getcpuclockid", None)
        self._id = None if find is None else find(threading.get_ident())
        self._is_started.set()

    def seconds(self) -> float:
        """Return the processor time; any value after the thread has ended."""
        self._is_started.wait()
        if self._id is None:
            return time.process_time()
        with suppress(OSError):
            return time.clock_gettime(self._id)
        return 0.0


def _resolve_each(
    resolve: Callable[[Key], Value],
    keys: Sequence[Key],
    seconds: float,
    found: list[Value | Unresolved],
    is_given_up: threading.Event,
    clock: _ThreadClock,
) -> None:
    clock.start()
    for key in keys:
        started_at = time.thread_time()
        try:
            result: Value | Unresolved = resolve(key)
        except Exception as error:  # noqa: BLE001  (whoever sends a hit chooses its texts)
            result = Unresolved(f"cannot be read: {error}")
        if is_given_up.is_set():
            return
        found.append(_late(seconds) if time.thread_time() - started_at > seconds else result)


def _late(seconds: float) -> Unresolved:
    return Unresolved(f"took more than {seconds:g} s to read")


_AGENT: Final = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
#: Longest text that is parsed; the patterns need longer for longer texts.
LONGEST_AGENT: Final = 1_024
_BOT: Final = "Spider"
#: Columns of an interaction for the properties of its user agent.
COLUMNS: Final = (
    "userAgent.browser.name",
    "userAgent.browser.version",
    "userAgent.browser.major",
    "userAgent.engine.name",
    "userAgent.engine.version",
    "userAgent.os.name",
    "userAgent.os.version",
    "userAgent.device.vendor",
    "userAgent.device.model",
    "userAgent.device.type",
    "userAgent.cpu.architecture",
)


def _rules(*rules: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in rules)


#: What a user agent says by the first pattern that it has. Browsers name the engines that they resemble,
#: so that the oldest ones come last; Blink is WebKit 537.36 of Chrome 28 and later.
_ENGINES: Final = _rules(
    ("EdgeHTML", r"\bEdge/([\d.]+)"),
    ("Trident", r"\bTrident/([\d.]+)"),
    ("Goanna", r"\bGoanna/([\d.]+)"),
    ("Presto", r"\bPresto/([\d.]+)"),
    ("KHTML", r"\bKHTML/([\d.]+)"),
    ("Blink", r"\bAppleWebKit/537\.36\b.* Chrom(?:e|ium)/((?:2[89]|[3-9]\d|\d{3,})\.[\d.]+)"),
    ("WebKit", r"\bAppleWebKit/([\d.]+)"),
    ("Gecko", r"\brv:([\w.]+)\).* Gecko/"),
)
_DEVICES: Final = _rules(
    (
        "smarttv",
        r"smart-?tv|HbbTV|web0s|NetCast|Apple ?TV|Google ?TV|Android TV|BRAVIA|\bAFT[A-Z]|CrKey|Roku",
    ),
    ("console", r"PlayStation|Xbox|Nintendo"),
    ("wearable", r"\bwatch\b|watchOS"),
    ("tablet", r"iPad|Tablet(?! PC)|PlayBook|Kindle|Android(?!.*Mobi)"),
    ("mobile", r"Mobi|iPhone|iPod|Phone|Opera Mini|BlackBerry|MIDP|Symbian"),
    ("desktop", r"Windows NT|Macintosh|X11|CrOS|Linux (?:x86_64|i[3-6]86|aarch64)"),
)
#: Macs name Intel whatever their processor is, and Android names none.
_PROCESSORS: Final = _rules(
    ("arm64", r"\baarch64\b|\barm_?64|\barmv8"),
    ("arm", r"\barm(?:v[5-7]\w*|eabi\w*)?\b|Windows (?:CE|Mobile)"),
    ("amd64", r"\bx86_64\b|\bamd64\b|\bwin64\b|\bwow64\b|\bx64\b"),
    ("ia32", r"\bi[3-6]86\b|\bia32\b|\bx86\b"),
    ("ppc", r"\bppc\b|PowerPC"),
)


@lru_cache(maxsize=10_000)
def is_bot(text: str) -> bool:
    """Return whether a user agent is a known bot, or empty.

    Examples
    --------
    >>> is_bot("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"), is_bot(" ")
    (True, True)
    >>> is_bot("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0")
    False
    """
    word = text.strip()[:LONGEST_AGENT]
    if not word or is_crawler(word):
        return True
    device = ua_parser.parse_device(word)
    return device is not None and device.family == _BOT


@lru_cache(maxsize=10_000)
def describe(text: str) -> tuple[str | None, ...]:
    """Return the properties of a user agent in the order of :data:`COLUMNS`; None where unknown.

    Examples
    --------
    >>> phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15"
    >>> describe(f"{phone} (KHTML, like Gecko) Version/17.2 Mobile/15E148 Safari/604.1")
    ('Mobile Safari', '17.2', '17', 'WebKit', '605.1.15', 'iOS', '17.2', 'Apple', 'iPhone', 'mobile', None)
    """
    word = text[:LONGEST_AGENT]
    parsed = ua_parser.parse(word)
    browser, system, device = parsed.user_agent, parsed.os, parsed.device
    named: tuple[str | None, ...] = (None, None, None)
    if browser:
        named = (browser.family, _version(browser.major, browser.minor, browser.patch), browser.major)
    return (
        *(_crawler(word) or named),
        *_first(_ENGINES, word),
        system.family if system else None,
        _version(system.major, system.minor, system.patch) if system else None,
        device.brand if device else None,
        device.model if device else None,
        _first(_DEVICES, word)[0],
        _first(_PROCESSORS, word)[0],
    )


@cache
def _crawlers() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{crawler['pattern']})" for crawler in CRAWLER_USER_AGENTS_DATA))


def _crawler(text: str) -> tuple[str | None, str | None, str | None] | None:
    """Return the name, version and major version of a listed crawler; None for other agents.

    The general patterns take the name of some from the address in the comment.
    """
    found = _crawlers().search(text) if is_crawler(text) else None
    if found is None:
        return None
    version = re.match(r"[/ ]?v?(\d+)(?:\.\d+)*", text[found.end() :])
    name = re.sub(r"^\W+|\W+$", "", found[0])
    return name, version and version[0].lstrip("/ v"), version and version[1]


def _first(rules: Sequence[tuple[str, re.Pattern[str]]], text: str) -> tuple[str | None, str | None]:
    """Return the name of the first rule that holds for a text, and the version that it finds."""
    for name, pattern in rules:
        if found := pattern.search(text):
            return name, found[1] if pattern.groups else None
    return None, None


def agent_table(texts: Sequence[str]) -> pa.Table:
    """Return a table with the properties of user agents, which may take long or fail.

    Columns are ``ua``, ``isBot``, :data:`COLUMNS`, and ``problem``, null unless an agent could not be read.
    """
    unknown = (None, *[None] * len(COLUMNS))
    found = resolve_in_time(lambda text: (is_bot(text), *describe(text)), texts, example=_AGENT)
    rows = [unknown if isinstance(row, Unresolved) else row for row in found]
    columns = zip(("isBot", *COLUMNS), zip(*rows, strict=True) if rows else [()] * len(unknown), strict=True)
    problems = [getattr(row, "reason", None) for row in found]
    return pa.table(
        {
            "ua": pa.array(texts, pa.string()),
            **{
                name: pa.array(values, pa.bool_() if name == "isBot" else pa.string())
                for name, values in columns
            },
            "problem": pa.array(problems, pa.string()),
        }
    )


def _version(*parts: str | None) -> str | None:
    return ".".join(part for part in parts if part) or None


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
        SQL for the list of filters that capture the hit's address, from :func:`captured_addresses`.

    Examples
    --------
    >>> import duckdb
    >>> sql = capture_sql(["hostname:test.shop.example", "userAgent:Probe"], captured="[]")
    >>> hit = "(SELECT 'shop.example' AS page_host, 'probe/2' AS userAgent)"
    >>> duckdb.execute(f"SELECT {sql} FROM {hit}").fetchone()
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


def captured_addresses(connection: Connection, filters: Sequence[str], hits: str) -> pa.Table:
    """Return each distinct ``address`` of hits with the ``filters`` that capture it."""
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
    return pa.table(columns)


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
        # An empty host is not a part of a domain.
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
    """Return an address, as IPv4 if it is mapped to IPv6; None if the text is not an address.

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


_GEO: Final = tuple(schema.leaves(schema.HIT, "geo"))
_ASN: Final = tuple(schema.leaves(schema.HIT, "asn"))
#: Columns of hits that are looked up.
PLACE_COLUMNS: Final = (*_GEO, *_ASN)
_ARROW_TYPES: Final = {name: schema.HIT.field(name).type for name in PLACE_COLUMNS}
#: Members of records by kind of database, as MaxMind and DB-IP name them.
_MEMBERS: Final = {
    "geo": ("country", "city", "location", "subdivisions", "registered_country", "continent"),
    "asn": ("autonomous_system_number", "autonomous_system_organization"),
}
_EXAMPLES: Final = {"geo": "GeoLite2-City.mmdb", "asn": "GeoLite2-ASN.mmdb"}
#: Number of records that decide on the kind of a database.
_MOST_PROBED: Final = 100


class AddressLookup:
    """Finds the place and the network of client addresses; thread-safe.

    Parameters
    ----------
    readers : dict of str to maxminddb.Reader
        Opened databases by kind, ``geo`` and ``asn``.
    """

    def __init__(self, readers: dict[str, maxminddb.Reader]) -> None:
        self._readers = readers
        self._versions = {kind: reader.metadata().ip_version for kind, reader in readers.items()}

    @classmethod
    def open(cls, *, geo: str | Path | None = None, asn: str | Path | None = None) -> Self:
        """Open databases.

        Parameters
        ----------
        geo, asn : str or Path, optional
            MMDB files of places and of networks, in the form of MaxMind's GeoLite2-City (or -Country) and
            GeoLite2-ASN; None for no look-up.

        Raises
        ------
        InvalidRequest
            If a file cannot be read, or is a database of another kind.

        Examples
        --------
        >>> lookup = AddressLookup.open()
        >>> bool(lookup), lookup.find("203.0.113.7")["geo.city"]
        (False, None)
        """
        files = {"geo": geo, "asn": asn}
        return cls({kind: _open(kind, file) for kind, file in files.items() if file is not None})

    def __bool__(self) -> bool:
        return bool(self._readers)

    def find(self, address: str) -> dict[str, Any]:
        """Return the value of each of :data:`COLUMNS`, None where it is unknown.

        Raises
        ------
        InvalidRequest
            If a database is damaged.
        """
        found = dict.fromkeys(PLACE_COLUMNS)
        parsed = parse_address(address)
        if parsed is None:
            return found
        for kind, reader in self._readers.items():
            # A database of the shorter addresses only.
            if parsed.version > self._versions[kind]:
                continue
            try:
                record = reader.get(str(parsed))
            except maxminddb.InvalidDatabaseError as error:
                raise InvalidRequest(f"{kind}: the database is damaged: {error}") from error
            if isinstance(record, dict):
                found |= _place(record) if kind == "geo" else _network(record)
        return found

    def create_table(self, connection: Connection, addresses: str, *, into: str) -> None:
        """Create a table of each distinct ``address`` of a relation with :data:`COLUMNS`."""
        texts = [
            text
            for (text,) in connection.execute(
                f"SELECT DISTINCT address FROM {addresses} WHERE address IS NOT NULL"
            ).fetchall()
        ]
        records = [self.find(text) for text in texts]
        columns = {"address": pa.array(texts, pa.string())} | {
            name: pa.array([record[name] for record in records], kind) for name, kind in _ARROW_TYPES.items()
        }
        with arrow_view(connection, pa.table(columns)) as view:
            connection.execute(f"CREATE TABLE {into} AS FROM {view}")

    def close(self) -> None:
        """Close the files; idempotent."""
        for reader in self._readers.values():
            reader.close()


def located(hits: str, places: str) -> str:
    """Return SQL for hits with the place and the network of their address where they have none of their own.

    Parameters
    ----------
    hits : str
        Relation with ``address`` and :data:`COLUMNS`.
    places : str
        Table from :meth:`AddressLookup.create_table`.
    """
    replaced = []
    for group in (_GEO, _ASN):
        is_missing = " AND ".join(f"hit.{quoted(name)} IS NULL" for name in group)
        replaced += [
            f"CASE WHEN {is_missing} THEN place.{quoted(name)} ELSE hit.{quoted(name)} END AS {quoted(name)}"
            for name in group
        ]
    return (
        f"(SELECT hit.* REPLACE ({', '.join(replaced)}) "
        f"FROM {hits} AS hit LEFT JOIN {places} AS place ON place.address = hit.address)"
    )


def _open(kind: str, file: str | Path) -> maxminddb.Reader:
    path = Path(file).expanduser()
    if not path.is_file():
        problem = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InvalidRequest(f"{kind}: {str(path)!r} {problem}")
    try:
        reader = maxminddb.open_database(path)
        records = [record for _, record in islice(reader, _MOST_PROBED)]
    except (maxminddb.InvalidDatabaseError, OSError, ValueError) as error:
        raise InvalidRequest(
            f"{kind}: {str(path)!r} is not a readable MMDB file: {error}; download it again"
        ) from error
    if not any(name in record for record in records if isinstance(record, dict) for name in _MEMBERS[kind]):
        own = reader.metadata().database_type
        reader.close()
        raise InvalidRequest(
            f"{kind}: {str(path)!r} is a database of the type {own!r}, whose records have no "
            f"{_MEMBERS[kind][0]}; expected one such as {_EXAMPLES[kind]}"
        )
    return reader


def _place(record: dict[str, Any]) -> dict[str, Any]:
    location = record.get("location") or {}
    # The first subdivision is the largest.
    state = next(iter(record.get("subdivisions") or ()), None)
    return {
        "geo.countryCode": (record.get("country") or {}).get("iso_code"),
        "geo.state": _name(state),
        "geo.city": _name(record.get("city")),
        "geo.latitude": location.get("latitude"),
        "geo.longitude": location.get("longitude"),
        "geo.zipcode": (record.get("postal") or {}).get("code"),
    }


def _name(place: dict[str, Any] | None) -> str | None:
    """Return the English name of a place."""
    return None if place is None else (place.get("names") or {}).get("en")


def _network(record: dict[str, Any]) -> dict[str, Any]:
    number = record.get("autonomous_system_number")
    return {
        "asn.asnId": None if number is None else f"AS{number}",
        "asn.asnName": record.get("autonomous_system_organization"),
    }


_SETTING: Final = "visitorSecret"
_BYTES: Final = 32


def visitor_secret(store: Store) -> str:
    """Return the secret of the project, created when it is first asked for.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> visitor_secret(store) == visitor_secret(store)
    True
    >>> store.close()
    """

    def write(connection: Connection) -> str:
        row = sql_results.read_row(connection, "SELECT value FROM settings WHERE name = ?", [_SETTING])
        if row is not None:
            return str(json.loads(row[0]))
        secret = secrets.token_hex(_BYTES)
        connection.execute("INSERT INTO settings VALUES (?, ?)", [_SETTING, encode(secret)])
        return secret

    return store.write(write)
