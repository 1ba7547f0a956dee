"""The embedded service: the whole of it in one process, on one DuckDB file per project."""
