"""A provider that answers by a script."""
