"""Recordings: read, scrubbed, replayed and made; the provider that answers from a script."""
