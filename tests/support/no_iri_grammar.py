"""Keeps jsonschema from building the grammar of IRIs, which takes three seconds; no schema of the tests needs it."""

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
