"""Windows' rules for open files, imposed on a process on Linux.

A file that this process has open can be neither renamed, replaced nor removed, nor can a folder with one be renamed.
DuckDB lets nobody else open its files; Python and SQLite let others read and write theirs. The rules are those of
CreateFileW: DuckDB shares nothing, and the others share all but FILE_SHARE_DELETE.
"""

import builtins
import io
import os
import weakref
from pathlib import Path

import duckdb
import pytest

from attrib_ds import local_files
from attrib_ds.service.store import files

_FOLDER = Path("/proc/self/fd")
#: What DuckDB's wheel for Windows says, where it knows the other process and where it does not.
WORDS = {
    "known": "IO Error: File is already open in \nC:\\Python311\\python.exe (PID 4711)",
    "unknown": 'IO Error: Cannot open file "{}": Der Prozess kann nicht auf die Datei zugreifen, da sie von einem '
    "anderen Prozess verwendet wird.\r\n",
}


class _System:
    """The module os, on a system that is not POSIX."""

    name = "nt"

    def __getattr__(self, name):
        return getattr(os, name)


class Windows:
    """The rules, from the moment it is made until the test ends.

    Attributes
    ----------
    renamed : list of Path
        Files that were renamed, replaced or removed.
    """

    def __init__(self, monkeypatch):
        if not _FOLDER.exists():
            pytest.skip("open files are listed on Linux alone")
        self.renamed = []
        self._elsewhere = {}
        self._objects = weakref.WeakSet()
        self._descriptors = set()
        for module in (files, local_files):
            monkeypatch.setattr(module, "os", _System())
        for name in ("replace", "rename", "unlink", "remove"):
            monkeypatch.setattr(os, name, self._changing(getattr(os, name)))
        opened = self._opening(io.open, lambda file: self._objects.add(file))
        for module in (io, builtins):
            monkeypatch.setattr(module, "open", opened)
        monkeypatch.setattr(os, "open", self._opening(os.open, self._descriptors.add))
        monkeypatch.setattr(os, "close", self._closing(os.close))
        monkeypatch.setattr(duckdb, "connect", self._connecting(duckdb.connect))

    def hold(self, file, words):
        """Let another process have DuckDB open a file."""
        self._elsewhere[os.path.realpath(file)] = WORDS[words].format(file)

    def let_go(self):
        """Let the other process end."""
        self._elsewhere.clear()

    def _open(self):
        """Yield descriptors and paths of open files."""
        for entry in _FOLDER.iterdir():
            try:
                yield int(entry.name), str(entry.readlink())
            except FileNotFoundError:
                continue

    def _is_pythons(self, descriptor):
        ours = {file.fileno() for file in self._objects if not file.closed}
        return descriptor in ours | self._descriptors

    def _refuse(self, path):
        error = PermissionError(13, "The file is being used by another process", str(path))
        error.winerror = 32
        raise error

    def _changing(self, original):
        def change(*paths, **options):
            for path in paths:
                if isinstance(path, str | os.PathLike):
                    real = os.path.realpath(path)
                    if real in self._elsewhere or any(
                        held == real or held.startswith(f"{real}/") for _, held in self._open()
                    ):
                        self._refuse(path)
            original(*paths, **options)
            self.renamed.append(Path(paths[0]))

        return change

    def _opening(self, original, record):
        def opened(path, *arguments, **options):
            if isinstance(path, str | os.PathLike):
                real = os.path.realpath(path)
                is_shared = Path(real).suffix != ".duckdb" and not real.endswith((".wal", ".part"))
                if real in self._elsewhere or any(
                    held == real and not is_shared and not self._is_pythons(descriptor)
                    for descriptor, held in self._open()
                ):
                    self._refuse(path)
            result = original(path, *arguments, **options)
            record(result)
            return result

        return opened

    def _closing(self, original):
        def close(descriptor):
            self._descriptors.discard(descriptor)
            original(descriptor)

        return close

    def _connecting(self, original):
        def connect(database=":memory:", *arguments, **options):
            words = self._elsewhere.get(os.path.realpath(database))
            if words is not None:
                raise duckdb.IOException(words)
            return original(database, *arguments, **options)

        return connect
