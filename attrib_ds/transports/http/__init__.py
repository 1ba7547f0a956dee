"""The service over HTTP: authenticated, with patience, and without showing a secret."""
