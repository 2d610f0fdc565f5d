"""Faults that the tests must notice: `python -m tests.tools.mutations [--jobs N] [NAME ...]`.

Each is made in a copy of the tree, and the tests related to it are run there until their first
failure. Prints a table; fails if a fault goes unnoticed, or if its old text is not, or not only
once, in its file.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.support.places import ROOT

COPIED = ("addon", "masking", "tests", "recordings", "docs", "config.toml", "pyproject.toml")

BOUNDARY = "masking/window/boundary.py"
DECIDE = "masking/window/decide.py"
MASKER = "addon/masker.py"
MEMORY = "masking/memory.py"
STORE = "addon/store.py"
REQUEST_CACHE = "masking/request_cache.py"
PROOF = "masking/proof.py"

COSTS = "tests/masking/accounting/test_cost.py"
TALLY = "tests/records/test_tally.py"
PROVEN = "tests/masking/test_proof.py"
REQUESTS = "tests/masking/test_request_cache.py"


class Mutation(NamedTuple):
    """A fault: `new` in place of `old`.

    related: the tests that must notice it: a file, or one test where the others of its file take
        long.
    """

    name: str
    file: str
    old: str
    new: str
    related: str


MUTATIONS = (
    Mutation(
        "the guard of the promise",
        BOUNDARY,
        "if flat > 0 and not (is_due and self._keeps_promise(flat, saving)):",
        "if flat > 0 and not is_due:",
        "tests/spec/test_09_boundary_and_promise.py",
    ),
    Mutation(
        "the window's edge",
        BOUNDARY,
        "return max(0, turns - policy.window_turns)",
        "return max(0, turns - policy.window_turns + 1)",
        "tests/spec/test_02_window.py",
    ),
    Mutation(
        "pairing of ids that are used again",
        "masking/conversation.py",
        "self._ids[call_id] = declared[0], calls + 1, results",
        "self._ids.setdefault(call_id, (declared[0], calls + 1, results))",
        "tests/spec/test_03_pairing.py",
    ),
    Mutation(
        "calls of an earlier turn that nothing answered",
        "masking/conversation.py",
        "if calls and last != declared[0]:",
        "if False:",
        "tests/spec/test_20_reference.py",
    ),
    Mutation(
        "further results that came before their calls",
        "masking/conversation.py",
        "for number in range(calls, results):",
        "for number in range(calls + 1, results):",
        "tests/spec/test_03_pairing.py",
    ),
    Mutation(
        "a result that came before the call of its number",
        "masking/conversation.py",
        "self._bind_early(call_id, calls, declared)",
        "pass",
        "tests/spec/test_20_reference.py",
    ),
    Mutation(
        "the proof of the splice",
        "masking/edit/splice.py",
        "if spliced is not None and _is_proven(spliced, value, replacements):",
        "if spliced is not None:",
        "tests/spec/test_01_bytes.py",
    ),
    Mutation(
        "the proof of where the elements of a list are",
        "masking/conversation.py",
        "if is_list and len(cut.elements) == len(items):",
        "if len(cut.elements) == len(items):",
        "tests/masking/edit/test_splice_elements.py",
    ),
    Mutation(
        "the proof of what stands around the elements",
        PROOF,
        "return (before.head, before.tail) == (after.head, after.tail)",
        "return before.head == after.head",
        PROVEN,
    ),
    Mutation(
        "the proof of an element",
        PROOF,
        '_insist(item == changed, "more of an element changes")',
        "",
        PROVEN,
    ),
    Mutation(
        "the proof of its bytes",
        "masking/edit/json_difference.py",
        "return old[at:] == new[at + moved :]",
        "return True",
        PROVEN,
    ),
    Mutation(
        "the proof of a placeholder",
        PROOF,
        "if new == write(each, text, result, call, self._lines):",
        "if True:",
        PROVEN,
    ),
    Mutation(
        "the proof of pairs",
        PROOF,
        "_insist(len({at in kept for at in pair}) == 1,",
        "_insist(True,",
        PROVEN,
    ),
    Mutation(
        "the proof that the model has read what is masked",
        PROOF,
        "_insist(not masks or place < request.last_answer",
        "_insist(not masks or place",
        PROVEN,
    ),
    Mutation(
        "what is known to be proven, by all of its bytes",
        PROOF,
        "known.proven.get((place, new))",
        "{at: masks for (at, _), masks in known.proven.items()}.get(place)",
        PROVEN,
    ),
    Mutation(
        "what is known to be proven, by all that stands before it",
        PROOF,
        "known.proven.get((place, new)) if place < shared else None",
        "known.proven.get((place, new))",
        PROVEN,
    ),
    Mutation(
        "the proof of what a road adds",
        "masking/edit/json_difference.py",
        "new == old[: end - 1] + comma + item + old[end - 1 :]",
        "orjson.loads(new) == orjson.loads(old[: end - 1] + comma + item + old[end - 1 :])",
        PROVEN,
    ),
    Mutation(
        "the proof of what a reduction must keep",
        PROOF,
        "_insist(not must_stay",
        "_insist(True",
        PROVEN,
    ),
    Mutation(
        "the place of the elements that a list has in common with an earlier one",
        "masking/edit/json_list.py",
        "if stand_in != STAND_IN or len(gaps)",
        "if len(gaps)",
        "tests/masking/edit/test_json_list.py",
    ),
    Mutation(
        "idempotence",
        DECIDE,
        "if not is_placeholder(result, place, templates[0])",
        "if text or not is_placeholder(result, place, templates[0])",
        "tests/spec/test_06_idempotence.py",
    ),
    Mutation(
        "the rule for errors",
        "masking/window/signs.py",
        "len(text) <= words_max_chars",
        "len(text) < words_max_chars",
        "tests/spec/test_07_errors.py",
    ),
    Mutation(
        "the digest of a result in the memory",
        MEMORY,
        'texts = (result.call_id or "", "".join(result.texts), *images)',
        'texts = (result.call_id or "", *images)',
        "tests/spec/test_10_memory.py",
    ),
    Mutation(
        "reasoning that is bound to what precedes it",
        DECIDE,
        "has_moved = not fresh or decisions[fresh[0]].result.element >= bound_until",
        "has_moved = True",
        "tests/spec/test_11_bound_reasoning.py",
    ),
    Mutation(
        "the client's bytes after an exception",
        MASKER,
        "except Exception as error:",
        "except KeyError as error:",
        "tests/spec/test_16_fail_open.py",
    ),
    Mutation(
        "a secret in a log line",
        MASKER,
        'f"internal error ({type(error).__name__})"',
        'f"internal error ({error})"',
        "tests/spec/test_16_fail_open.py",
    ),
    Mutation(
        "the least cacheable prompt where any prefix is cached",
        BOUNDARY,
        'is_small = self._prices.reads_at == "any prefix" and least <= _SMALL_LEAST',
        "is_small = least <= _SMALL_LEAST",
        "tests/masking/test_boundary.py",
    ),
    Mutation(
        "a price step that what is new lifts both prompts over",
        BOUNDARY,
        "self._factor(size + new + over) for size in sizes",
        "self._factor(size + new) for size in sizes",
        "tests/masking/test_boundary.py",
    ),
    Mutation(
        "a head that is too short to be read from the cache",
        BOUNDARY,
        "        if head < self._prices.shortest_prefix:\n"
        "            head = 0.0\n"
        "        new, factor",
        "        new, factor",
        "tests/masking/test_summary_requests.py",
    ),
    Mutation(
        "rent that forces a move",
        BOUNDARY,
        "            or self._rent >= _RENT_FORCES * price\n",
        "",
        "tests/masking/test_boundary.py",
    ),
    Mutation(
        "the end of what a plan looks at",
        BOUNDARY,
        "min(turns, self._edge + _PLANNED_TURNS), self._size",
        "self._edge + _PLANNED_TURNS, self._size",
        "tests/masking/test_boundary.py",
    ),
    Mutation(
        "results that arrived after the boundary moved",
        DECIDE,
        "elif turn >= position.turn or place >= position.results:",
        "elif turn >= position.turn:",
        "tests/masking/test_boundary.py",
    ),
    Mutation(
        "text parts that must get shorter",
        DECIDE,
        'must_shrink = rendering.must_shrink or result.kind == "text_parts"',
        "must_shrink = rendering.must_shrink",
        "tests/masking/test_window.py",
    ),
    Mutation(
        "a call whose arguments are spelled anew",
        DECIDE,
        "return was.arguments is result.arguments and was == result",
        "return was == result",
        f"{REQUESTS}::test_a_branch_with_equal_arguments_has_its_own_spelling_in_placeholders",
    ),
    Mutation(
        "a text of exactly `min_chars`",
        DECIDE,
        "sum(len(text) for _, text in left) < rendering.min_chars",
        "sum(len(text) for _, text in left) <= rendering.min_chars",
        "tests/masking/test_every_format.py",
    ),
    Mutation(
        "the answers that a request and a branch share",
        MEMORY,
        "longest = [each for each in shared if min(each.answers, before) == most]",
        "longest = shared",
        "tests/masking/test_memory.py",
    ),
    Mutation(
        "an answer that another run may have had, too",
        MEMORY,
        "longest = [each for each in shared if min(each.answers, before) == most]",
        "longest = [each for each in shared if each.answers == max(o.answers for o in shared)]",
        "tests/masking/test_memory.py",
    ),
    Mutation(
        "the masked results that a request has of a branch",
        MEMORY,
        "best = max(longest, key=lambda each: each.left, default=None)",
        "best = max(longest, key=lambda each: 0, default=None)",
        "tests/masking/test_remembered.py",
    ),
    Mutation(
        "a branch that another covers",
        MEMORY,
        "if other is not recalled.continued and not _covers(past, recalled.chain, other)",
        "if other is not recalled.continued",
        "tests/masking/test_memory.py",
    ),
    Mutation(
        "the number of remembered results",
        MEMORY,
        "self._results -= self._known.pop(opening, _NOTHING).size",
        "self._known.pop(opening, _NOTHING)",
        "tests/masking/test_memory.py",
    ),
    Mutation(
        "the order of loaded branches",
        MEMORY,
        "(*branches, *before.branches),",
        "(*before.branches, *branches),",
        "tests/masking/test_memory.py",
    ),
    Mutation(
        "the branches that stay when one is forgotten",
        MEMORY,
        'if not is_own or (what == "cleared" and not past.cleared):',
        'if what == "cleared" and not past.cleared:',
        "tests/masking/test_memory.py",
    ),
    Mutation(
        "the lock of the request cache",
        REQUEST_CACHE,
        "        with self._lock:\n            if last is not None and last.leads_to",
        "        if True:\n            if last is not None and last.leads_to",
        f"{REQUESTS}::test_one_thread_at_a_time_changes_what_a_table_holds",
    ),
    Mutation(
        "what stands behind a cached list",
        REQUEST_CACHE,
        "if frame is None or frame.head != cut.head or frame.tail != cut.tail:",
        "if frame is None or frame.head != cut.head:",
        f"{REQUESTS}::test_what_stands_around_a_list_is_read_anew_where_it_changes",
    ),
    Mutation(
        "results that were shortened under a lower bound",
        "masking/arrival.py",
        "least = min(bound for bound in bounds if bound is not None)",
        "least = max(bound for bound in bounds if bound is not None)",
        "tests/masking/test_arrival_remembered.py",
    ),
    Mutation(
        "shortening without a memory where reasoning is bound",
        "masking/arrival.py",
        "if sent is None and (not policy.enabled or conversation.binding is not None):",
        "if sent is None and not policy.enabled:",
        "tests/spec/test_19_arrival.py",
    ),
    Mutation(
        "a cell of the redaction matrix",
        "masking/redaction.py",
        '"user": {1: 1, 2: 4, 3: 3, 4: 4, 5: 5},',
        '"user": {1: 1, 2: 2, 3: 3, 4: 4, 5: 5},',
        "tests/masking/test_redaction.py",
    ),
    Mutation(
        "a redaction that is new in one request alone",
        "masking/redaction.py",
        "is_new = not spoke",
        "is_new = True",
        "tests/masking/test_redaction.py",
    ),
    Mutation(
        "neighbors that the client had put side by side",
        "masking/reduction.py",
        "if at is None or then is None or then != at + 1",
        "if at is None or then is None",
        "tests/masking/test_reduction_in_every_format.py",
    ),
    Mutation(
        "a dispatch block in two text parts",
        "masking/reduction.py",
        "            if len(find_blocks(result.text)) > whole:\n                return\n",
        "",
        "tests/masking/test_reduction.py",
    ),
    Mutation(
        "the comma before an element that has moved",
        "masking/edit/splice.py",
        "after = max(1, place if origin is None else origin)",
        "after = max(1, place)",
        "tests/masking/edit/test_splice_elements.py",
    ),
    Mutation(
        "the longest list that is searched for errors",
        "masking/window/signs.py",
        "_MOST_OUTCOMES = 8",
        "_MOST_OUTCOMES = 9",
        "tests/masking/test_error_signs.py",
    ),
    Mutation(
        "a prompt that shrinks in merged usage",
        "masking/wire/usage.py",
        'return Usage(**merged | {"prompt": max(prompts, default=None)})',
        "return Usage(**merged)",
        "tests/masking/test_usage.py",
    ),
    Mutation(
        "a prompt that only reaches a price step",
        "masking/prices/pricing.py",
        "place = bisect_left(steps, prompt, key=lambda step: step.above)",
        "place = sum(step.above <= prompt for step in steps)",
        "tests/masking/prices/test_pricing.py",
    ),
    Mutation(
        "a configured price of a long write",
        "masking/prices/pricing.py",
        'if lifetime != _LONG or self.cache.long_write is None or self.source == "config":',
        "if lifetime != _LONG or self.cache.long_write is None:",
        "tests/masking/prices/test_pricing.py",
    ),
    Mutation(
        "the degrees of freedom of a fit",
        "masking/accounting/cost.py",
        "left / (self.times - 2))",
        "left / (self.times - 1))",
        f"{COSTS}::test_the_doubt_of_a_line_is_the_standard_error_of_its_slope",
    ),
    Mutation(
        "the last use of a run that is split",
        "masking/accounting/prefix_cache.py",
        "        first.used = self.used\n",
        "",
        "tests/masking/accounting/test_prefix_cache.py",
    ),
    Mutation(
        "the model of the body before that of the path",
        "masking/wire/messages.py",
        'return non_empty(document.get("model")) or (unquote(found[1]) if found else None)',
        'return (unquote(found[1]) if found else None) or non_empty(document.get("model"))',
        "tests/masking/test_messages.py",
    ),
    Mutation(
        "results in a message of the assistant",
        "masking/wire/messages.py",
        'if kind == "tool_result" and speaker == "user":',
        'if kind == "tool_result":',
        "tests/masking/test_messages.py",
    ),
    Mutation(
        "an unread memory in a request that is only observed",
        MASKER,
        "if is_unread and draft.binding is not None and not draft.observed:",
        "if is_unread and draft.binding is not None:",
        "tests/addon/test_engine.py",
    ),
    Mutation(
        "a request that counts tokens",
        "masking/rewrite.py",
        'if self.memories is None or self.recalled is None or self.purpose != "answer":',
        "if self.memories is None:",
        "tests/addon/test_engine.py",
    ),
    Mutation(
        "texts that a replay keeps for recall",
        MASKER,
        'if received.purpose == "answer" and not received.replay:',
        'if received.purpose == "answer":',
        "tests/addon/test_engine.py",
    ),
    Mutation(
        "what replaces a conversation while it is written",
        STORE,
        "                if self._waiting.get(key) is value:\n"
        "                    del self._waiting[key]",
        "                self._waiting.pop(key, None)",
        "tests/addon/test_memory_file.py",
    ),
    Mutation(
        "a memory file of a later version",
        STORE,
        "                if _read_version(database) > self._form.version:",
        "                if False:",
        "tests/addon/test_memory_file.py",
    ),
    Mutation(
        "the lock of what waits for a new file",
        STORE,
        "        with self._lock:\n            if self._losses",
        "        if True:\n            if self._losses",
        "tests/addon/test_store.py",
    ),
    Mutation(
        "what this process wrote into a file that is lost",
        STORE,
        "        self.losses += 1\n",
        "",
        "tests/addon/test_store.py",
    ),
    Mutation(
        "the locks on a file that is opened again",
        STORE,
        "os.O_CREAT | os.O_EXCL | os.O_RDWR",
        "os.O_CREAT | os.O_RDWR",
        "tests/addon/test_store.py",
    ),
    Mutation(
        "the secret that another process has kept",
        "addon/accounts.py",
        "if self._secret is None or _keep_secret(database, self._secret) != self._secret:",
        "if self._secret is None:",
        "tests/addon/test_accounts.py",
    ),
    Mutation(
        "the verdict of another process before a try",
        "addon/accounts.py",
        "self._load(self._store.read(lambda database: _read(database, _READ_ONE, key)))",
        "pass",
        "tests/addon/test_accounts.py",
    ),
    Mutation(
        "the status of an answer that was taken",
        "addon/proxy/resend.py",
        "if status is not None and 200 <= status < 300:",
        "if status is not None:",
        "tests/addon/test_second_try.py",
    ),
    Mutation(
        "a host in NO_PROXY whose name only ends alike",
        "addon/proxy/upstream.py",
        'name.endswith(f".{entry.name}")',
        "name.endswith(entry.name)",
        "tests/proxy/test_upstream.py",
    ),
    Mutation(
        "kept texts that are too old or too many",
        "addon/recall.py",
        "if kept.used >= oldest and excess <= 0:",
        "if kept.used >= oldest or excess <= 0:",
        "tests/addon/test_kept_texts.py",
    ),
    Mutation(
        "a line that fills a record file",
        "addon/records/file.py",
        "if size and size + len(line) > self._max_bytes:",
        "if size and size > self._max_bytes:",
        "tests/records/test_record_file.py",
    ),
    Mutation(
        "the lock of a file that was removed",
        "addon/places.py",
        "if os.fstat(file).st_nlink:",
        "if True:",
        "tests/records/test_record_file.py",
    ),
    Mutation(
        "another machine that asks for a base URL",
        "addon/proxy/routes.py",
        "if client.sockname is None or not is_loopback(client.sockname[0]):",
        "if client.sockname is None:",
        "tests/proxy/test_routes.py",
    ),
    Mutation(
        "a page under another host's name",
        "addon/page/web.py",
        "if not is_our_host(self.request.host, self.served.host, self.served.port):",
        "if False:",
        "tests/page/test_page_server.py",
    ),
    Mutation(
        "an MCP answer that is signed",
        "addon/proxy/mcp.py",
        '    if has_digest(response):\n        return "signed"\n',
        "",
        "tests/proxy/test_mcp_responses.py",
    ),
    Mutation(
        "the place of a percentile",
        "addon/records/tally.py",
        "ceil(len(self.seconds) * percent / 100) - 1)",
        "ceil(len(self.seconds) * percent / 100) - 2)",
        TALLY,
    ),
    Mutation(
        "a boundary that moves at just every other request",
        "addon/records/tally.py",
        "self.moves > self.money.requests / 2",
        "self.moves >= self.money.requests / 2",
        f"{TALLY}::test_a_boundary_slides_where_it_moves_at_most_requests",
    ),
)


def apply(mutation: Mutation, tree: Path) -> None:
    """Make a fault; raises ValueError if it no longer applies."""
    path = tree / mutation.file
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    if (found := source.count(mutation.old)) != 1:
        raise ValueError(
            f"{mutation.name}: {found} times in {mutation.file}, in place of once: {mutation.old}"
        )
    path.write_text(source.replace(mutation.old, mutation.new), encoding="utf-8")


def copy_tree(tree: Path) -> None:
    """Copy what the tests need into a folder that exists, and the code that is cached of it."""
    beside = shutil.ignore_patterns("*.pyc.*")  # somebody writes these just now
    for name in COPIED:
        if (source := ROOT / name).is_dir():
            shutil.copytree(source, tree / name, ignore=beside)
        else:
            shutil.copy(source, tree / name)


def run_tests(tree: Path, tests: Iterable[str], workers: int = 0) -> tuple[int, str]:
    """Run tests of a tree up to the first failure; pytest's exit code, and what failed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-n", f"{workers}"),
            *("-p", "no:cacheprovider", "--no-header", "--tb=no", *tests),
        ],
        cwd=tree,
        # A file that changes twice in a second must not be read from its cached code.
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, failed[0].split(" ", 1)[1].split(" - ")[0] if failed else done.stdout[
        -500:
    ]


