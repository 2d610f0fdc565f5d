"""Whether the runtime of a command trusts the proxy, by what became of each way to ask."""

from collections.abc import Iterator, Sequence

from addon.commands.diagnosis.clients import Client
from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.commands.diagnosis.program import Interpreter, Other, Program
from addon.commands.diagnosis.trial import Attempt

_REVERSE = "obsmask run --reverse URL -- COMMAND"


def check_unasked(program: Program, client: Client | None) -> Iterator[Finding]:
    """Yield what is known of a program that cannot be asked whom it trusts."""
    if client and client.authorities:
        yield ok(
            f"{program.name} cannot be asked whom it trusts. As far as is known it reads "
            f"{' or '.join(client.authorities)}"
        )
        return
    runs_on = program.runs_on
    kind = _KINDS["native" if isinstance(runs_on, Interpreter) else runs_on]
    yield note(
        f"{program.path} {kind}: whether it trusts the proxy's certificate "
        "cannot be known from outside. If it does not, the proxy's log says so"
    )


_KINDS: dict[Other, str] = {
    "native": "is, or starts, a program of its own",
    "shell script": "is a shell script that does not say what it starts",
    "unknown": "is started by something that is not known here",
}


def check_attempts(
    program: Program,
    interpreter: Interpreter,
    client: Client | None,
    attempts: Sequence[Attempt],
    mend: str | None = None,
) -> Iterator[Finding]:
    """Yield whether a runtime trusts the proxy's certificate, and whether it uses the proxy.

    `mend` is what would have it trust the proxy.
    """
    is_itself = interpreter.path == program.path
    runtime = f"{interpreter.path}" + ("" if is_itself else f", which runs {program.name},")
    if not attempts:
        yield note(f"{runtime} could not be asked whom it trusts")
        return
    ways = {each.outcome: [a for a in attempts if a.outcome == each.outcome] for each in attempts}
    if trusting := ways.get("trusted"):
        yield ok(f"{runtime} trusts the proxy's certificate ({_name(trusting)})")
    if refusing := ways.get("untrusted"):
        yield broken(
            f"{runtime} does not trust the proxy's certificate ({_tell(refusing)}): its requests "
            "fail, or pass unmasked",
            mend,
        )
    if passing := ways.get("unreached"):
        yield from _check_passing(runtime, program, client, passing, is_trusted=bool(trusting))
    if failing := ways.get("failed"):
        yield broken(f"{runtime} gets no answer through the proxy ({_tell(failing)})")


def _check_passing(
    runtime: str,
    program: Program,
    client: Client | None,
    passing: Sequence[Attempt],
    *,
    is_trusted: bool,
) -> Iterator[Finding]:
    """Yield what is to be said of ways that look for a server past the proxy, as Node 20's fetch.

    A client that is known to work brings its own way, and what its runtime does is no matter.
    """
    if client is not None and client.authorities and is_trusted:
        return
    yield note(
        f"{runtime} goes past the proxy with {_name(passing)}: requests are masked only if "
        f"{program.name} asks in another way. A base URL does without",
        _REVERSE,
    )


def _name(attempts: Sequence[Attempt]) -> str:
    return ", ".join(each.way for each in attempts)


def _tell(attempts: Sequence[Attempt]) -> str:
    return ", ".join(f"{each.way}: {each.detail}" if each.detail else each.way for each in attempts)
