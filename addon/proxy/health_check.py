"""Asks a proxy how it is: `addon.proxy.health`, from outside."""

import http.client
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from addon.network import Address

_URL = "http://obsmask.test/health"
_MAX_BYTES = 1_000_000
_PATIENCE = 10.0


class Health(BaseModel):
    """What a proxy with the addon says of itself. Fields of later versions are passed over.

    run: the name of its run, as in its records.
    state: the line of its log that says what is on.
    base_urls: whether its port takes requests to `base_urls.behind`.
    records: the record file; None if there is no place for one.
    lost_records: how many could not be written there, as on a full disk.
    summary: what the run came to so far, those included, in a line.
    unopened: the connections that passed unopened for lack of trust, by host.
    unserved: the requests that passed because their format is not masked.
    page: where its live page is; None if it has none.
    recall_folder: where it keeps what is masked; None if it keeps nothing.
    """

    model_config = ConfigDict(frozen=True)

    software_version: str
    run: str
    state: str
    is_masking: bool
    base_urls: bool = False
    config: str
    records: str | None
    lost_records: int = 0
    summary: str = ""
    unopened: Mapping[str, int]
    unserved: int
    page: str | None = None
    recall_folder: str | None = None


def check_health(address: Address, patience: float = _PATIENCE) -> Health | None:
    """Return how a proxy is, once it has recorded what came to its end; `patience` is in seconds.

    None if it is no proxy with this addon. Raises OSError if nothing listens there, or answers.
    """
    connection = http.client.HTTPConnection(*address, timeout=patience)
    try:
        connection.request("GET", _URL)
        return Health.model_validate_json(connection.getresponse().read(_MAX_BYTES))
    except (http.client.HTTPException, ValidationError):
        return None
    finally:
        connection.close()
