"""The figures that the project promises, a command for each.

Run it by `python -m tests.tools.benchmarks.NAME`.
"""
