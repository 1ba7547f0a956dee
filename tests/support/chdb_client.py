"""A client of chDB, which is ClickHouse in this process, that sends external data as one of a server does."""

import contextlib
import tempfile
from pathlib import Path


class ChdbClient:
    """Client of clickhouse-connect; chDB itself refuses external data, so they become temporary tables."""

    def __init__(self, client):
        self._client = client

    @classmethod
    def connect(cls, database, **settings):
        """Return a client of a new database; all clients of a process share one engine."""
        import clickhouse_connect

        client = clickhouse_connect.get_client(interface="chdb", settings=settings)
        client.command(f"CREATE DATABASE {database}")
        client.database = database
        return cls(client)

    def __getattr__(self, name):
        return getattr(self._client, name)

    def query(self, sql, *, external_data=None):
        with self._loaded(external_data):
            return self._client.query(sql)

    def query_arrow(self, sql, *, external_data=None):
        with self._loaded(external_data):
            return self._client.query_arrow(sql)

    def raw_query(self, sql, *, external_data=None):
        with self._loaded(external_data):
            return self._client.raw_query(sql)

    @contextlib.contextmanager
    def query_arrow_stream(self, sql, *, external_data=None):
        with self._loaded(external_data), self._client.query_arrow_stream(sql) as blocks:
            yield blocks

    @contextlib.contextmanager
    def _loaded(self, external_data):
        files = [] if external_data is None else external_data.files
        with tempfile.TemporaryDirectory() as folder:
            for file in files:
                path = Path(folder, file.name)
                path.write_bytes(file.data)
                self._client.command(f"CREATE TEMPORARY TABLE `{file.name}` ({file.structure})")
                self._client.command(f"INSERT INTO `{file.name}` FROM INFILE '{path}' FORMAT {file.fmt}")
        try:
            yield
        finally:
            for file in files:
                self._client.command(f"DROP TEMPORARY TABLE `{file.name}`")
