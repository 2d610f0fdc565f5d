"""One record of every request, and where it goes."""
