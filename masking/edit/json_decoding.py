"""Decode a JSON document as a client may write it: leniently, or with each number as spelled."""

import json

import orjson

from masking.edit.json_strings import BOM, Number
from masking.errors import WireError

_EXACT = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)
"""Accepts lone surrogates and numbers of any size, and leaves every number as it is spelled."""


def _read_number(spelling: str) -> object:
    """Return a number as orjson does, so that a lone surrogate elsewhere changes nothing in it."""
    try:
        number: object = orjson.loads(spelling)
    except orjson.JSONDecodeError:  # beyond all that a float can be
        return Number(spelling)
    return number


_LENIENT = json.JSONDecoder(parse_int=_read_number, parse_float=_read_number, parse_constant=Number)


def decode(body: bytes) -> object:
    """Decode a JSON document in UTF-8, with or without a byte-order mark.

    Accepts what the standard library accepts: NaN, lone surrogates, duplicate keys (the last one
    holds). A number that is none to orjson, such as NaN, comes back as a `Number`. Raises
    WireError.
    """
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _decode(body, _LENIENT)
    return document


def decode_exactly(body: bytes) -> object:
    """Decode as `decode` does, but with every number as a `Number`. Raises WireError."""
    return _decode(body, _EXACT)


def _decode(body: bytes, decoder: json.JSONDecoder) -> object:
    try:
        document: object = decoder.decode(as_text(body).removeprefix(BOM))
    except RecursionError:
        raise WireError("nested too deeply") from None
    except ValueError as error:
        raise error if isinstance(error, WireError) else WireError("not JSON") from None
    return document


def as_text(body: bytes) -> str:
    """Return a body's text. Raises WireError."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise WireError("not UTF-8") from None
