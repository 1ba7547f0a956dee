"""Users: who is known, what is known of each, and who matches."""
