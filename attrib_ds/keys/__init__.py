"""Keys of service accounts and the secrets in them, held so that nothing prints them."""
