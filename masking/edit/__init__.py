"""The one room that writes: it replaces texts in a request's bytes, and proves the outcome."""
