"""The shipped configuration of nginx in front of a server: hostile clients meet nginx, others are served."""

import datetime
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from service.http.conftest import MANY, load
from support.http_caller import TIMEOUT, ask_token
from support.raw_http import one_response, statuses
from support.service_records import hex_id, table, visit
from support.waiting import eventually

from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import Rate, ServerOptions, running

CONFIGURATION = Path(__file__).parents[3] / "docs/how-to/proxy/nginx.conf"
NAME = "attribution.example"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
LIVE = f"GET /health/live HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode()
SEARCH = "/api/v1/projects/shop/interactions/search"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nginx,
    pytest.mark.skipif(NGINX is None, reason="the tests of the shipped configuration need nginx"),
]


def certify(folder):
    """Write a certificate for the name in the configuration, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = (pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{NAME}.pem").write_bytes(certificate.public_bytes(pem))
    (folder / f"{NAME}.key").write_bytes(key.private_bytes(*private))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def proxied(folder, server, **changes):
    """Run nginx with the shipped configuration in front of a server; yield a function that connects to it.

    Only names, ports and files are replaced, and what ``changes`` shortens so that a test need not wait.
    """
    certify(folder)
    port = free_port()
    site = CONFIGURATION.read_text()
    for old, new in {
        "server 127.0.0.1:8000;": f"server {server.removeprefix('http://')};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "/etc/ssl/": f"{folder}/",
        **{f"{name} {old};": f"{name} {new};" for name, (old, new) in changes.items()},
    }.items():
        assert old in site, old
        site = site.replace(old, new)
    (folder / "site.conf").write_text(site)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "main.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;"
        f"{'user root;' if os.geteuid() == 0 else ''}"
        "events { worker_connections 1024; }"
        f"http {{ access_log off; {paths} include {folder}/site.conf; }}"
    )
    command = [NGINX, "-p", str(folder), "-c", str(folder / "main.conf"), "-e", str(folder / "error.log")]
    context = ssl.create_default_context(cafile=folder / f"{NAME}.pem")

    def connect(data=b"", source="127.0.0.1"):
        plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT, source_address=(source, 0))
        connection = context.wrap_socket(plain, server_hostname=NAME)
        with suppress(OSError):  # nginx may have answered and closed already
            connection.sendall(data)
        return connection

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:

            def is_ready():
                assert process.poll() is None, (folder / "error.log").read_text()
                with suppress(ConnectionError):
                    connect().close()
                    return True

            eventually(is_ready)
            yield connect
        finally:
            process.terminate()
            process.wait(TIMEOUT)


class Client:
    """Requests over TLS, each with a connection of its own."""

    url = f"https://{NAME}"

    def __init__(self, connect, token=None, source="127.0.0.2"):
        self._connect = connect
        self._token = token
        self._source = source

    def __call__(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(NAME)
        connection.sock = self._connect(source=self._source)
        content = json.dumps(body) if isinstance(body, dict | list) else body
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._token:
            fields["Authorization"] = f"Bearer {self._token}"
        with closing(connection):
            connection.request(method, path, content, fields)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())


class Reply:
    def __init__(self, status, headers, content):
        self.status, self.headers, self.content = status, headers, content

    def json(self):
        return json.loads(self.content)


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    load("shop", folder, interactions=table(*(visit(number) for number in range(3))))
    many = table(*(visit(number, userId=hex_id(number % 100)) for number in range(MANY // 10)))
    load("big-shop", folder, interactions=many)
    return folder


@pytest.fixture(scope="module")
def connect(shops, tmp_path_factory):
    options = ServerOptions(rate_limits={"events-by-address": Rate(2, 36_000)}, behind_proxy=("127.0.0.1",))
    with (
        running_behind(options, shops) as server,
        proxied(
            tmp_path_factory.mktemp("nginx"),
            server,
            client_header_timeout=("10s", "1s"),
            client_body_timeout=("10s", "1s"),
        ) as connect,
    ):
        yield connect


@contextmanager
def running_behind(options, shops):
    """Run a server whose clients know the name of the proxy; yield the address of the server itself."""
    port = free_port()
    with running(shops, port=port, url=Client.url, options=options):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def healthy(connect, shops):
    """A client with a token, from an address of its own."""
    key = create_key(shops, shops / "key.json")
    return Client(connect, ask_token(Client(connect), key).json()["access_token"])


def received(connection):
    """Return what comes until the connection ends; fails if it does not."""
    content = b""
    with suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(1 << 16):
            content += piece
    return content


@pytest.mark.large
def test_requests_reach_the_server_and_answers_the_client(healthy):
    reply = healthy("POST", SEARCH, {})
    assert (reply.status, reply.json()["total"]) == (200, 3)
    assert reply.headers["Strict-Transport-Security"] == "max-age=31536000"
    # An id with a slash stays one segment.
    assert "a/b" in healthy("GET", "/api/v1/projects/shop/nodes/a%2Fb").json()["message"]


def test_a_long_answer_arrives_whole(healthy):
    reply = healthy("POST", SEARCH.replace("shop", "big-shop"), {})
    assert len(reply.json()["data"]) == MANY // 10


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "data",
    [
        LIVE[:20],
        LIVE[:-2] + b"A: ",
        b"POST /api/v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        b"POST /api/v1/events HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{",
    ],
    ids=["request line", "headers", "body", "chunks"],
)
def test_slow_clients_are_disconnected_while_others_are_served(connect, healthy, data):
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(connect(data, source="127.0.0.3"))) for _ in range(20)]
        assert healthy("POST", SEARCH, {}).status == 200
        for connection in slow:
            assert statuses(received(connection)) in ([408], [])


@pytest.mark.large
def test_one_address_has_a_number_of_connections_while_others_are_served(connect, healthy):
    head = f"POST /c HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 100\r\n\r\n".encode()
    with ExitStack() as stack:
        held = [stack.enter_context(closing(connect(head, source="127.0.0.4"))) for _ in range(110)]
        answers = [statuses(received(connection)) for connection in held]
        assert answers.count([429]) >= 10
        assert healthy("POST", SEARCH, {}).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (LIVE[:-2] + b"A: " + b"x" * 9_000 + b"\r\n\r\n", 400),
        (LIVE[:-2] + b"A: b\r\n" * 6_500 + b"\r\n", 400),
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"POST /api/v1/events/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 40000000\r\n\r\n", 413),
        (b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999999999\r\n\r\n", 400),
        # Malformed.
        (b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (LIVE.replace(f"Host: {NAME}\r\n".encode(), b""), 400),
        (LIVE.replace(b"\r\n\r\n", b"\r\nHost: b\r\n\r\n"), 400),
        (LIVE.replace(b"/health", b"/he\0alth"), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10 + b"\r\n\r\n", 400),
    ],
    ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else None,
)  # fmt: skip
def test_huge_and_malformed_requests_end_at_the_proxy(connect, healthy, data, status):
    with closing(connect(data, source="127.0.0.5")) as connection:
        content = one_response(connection)
    assert statuses(content) == [status]
    assert b"x-request-id" not in content.lower()
    assert healthy("GET", "/health/live").status == 200


def test_a_body_without_a_length_is_bounded_too(connect, healthy):
    head = (
        f"POST /api/v1/events/batch HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with closing(connect(head, source="127.0.0.5")) as connection:
        with suppress(OSError):
            for _ in range(40):
                connection.sendall(chunk)
        assert statuses(one_response(connection)) == [413]


def event(nonce):
    return {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": {}}


def test_g234_who_forges_an_address_counts_as_itself(connect):
    """Two events are allowed for one address."""
    forger = Client(connect, source="127.0.0.6")
    forged = [
        {"X_Forwarded_For": f"203.0.113.{number}", "X_Real_IP": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
        for number in range(3)
    ]
    sent = [
        forger("POST", "/api/v1/events", event(f"a{n}"), **fields).status for n, fields in enumerate(forged)
    ]
    assert sent == [200, 200, 429]
    # What is hidden behind a chunked body is no header.
    body = json.dumps(event("b")).encode()
    head = (
        f"POST /api/v1/events HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
    )
    chunks = b"%x\r\n%s\r\n0\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n" % (len(body), body)
    with closing(connect(head.encode() + b"\r\n" + chunks, source="127.0.0.6")) as connection:
        assert statuses(received(connection)) == [429]
    other = Client(connect, source="127.0.0.7")
    assert other("POST", "/api/v1/events", event("c")).status == 200


def test_token_requests_of_one_address_are_bounded(connect, healthy):
    guesser = Client(connect, source="127.0.0.8")
    answers = [guesser("POST", "/auth/oidc/token", b"x").status for _ in range(30)]
    assert set(answers[:5]) == {400}
    assert 429 in answers
    assert healthy("POST", SEARCH, {}).status == 200


def test_the_page_shows_the_shipped_configurations():
    page = (CONFIGURATION.parents[1] / "put-a-proxy-in-front.md").read_text(encoding="utf-8")
    for name in ("nginx.conf", "Caddyfile"):
        assert f"\n{(CONFIGURATION.parent / name).read_text(encoding='utf-8')}```" in page
