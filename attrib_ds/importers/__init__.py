"""Importers for exports of other services and for users' own files."""
