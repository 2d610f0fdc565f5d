"""The core behind other engines than mitmproxy, one folder or module for each."""
