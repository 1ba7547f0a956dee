"""Public functions, one file per noun."""
