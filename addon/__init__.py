"""The proxy's side: the only code that imports mitmproxy."""
