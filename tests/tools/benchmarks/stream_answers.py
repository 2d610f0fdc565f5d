"""A mitmproxy script that lets every answer pass as it comes, and does nothing else."""

from mitmproxy import http


def responseheaders(flow: http.HTTPFlow) -> None:
    if flow.response is not None:
        flow.response.stream = True
