"""One DuckDB file: schema, writer, cursors, record ids and caches."""
