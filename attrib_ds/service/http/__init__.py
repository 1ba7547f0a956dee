"""The service over HTTP: its parts beyond this package come with the extra ``[serve]``."""
