"""Query engines: differences between DuckDB, Spark, PostgreSQL and other backends of Ibis."""
