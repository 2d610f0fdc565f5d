"""The one room that writes: it replaces texts in a request's bytes.

`splice` is in the module of its name, which a face would hide.
"""

from masking.edit.json_text import edit_strings, find_strings
from masking.edit.splice import apply

__all__ = ["apply", "edit_strings", "find_strings"]
