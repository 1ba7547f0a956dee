"""Rows of a frame on their way to the service, sent once each."""
