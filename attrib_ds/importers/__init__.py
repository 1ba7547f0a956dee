"""Readers of what other services export: sessions, conversions and traffic sources as frames."""
