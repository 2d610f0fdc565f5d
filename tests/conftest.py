"""Settings of the whole suite."""

from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=150, print_blob=True)
settings.load_profile("suite")
