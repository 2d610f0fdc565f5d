"""Measures, off the request's path."""
