"""Agents of our own, for sessions that no client records."""
