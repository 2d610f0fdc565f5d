"""What a compressed bomb costs the proxy: `python -m tests.tools.benchmarks.bombs` (Linux).

500 MB of zeros in each coding, as a request and as an answer, through a plain mitmdump and through
one with the addon. Whatever happens, the bytes must arrive as they were sent; else it exits with 1.
"""

import gzip
import sys
import zlib

import brotli
import zstandard

from tests.tools.benchmarks.beside_plain import (
    ANSWER,
    Answers,
    Cost,
    measure,
    running_provider,
    running_side,
    send,
)

_SIZE = 500_000_000
_ASKED = b'{"model": "gpt-4o", "messages": []}'


def build_bombs() -> dict[str, bytes]:
    """Return the bombs by their coding."""
    zeros = bytes(_SIZE)
    return {
        "gzip": gzip.compress(zeros, 9),
        "deflate": zlib.compress(zeros, 9),
        "br": brotli.compress(zeros, quality=5),
        "zstd": zstandard.ZstdCompressor().compress(zeros),
    }


def main() -> int:
    print(f"{'bomb':18} {'bytes':>8} {'':6} {'CPU s':>7} {'peak MB':>8} {'longest ping, s':>16}")
    is_whole = True
    for coding, bomb in build_bombs().items():
        for kind, asked, answered in (("request", bomb, ANSWER), ("answer", _ASKED, bomb)):
            for side in ("plain", "ours"):
                cost, passed = _pass(side, coding, asked, answered)
                is_whole = is_whole and passed == (asked, answered)
                print(
                    f"{f'{coding} {kind}':18} {len(bomb):8,} {side:6} {cost.cpu_seconds:7.2f}"
                    f" {cost.peak_mb:8.0f} {cost.ping_seconds:16.3f}",
                    flush=True,
                )
    return int(not is_whole)


def _pass(side: str, coding: str, asked: bytes, answered: bytes) -> tuple[Cost, tuple[bytes, ...]]:
    """Return what it costs to have a request answered, and both as they arrived."""
    passed: list[bytes] = []

    class Provider(Answers):
        def take(self, request: bytes) -> None:
            if len(request) == len(asked):
                passed.append(request)
                self.body = answered
                if answered is not ANSWER:
                    self.headers_of_it = (*Answers.headers_of_it, ("content-encoding", coding))

    def traffic(port: int) -> None:
        headers = {} if asked is _ASKED else {"content_encoding": coding}
        passed.append(send(port, asked, **headers)[1])

    with running_provider(Provider) as provider, running_side(side, provider) as proxy:
        cost = measure(proxy, lambda: traffic(proxy.port))
    return cost, tuple(passed)


if __name__ == "__main__":
    sys.exit(main())
