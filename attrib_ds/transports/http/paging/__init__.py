"""Reads a search in pages, for services that do not offer all of its records in one Arrow answer."""
