"""Reads the tool results of a request, wire format by wire format."""
