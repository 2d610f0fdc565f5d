"""Recordings: read, scrubbed, and given again as answers."""
