"""An engine that only has what the proxy's addons ask of it."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast

from addon.config import ConfigFile
from addon.engine import Engine
from addon.stages import Run
from addon.threads import Pool
from masking.config import Settings


@dataclass
class Recorder:
    """Keeps what it is to record; `settled` is the summary that `settle` waits for."""

    path: str | None = "requests.jsonl"
    lost: int = 0
    left_out: str = ""
    noted: list[Mapping[str, object]] = field(default_factory=list)
    settled: list[Future[str | None]] = field(default_factory=list)

    def note(self, fields: Mapping[str, object], settings: Settings, run: Run) -> None:
        self.noted.append({**fields, "run": run.name})

    def settle(self) -> Future[str | None]:
        summary: Future[str | None] = Future()
        self.settled.append(summary)
        summary.set_result("1 request")
        return summary


@dataclass
class StandIn:
    settings: Settings = field(default_factory=Settings)
    config: ConfigFile | None = None
    run: Run = field(default_factory=lambda: Run("3f2a81c0"))
    pool: Pool = field(default_factory=Pool)
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def as_engine(self) -> Engine:
        """It, in place of the engine that it stands for."""
        return cast(Engine, self)
