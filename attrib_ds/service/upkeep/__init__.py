"""Backup, restore and consistency checks."""
