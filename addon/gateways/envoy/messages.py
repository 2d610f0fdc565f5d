"""The messages between Envoy and us: the only module that knows how they are spelled.

One stream is one HTTP exchange. Envoy sends of it what we ask for, and waits for an answer to each
message before it goes on. See `envoy/service/ext_proc/v3/external_processor.proto`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)
from google.protobuf.duration_pb2 import Duration

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
METHOD = "Process"

read_message = ProcessingRequest.FromString


class Part(NamedTuple):
    """A part of an exchange: what it is (`request_headers`, ...), its content, and if it is last.

    `fields` are those of headers, `body` the bytes of a body, or of a piece of it.
    """

    kind: str
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_last: bool = False


def read_part(message: Any) -> Part | None:  # noqa: ANN401 - made from a description, without types
    """Return the part that a message of Envoy's tells of; None if it tells of none that we know."""
    kind: str | None = message.WhichOneof("request")
    if kind is None:
        return None
    content = getattr(message, kind)
    if kind.endswith("_headers"):
        return Part(kind, (*_read_fields(content),), is_last=content.end_of_stream)
    if kind.endswith("_body"):
        return Part(kind, body=content.body, is_last=content.end_of_stream)
    return Part(kind, is_last=True)


def _read_fields(content: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    for field in content.headers.headers:
        value = field.raw_value.decode("utf-8", "surrogateescape") or field.value
        yield field.key.lower(), value


def write(response: Any) -> bytes:  # noqa: ANN401
    """Return a response as bytes."""
    return bytes(response.SerializeToString())


ASK_FOR_BODY = write(
    ProcessingResponse(
        request_headers=HeadersResponse(),
        mode_override=ProcessingMode(
            request_body_mode=ProcessingMode.BUFFERED,
            response_header_mode=ProcessingMode.SEND,
        ),
    )
)
"""Ask for a request's body, whole, and for the headers of its answer."""

ASK_FOR_HEADERS = write(
    ProcessingResponse(
        request_headers=HeadersResponse(),
        mode_override=ProcessingMode(response_header_mode=ProcessingMode.SEND),
    )
)
"""Ask for nothing more of a request, and for the headers of its answer."""

ASK_FOR_STREAM = write(
    ProcessingResponse(
        response_headers=HeadersResponse(),
        mode_override=ProcessingMode(
            response_body_mode=ProcessingMode.STREAMED,
            response_trailer_mode=ProcessingMode.SEND,
        ),
    )
)
"""Ask for each piece of an answer as it comes.

Envoy takes the length out of the headers of what is streamed to us from the first, as it might
change. Asked for this late, it leaves it in.
"""

GO_ON = {
    "request_headers": write(ProcessingResponse(request_headers=HeadersResponse())),
    "request_body": write(ProcessingResponse(request_body=BodyResponse())),
    "request_trailers": write(ProcessingResponse(request_trailers=TrailersResponse())),
    "response_headers": write(ProcessingResponse(response_headers=HeadersResponse())),
    "response_body": write(ProcessingResponse(response_body=BodyResponse())),
    "response_trailers": write(ProcessingResponse(response_trailers=TrailersResponse())),
}
"""By the kind of a part: it goes on as it came."""


def ask_for_time(seconds: int) -> bytes:
    """Return what has Envoy wait so long for the answer to its last message."""
    return write(ProcessingResponse(override_message_timeout=Duration(seconds=seconds)))


def replace_body(body: bytes, *, has_length: bool) -> bytes:
    """Return what has another body go on, with its length in the header if there was one."""
    changes = CommonResponse(body_mutation=BodyMutation(body=body))
    if has_length:
        length = HeaderValue(key="content-length", raw_value=b"%d" % len(body))
        overwrite = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
        option = HeaderValueOption(header=length, append_action=overwrite)
        changes.header_mutation.CopyFrom(HeaderMutation(set_headers=[option]))
    return write(ProcessingResponse(request_body=BodyResponse(response=changes)))
