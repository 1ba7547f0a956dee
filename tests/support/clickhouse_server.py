"""A server that speaks the HTTP interface of ClickHouse as far as queries and external data, and asks chDB."""

import contextlib
import email.parser
import email.policy
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit

from support.listening import listening


@contextlib.contextmanager
def served(client):
    """Serve the tables of a ``ChdbClient``, and yield the port."""
    from clickhouse_connect.driver.external import ExternalData

    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def do_POST(self):
            parameters = dict(parse_qsl(urlsplit(self.path).query))
            kind, uploads = self.headers["Content-Type"] or "", ExternalData()
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sql = parameters.get("query", "")
            if kind.startswith("multipart"):
                message = b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body
                parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(message)
                for part in parts.iter_parts():
                    name = part.get_param("name", header="content-disposition")
                    uploads.add_file(
                        file_name=name,
                        data=part.get_payload(decode=True),
                        structure=parameters[f"{name}_structure"],
                        fmt=parameters[f"{name}_format"],
                    )
            else:
                sql += body.decode()
            with turn:
                answer = client.raw_query(sql, external_data=uploads if uploads.files else None)
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with listening(Handler) as port:
        yield port