def try_mutation(mutation: Mutation, tree: Path) -> tuple[bool, str]:
    """Make a fault in a tree, and take it back; whether its tests notice, and which or why not."""
    path = tree / mutation.file
    before = path.read_bytes() if path.exists() else b""
    try:
        apply(mutation, tree)
    except ValueError as error:
        return False, str(error)
    try:
        code, failure = run_tests(tree, [mutation.related])
    finally:
        path.write_bytes(before)
    return code == 1, failure  # any other code: they pass, or nothing could be run


def main(arguments: Sequence[str]) -> int:
    """Try the mutations, and print what became of each; return 1 if one goes unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all of them")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at once")
    options = parser.parse_args(arguments)
    if unknown := {*options.names} - {each.name for each in MUTATIONS}:
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    chosen = [each for each in MUTATIONS if not options.names or each.name in options.names]
    with (
        tempfile.TemporaryDirectory(prefix="mutations-") as folder,
        ThreadPoolExecutor(options.jobs) as threads,
    ):
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            tree = Path(folder, f"{number}")
            tree.mkdir()
            copy_tree(tree)
            trees.put(tree)
        code, failure = run_tests(tree, {each.related: None for each in chosen}, options.jobs)
        if code != 0:
            print(f"without any fault the tests fail: {failure}", file=sys.stderr)
            return 1

        def describe(mutation: Mutation) -> tuple[bool, str]:
            tree, start = trees.get(), time.monotonic()
            is_noticed, failure = try_mutation(mutation, tree)
            trees.put(tree)
            outcome = failure if is_noticed else f"UNNOTICED: {failure}"
            return is_noticed, f"{time.monotonic() - start:5.1f} s  {mutation.name:55} {outcome}"

        unnoticed = 0
        for is_noticed, line in threads.map(describe, chosen):
            unnoticed += not is_noticed
            print(line, flush=True)
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
