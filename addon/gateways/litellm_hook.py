"""Masks old tool results in what a LiteLLM proxy, or a program with LiteLLM, sends.

In the proxy's `config.yaml`:

    litellm_settings:
      callbacks: ["addon.gateways.litellm_hook.observation_masking"]

This module alone imports LiteLLM. Whatever goes wrong in here, a call goes on as it came.
"""

import atexit
import contextlib
import functools
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from addon.config import locate_config, render_start
from addon.gateways.litellm import Call, Deployment, LiteLLMGateway, find_usage
from masking.errors import ConfigError

if TYPE_CHECKING:

    class CustomLogger:
        """What LiteLLM takes for a callback."""

    all_litellm_params: list[str]

    def get_llm_provider(
        model: str, custom_llm_provider: str | None, api_base: str | None
    ) -> tuple[str, str | None, str | None, str | None]:
        """Return the model, the provider, a key and the base URL."""
else:
    from litellm import get_llm_provider
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.utils import all_litellm_params

logger = logging.getLogger("observation_masking")


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _guarded(
    hook: Callable[_Arguments, Awaitable[_Result]],
) -> Callable[_Arguments, Awaitable[_Result | None]]:
    """Let a hook return None where it fails: its arguments may be objects of any class."""

    @functools.wraps(hook)
    async def guarded(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result | None:
        try:
            return await hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the call goes on, whatever happened
            logger.warning(f"a call of LiteLLM was not looked at: {type(error).__name__}")
            return None

    return guarded


class ObservationMasking(CustomLogger):
    """The hooks: LiteLLM calls each with keyword arguments of its own choice."""

    def __init__(self, gateway: LiteLLMGateway) -> None:
        super().__init__()
        self._gateway = gateway

    @_guarded
    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: object
    ) -> dict[str, Any] | None:
        """Return a call's arguments with old tool results masked; None if they stay as they are."""
        changed = await self._gateway.mask(
            Call(_find_id(kwargs), _find_name(call_type), kwargs, _find_deployment(kwargs))
        )
        return None if changed is None else {**kwargs, **changed}

    @_guarded
    async def async_log_success_event(
        self,
        kwargs: Mapping[str, Any],
        response_obj: object,
        start_time: datetime,
        end_time: datetime,
    ) -> None:
        call_id = _find_id(kwargs)
        first = kwargs.get("completion_start_time") if kwargs.get("stream") else None
        if kwargs.get("cache_hit"):
            self._gateway.drop(call_id)
        else:
            self._gateway.succeed(call_id, end_time, find_usage(response_obj), first)

    @_guarded
    async def async_log_failure_event(
        self,
        kwargs: Mapping[str, Any],
        response_obj: object,
        start_time: datetime,
        end_time: datetime,
    ) -> None:
        status = _find_status(kwargs.get("exception"))
        self._gateway.fail(_find_id(kwargs), end_time, status)

    @_guarded
    async def async_post_call_failure_deployment_hook(
        self,
        request_data: Mapping[str, Any],
        exception: Exception,
        call_type: object,
        fallback_depth: int | None = None,
    ) -> None:
        """Record each try that fails; the event above comes once for all of them."""
        now, status = datetime.now(), _find_status(exception)
        self._gateway.fail(_find_id(request_data), now, status, _find_name(call_type))


def _find_id(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("litellm_call_id"))


def _find_name(call_type: object) -> str:
    """Return the name of a type of calls, which may be a member of an enumeration."""
    return str(getattr(call_type, "value", call_type))


def _find_deployment(arguments: Mapping[str, Any]) -> Deployment:
    """Return to whom a call goes."""
    model, provider = str(arguments.get("model")), arguments.get("custom_llm_provider")
    base = arguments.get("api_base") or arguments.get("base_url")
    with contextlib.suppress(Exception):  # a model that LiteLLM does not know
        model, provider, _, base = get_llm_provider(model, provider, base)
    return Deployment(provider and str(provider), model, base and str(base))


def _find_status(error: object) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _log_to_standard_error() -> None:
    """Let the lines be seen where nobody says what becomes of them, as LiteLLM does not."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())


def _start() -> ObservationMasking:
    _log_to_standard_error()
    try:
        gateway = LiteLLMGateway(locate_config(""), all_litellm_params)
    except ConfigError as error:
        sys.exit(f"observation-masking: {error}")
    atexit.register(gateway.close)
    logger.info(render_start(gateway.config))
    return ObservationMasking(gateway)


observation_masking = _start()
