"""What differs between DuckDB, Spark and PostgreSQL."""
