"""Makes recordings: real clients, what they are asked, and the projects they work on.

It is in the checkout alone: no wheel holds it.
"""
