"""The logs that agents keep of their own sessions, read as requests to a model.

`LOGS` is the table: one row an agent. Each reader is a file beside this one.
"""
