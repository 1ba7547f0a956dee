"""The transport over HTTP: authentication, retries, rate limiting, and secrets kept out of all output."""
