"""What tests ask of findings, and the records that are examined."""

from collections.abc import Iterable

from addon.commands.doctor.report import Finding
from addon.records.record import RequestRecord


def levels(findings: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def says(findings: Iterable[Finding]) -> str:
    return "\n".join(finding.says for finding in findings)


def fixes(findings: Iterable[Finding]) -> list[str | None]:
    return [finding.fix for finding in findings if finding.level != "ok"]


def record(**fields: object) -> RequestRecord:
    told = {"time": "2026-11-22T00:00:00Z", "host": "api.openai.com", "path": "/v1/responses"}
    return RequestRecord.model_validate({**told, "model": "gpt-5", "masking": "on", **fields})
