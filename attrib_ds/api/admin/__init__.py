"""Administration of a project: identities, currency rates, settings, audit log, backups."""
