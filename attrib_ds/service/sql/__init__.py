"""SQL that users write: parsed, checked against an allow-list, and rewritten before it runs."""
