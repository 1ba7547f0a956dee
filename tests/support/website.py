"""A website on this machine, and the browser that visits it."""

import shutil
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from support.listening import listening

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Of a browser that does not tell the script that a program drives it, as bots do.
ARGUMENTS = ["--no-sandbox", "--disable-blink-features=AutomationControlled"]


@contextmanager
def site(answer):
    """Serve a website; ``answer`` takes a path and returns status, headers and content."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.respond(*answer(self.path, None))

        def do_POST(self):
            self.respond(*answer(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

        def respond(self, status, headers, content):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with listening(Handler) as port:
        yield f"http://127.0.0.1:{port}"
