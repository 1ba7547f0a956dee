"""Credits under every model, and the reports built on them."""
