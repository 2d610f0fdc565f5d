"""Everything around the addon that a person starts by hand."""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from addon.commands.compare import compare_strategies, render_strategies
from addon.commands.demo import SESSIONS, run_demo
from addon.commands.policy_options import (
    add_memory_option,
    add_policy_options,
    add_replay_options,
    read_policy,
    read_replay_settings,
)
from addon.commands.recording import record_agent
from addon.commands.replay_tables import (
    render_assumed,
    render_conversations,
    render_passed_over,
    render_prices,
)
from addon.commands.replaying import render_json, replay_paths
from addon.commands.sessions import read_sessions
from addon.commands.showing_prices import render_host, render_list
from addon.commands.tuning import open_workers, run_front, run_tune
from addon.metrics.uncached import read_uncached
from addon.proxy.config_file import ConfigFile, find_config
from addon.proxy.launch import client_environment, user_bundle
from addon.proxy.shipped import recordings
from addon.proxy.stored_prices import remove_stored, store_prices
from addon.recordings.expectations import expectation_file, find_configs, replay_recording
from addon.recordings.scrub import scrub_recording
from masking.replay.pauses import pause_sessions
from masking.report.page import render_report

_FILE_WIDTH = 160

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0, or 1 with a line on standard error."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"obsmask: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="obsmask", description=__doc__)
    parser.add_argument("--version", action="version", version=version("observation-masking"))
    commands = parser.add_subparsers(required=True, metavar="command")

    demo = commands.add_parser("demo", help="play a recorded session through the proxy, offline")
    demo.add_argument("strategy", nargs="?", choices=[*SESSIONS], default="schema1")
    demo.set_defaults(command=_demo)

    env = commands.add_parser("env", help='print a client\'s environment: eval "$(obsmask env)"')
    env.add_argument("--proxy", default="http://127.0.0.1:8080", help="default: %(default)s")
    env.set_defaults(command=_env)

    rec = commands.add_parser("record", help="record a real agent against a scripted provider")
    rec.add_argument("agent", metavar="AGENT", help="openai, qwen-code, ...; another names all")
    rec.add_argument("out", type=Path, help="the .flow file to write")
    rec.set_defaults(command=_record)

    scrub = commands.add_parser("scrub", help="replace all prose and secrets in a recording")
    scrub.add_argument("recording", type=Path)
    scrub.add_argument("out", type=Path, help="the .flow file to write")
    scrub.set_defaults(command=_scrub)

    expect = commands.add_parser("expect", help="write down what replaying recordings yields")
    expect.add_argument("recording", type=Path, nargs="*", help="default: the shipped ones")
    expect.add_argument("--check", action="store_true", help="compare instead; exit 1 if different")
    expect.set_defaults(command=_expect)

    rep = commands.add_parser("replay", help="price recordings under a policy")
    rep.add_argument("path", type=Path, nargs="+", help=".flow, .json, .jsonl, .gz, or a folder")
    add_replay_options(rep)
    add_memory_option(rep)
    rep.add_argument("--json", action="store_true", help="print everything that was measured")
    rep.add_argument("--report", type=Path, metavar="OUT.HTML", help="write a page, too")
    rep.set_defaults(command=_replay)

    tun = commands.add_parser("tune", help="find the settings that your recordings ask for")
    tun.add_argument("path", type=Path, nargs="+", help=".flow, .json, .jsonl, .gz, or a folder")
    tun.add_argument("--front", action="store_true", help="show what each max_loss would cost")
    tun.add_argument("--scheduler", metavar="tcp://…", help="run on this Dask cluster")
    add_replay_options(tun)
    tun.set_defaults(command=_tune)

    comp = commands.add_parser("compare", help="compare the strategies on recordings")
    comp.add_argument("path", type=Path, nargs="+", help=".flow, .json, .jsonl, .gz, or a folder")
    comp.add_argument("--reduce-to", type=int, default=20_000, metavar="CHARS", help="the budget")
    add_policy_options(comp)
    comp.set_defaults(command=_compare)

    prices = commands.add_parser("prices", help="show which prices hold, and why")
    prices.add_argument("host", nargs="?", metavar="HOST", help="as in a base URL")
    prices.add_argument("model", nargs="?", metavar="MODEL", help="as in a request")
    prices.add_argument("--config", default="", metavar="FILE", help="default: as the addon's")
    change = prices.add_mutually_exclusive_group()
    change.add_argument(
        "--update", type=Path, metavar="FILE", help="take a newer list: ours, or genai-prices' own"
    )
    change.add_argument("--reset", action="store_true", help="go back to the shipped list")
    prices.set_defaults(command=_prices)
    return parser


