"""A PostgreSQL server of this machine's programs, in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def programs():
    """Return the folder of ``initdb`` and ``pg_ctl``; None if they are not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((each for each in reversed(folders) if (each / "pg_ctl").exists()), None)


@contextmanager
def served():
    """Start a server on a free local port, and yield its connection."""
    folder = programs()
    # The server refuses to run as root, and its user cannot read pytest's folders.
    home = Path(tempfile.mkdtemp(prefix="attrib_ds-postgres-"))
    other = {}
    if os.getuid() == 0:
        import pwd

        known = {each.pw_name for each in pwd.getpwall()}
        other = {"user": "postgres" if "postgres" in known else "nobody"}
        shutil.chown(home, **other)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program, *arguments):
        command = [folder / program, "-D", home / "data", *arguments]
        # The server inherits the output streams of its starter, so reading them to the end would block.
        with (home / "output").open("ab") as output:
            subprocess.run(command, check=True, cwd=home, stdout=output, stderr=output, timeout=60, **other)

    try:
        run("initdb", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "timezone": "America/New_York",
        }
        run("pg_ctl", "start", "-w", "-o", " ".join(f"-c {name}='{each}'" for name, each in settings.items()))
        try:
            yield {"host": "127.0.0.1", "port": port, "user": "tester", "database": "postgres"}
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(home)
