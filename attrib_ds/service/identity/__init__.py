"""Which user an identifier belongs to, and users merged, split and erased."""