def _demo(options: argparse.Namespace) -> int:
    run_demo(Console(), options.strategy)
    return 0


def _env(options: argparse.Namespace) -> int:
    for name, value in client_environment(options.proxy, user_bundle()).items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _record(options: argparse.Namespace) -> int:
    count = record_agent(options.agent, options.out)
    print(f"{options.out}: {count} requests")
    return 0


def _scrub(options: argparse.Namespace) -> int:
    count = scrub_recording(options.recording, options.out)
    print(f"{options.out}: {count} requests")
    return 0


def _expect(options: argparse.Namespace) -> int:
    found = options.recording or recordings()
    cases = [(each, config) for each in found for config in find_configs(each)]
    expected = [_expect_case(each, config, options.check) for each, config in cases]
    return 0 if all(expected) else 1


def _expect_case(recording: Path, config: Path | None, check: bool) -> bool:
    """Write down what a replay yields, or compare; return whether that is what is written."""
    file = expectation_file(recording, config)
    text = json.dumps(replay_recording(recording, config), indent=1, ensure_ascii=False) + "\n"
    if not check:
        file.write_text(text, encoding="utf-8")
        print(file)
    elif file.read_text(encoding="utf-8") != text:
        print(f"{file}: a replay yields something else", file=sys.stderr)
        return False
    return True


def _replay(options: argparse.Namespace) -> int:
    settings_list = read_replay_settings(options)
    if len(settings_list) > 1 and (options.json or options.report):
        raise ValueError("--json and --report take one --prices")
    progress = Console(stderr=True)
    replays = [
        replay_paths(options.path, settings, progress, options.pause) for settings in settings_list
    ]
    replay = replays[0]
    if options.report:
        options.report.write_text(render_report(replay.comparisons), encoding="utf-8")
        print(options.report, file=sys.stderr)
    if options.json:
        print(render_json(replay))
        return 0
    if assumed := render_assumed(replay):
        print(assumed)
    is_one = len(replays) == 1
    table = render_conversations(replay.comparisons) if is_one else render_prices(replays)
    _console().print(table)
    if replay.passed_over:
        print(render_passed_over(replay))
    return 0


def _tune(options: argparse.Namespace) -> int:
    settings_list = read_replay_settings(options)
    if len(settings_list) > 1:
        raise ValueError("tune takes one --prices")
    sessions = pause_sessions(read_sessions(options.path), options.pause)
    run = run_front if options.front else run_tune
    with open_workers(options.scheduler) as workers:
        run(sessions, settings_list[0], workers, _console(), progress=Console(stderr=True))
    return 0


def _compare(options: argparse.Namespace) -> int:
    policy = read_policy(options)
    rows = compare_strategies(options.path, policy, options.reduce_to, Console(stderr=True))
    _console().print(render_strategies(rows))
    return 0


def _prices(options: argparse.Namespace) -> int:
    if options.host and (options.update or options.reset):
        raise ValueError("--update and --reset take no host")
    if options.update:
        prices = store_prices(options.update)
        print(f"Stored: {prices.models:,} prices of {prices.date}. {_WHEN_IN_USE}")
        return 0
    if options.reset:
        had_any = remove_stored()
        print(
            f"Removed. {_WHEN_IN_USE}"
            if had_any
            else "Nothing to remove: the shipped list is in use."
        )
        return 0
    settings = ConfigFile(find_config(options.config)).settings
    uncached = read_uncached(settings.metrics)
    if options.host is None:
        print(*render_list(settings, uncached), sep="\n")
    else:
        print(*render_host(settings, options.host, options.model, uncached), sep="\n")
    return 0


_WHEN_IN_USE = "A proxy that is running has to be restarted to notice."


def _console() -> Console:
    """Return a console whose tables are complete, too, where nobody watches."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)


if __name__ == "__main__":
    sys.exit(main())
