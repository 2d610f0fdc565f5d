"""What a request says when it arrives, and the body of the answer to it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from addon.metrics.names import printable
from addon.metrics.stages import Received, Run
from addon.shared.client import find_client, is_subscription
from addon.shared.decoding import TooLargeError, decode_message
from addon.shared.http_message import Message, Request
from addon.shared.requests import digest_account, path_of
from masking.config import Settings
from masking.wire import Match


def read_received(
    request: Request,
    settings: Settings,
    match: Match,
    run: Run,
    *,
    replay: bool = False,
    answers_masked: bool = True,
) -> Received:
    """Return a request as it arrived just now; the defaults are those of one from a client."""
    return Received(
        time=datetime.now(UTC),
        run=run,
        host=printable(request.pretty_host),
        path=printable(path_of(request)),
        wire=match.wire,
        purpose=match.purpose,
        client=find_client(request),
        subscription=is_subscription(request),
        account=digest_account(request),
        settings=settings,
        replay=replay,
        headers=find_headers(request, settings),
        answers_masked=answers_masked,
    )


def read_answer(response: Message) -> bytes | None:
    """Return the body of an answer, decoded if it can be; None if it was not kept.

    Raises TooLargeError for one that grows beyond all measure.
    """
    try:
        return decode_message(response)
    except TooLargeError:
        raise
    except ValueError:
        return response.raw_content  # a header that is wrong, maybe


def find_headers(request: Request, settings: Settings) -> Mapping[str, str]:
    """Return the headers that rules ask for, which are never credentials."""
    headers = request.headers
    return {name: headers[name] for name in settings.ruled_headers if name in headers}
