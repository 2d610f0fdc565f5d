"""Ours beside other proxies that make requests smaller.

Run it by `python -m tests.tools.benchmarks.peers`.
"""
