"""Makes recordings: real clients, what they are asked, and the projects they work on.

It stays in the checkout: no wheel holds it.
"""
