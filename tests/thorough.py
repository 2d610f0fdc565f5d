"""Tests that take long and seldom say more than others: `.ci/run` runs them, `pytest` does not.

`pytest -m thorough` runs them alone, `pytest -m ''` all tests.
"""

import re

from addon.places import recordings
from addon.recordings.flows import name_of

_ONE_OF_EACH_FORMAT = (
    *("anthropic-tour", "codex-tour", "codex-websocket-tour"),
    *("gemini-cli-code-assist-tour", "ollama-tour"),
)
"""Of the sessions of clients, those that are enough in every run."""

_OTHERS = "|".join(
    re.escape(name_of(path))
    for path in recordings()
    if path.parent.name == "clients" and name_of(path) not in _ONE_OF_EACH_FORMAT
)

_THOROUGH = re.compile(
    "|".join(
        (
            # Each recording, and what it takes to make one.
            rf"test_recordings(?:_hygiene)?\.py::\w+\[(?:{_OTHERS})",
            r"test_recordings\.py::test_a_replay_yields\w+\[(?:opencode|qwen-code|openai-(?:stream-)?scratch)",
            r"test_recordings\.py::test_a_replay_yields\w+\[(?:openai-questions(?:\.re\w+)?|mcp-files)\]",
            r"test_recordings\.py::test_the_switch_of_the_environment",
            r"test_recordings_hygiene\.py::test_results_hold_our_own_lines",
            r"test_recorder\.py::test_shipped_recordings_regenerate",
            r"test_recorder\.py::test_records_a_short_scenario",
            r"test_mcp_recorder\.py::test_the_shipped_recording_regenerates",
            r"test_scrub\.py::test_a_real_recording_scrubbed_as_a_foreign_one",
            # Behind Envoy, what others show in part.
            r"test_envoy_faults_live\.py::test_a_restart_under_load",
            r"test_envoy_live\.py::test_the_demo_plays_through",
            # Tables of the documentation, by their commands.
            r"test_docs\.py::test_the_strategies_are_compared_as_the_benchmark_prints_it",
            r"test_docs\.py::test_a_table_is_what_its_command_prints",
            r"test_docs\.py::test_what_a_wrong_assumption_costs_is_what_its_command_prints",
            # Real conversations, and replays of whole recordings.
            r"test_vendor_promise\.py::test_real_conversations_keep_the_promise",
            r"test_vendor_promise\.py::test_each_change_of_the_marks",
            r"test_conversations\.py::test_the_rule_is_near_the_optimum",
            r"test_fast_replay\.py::test_it_agrees_with_a_replay_(?:of_real|where_a_cache)",
            r"test_max_loss_front\.py::test_recordings_have_a_front",
            r"test_demo\.py::test_the_demo_(?:plays|shows_the_other)",
            r"test_golden\.py::test_golden_files_are_written_and_compared",
            r"test_replaying\.py::test_a_replay_gives_the_numbers\w+\[(?!mini-swe)",
            # Whole sessions behind a proxy, in variations.
            r"test_(?:run_)?clients_live\.py",
            r"test_(?:doctor|network|observe|recall|records|rereads|rules|sdks|soak|cold_process)_live\.py",
            r"test_run_live\.py::(?!test_(?:an_agent_is_masked|nothing_is|ctrl_c|sigterm|what_goes))",
            r"test_(?:litellm|replicas)_live\.py",
            r"test_metrics\.py::test_records_that_hang",
            r"test_resend_live\.py::(?!test_a_conversation_that_is_refused)",
            r"test_page_server\.py::test_a_reader_that_does_not_read",
            r"test_page_in_a_browser\.py::test_every\w+\[(?!400 \w+-(?:390-dark|1300-light))",
            r"test_messages_live\.py::test_no_request_is_refused\w*\[(?:from|configured)",
            r"_live\.py::test_a_session_ends_\w+\[(?!whole answers|events|stream)",
            r"test_memory_live\.py::test_(?:after_a_long_pause|two_proxies|a_lost_memory)",
            r"test_trust_live\.py::test_a_client_that_forgot",
            r"test_mcp_live\.py::test_a_recording_of_what_was_not_cut",
        )
    )
)


def is_thorough(test: str) -> bool:
    """Whether the test with this id is left out unless it is asked for."""
    return _THOROUGH.search(test) is not None
