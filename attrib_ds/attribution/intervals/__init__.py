"""Confidence intervals of credits: closed forms, jackknife and bootstrap."""
