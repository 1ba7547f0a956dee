"""Sampling error: closed forms, jackknife and bootstrap."""
