"""Shows the way of one warmed request through the code: `python -m tests.tools.trace [--rooms]`.

A conversation of 40 tool turns has passed, and one more request of it goes through mitmproxy's
hooks, is answered and recorded. Counted are the modules of `addon` and `masking` that it enters,
the functions, and how often the way goes on in another file, in all threads. `--rooms` lists the
files, and how often the way enters each.
"""

import argparse
import json
import logging
import os
import sys
import tempfile
import threading
from collections import Counter
from contextlib import chdir
from pathlib import Path
from types import CodeType, FrameType

from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.test import taddons, tflow, tutils

from addon.mask import ObservationMasking
from tests.live.harness import encoded
from tests.support.hooks import fire
from tests.support.places import ROOT

CONFIG = b"[observation_masking.page]\nenabled = false\n"
TURNS = 40


class Way:
    """The files that a request enters, in order; each thread has its own way."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.functions: set[CodeType] = set()
        self.is_followed = False
        self._last = threading.local()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call, as a profile function; what resumes a generator is no call."""
        if not self.is_followed or event != "call" or frame.f_lasti > 8:
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(ROOT):
            return
        file = str(path.relative_to(ROOT))
        if not file.startswith(("addon/", "masking/")):
            return
        self.functions.add(frame.f_code)
        if getattr(self._last, "file", None) != file:
            self._last.file = file
            self.files[file] += 1


def write_body(turns: int) -> bytes:
    """Return a request of Chat Completions with so many tool turns."""
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You are a coding agent. " * 20},
        {"role": "user", "content": "Mend the test."},
    ]
    for number in range(turns):
        arguments = json.dumps({"command": f"make {number}"})
        function = {"name": "bash", "arguments": arguments}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        output = f"line {number} of an output, and nothing went wrong\n" * 60
        messages += [
            {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
        ]
    return encoded({"model": "gpt-4o", "messages": messages})


def pass_through(addon: ObservationMasking, turns: int) -> None:
    """Let a request go through the hooks, with its answer."""
    request = tutils.treq(method=b"POST", path=b"/v1/chat/completions", content=write_body(turns))
    usage = {"prompt_tokens": turns * 700, "completion_tokens": 20}
    answer = tutils.tresp(content=encoded({"choices": [], "usage": usage}))
    flow: http.HTTPFlow = tflow.tflow(req=request)
    for hook in ("requestheaders", "request"):
        fire(addon, hook, flow)
    flow.response = answer
    for hook in ("responseheaders", "response"):
        fire(addon, hook, flow)
    addon.engine.recorder.settle().result()
    if not flow.request.content or b"chars masked" not in flow.request.content:
        raise RuntimeError("the request was not masked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", action="store_true", help="list the files")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    way = Way()
    threading.setprofile(way.note)  # before any thread starts
    sys.setprofile(way.note)
    with tempfile.TemporaryDirectory() as name, chdir(name):
        os.environ["XDG_STATE_HOME"] = name
        (Path(name) / "config.toml").write_bytes(CONFIG)
        with taddons.context(Proxyserver(), ObservationMasking()) as context:
            addon: ObservationMasking = context.master.addons.get("observationmasking")
            context.configure(addon, mask_config=str(Path(name) / "config.toml"))
            addon.running()
            for turns in range(20, TURNS):
                pass_through(addon, turns)
            way.is_followed = True
            pass_through(addon, TURNS)
            way.is_followed = False
            addon.done()
    sys.setprofile(None)
    for top in ("addon", "masking"):
        own = {file: count for file, count in way.files.items() if file.startswith(top)}
        print(f"{top}: {len(own)} modules, entered {sum(own.values())} times")
        if options.rooms:
            for file, count in sorted(own.items(), key=lambda each: -each[1]):
                print(f"  {count:4} {file}")
    print(f"{len(way.functions)} functions, {sum(way.files.values())} changes of file")


if __name__ == "__main__":
    main()
