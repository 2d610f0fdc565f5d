"""The one room that writes: it replaces texts in a request's bytes.

`splice` is in the module of its name, which a face would hide.
"""

from masking.edit.json_text import edit_strings, find_strings
from masking.edit.splice import apply_to_list

__all__ = ["apply_to_list", "edit_strings", "find_strings"]
