"""Conversion between Arrow tables, DataFrames, JSON records and files."""
