"""The client's request for a scan plan."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import Invalid
from catalog.iceberg.json import Json, flag, integer_or_none, texts
from catalog.scan.expression import TRUE, Expression, parse_expression

_WHERE = "scan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """A PlanTableScanRequest of the specification, without the selected columns, which do not matter here."""

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    filter: Expression = TRUE
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    stats_fields: tuple[str, ...] = ()
    min_rows: int | None = None

    @classmethod
    def parse(cls, body: Json) -> ScanRequest:
        """The request of a body; Invalid names the field that does not fit."""
        _names(body, "select")  # names without a column may be an engine's own, such as _file
        request = cls(
            snapshot_id=integer_or_none(body, "snapshot-id", _WHERE),
            start_snapshot_id=integer_or_none(body, "start-snapshot-id", _WHERE),
            end_snapshot_id=integer_or_none(body, "end-snapshot-id", _WHERE),
            filter=parse_expression(body["filter"]) if "filter" in body else TRUE,
            case_sensitive=_flag(body, "case-sensitive", default=True),
            use_snapshot_schema=_flag(body, "use-snapshot-schema", default=False),
            stats_fields=_names(body, "stats-fields"),
            min_rows=integer_or_none(body, "min-rows-requested", _WHERE),
        )
        _check(request)
        return request

    @property
    def between(self) -> tuple[int, int] | None:
        """Start (exclusive) and end (inclusive) of an incremental scan; None for others."""
        if self.start_snapshot_id is None or self.end_snapshot_id is None:
            return None
        return self.start_snapshot_id, self.end_snapshot_id


def _check(request: ScanRequest) -> None:
    start, end = request.start_snapshot_id, request.end_snapshot_id
    if request.snapshot_id is not None and (start is not None or end is not None):
        raise Invalid("Invalid scan: cannot provide both snapshot-id and start-snapshot-id/end-snapshot-id")
    if (start is None) is not (end is None):
        raise Invalid("Invalid incremental scan: start-snapshot-id and end-snapshot-id are both required")
    if request.min_rows is not None and request.min_rows < 0:
        raise Invalid("Invalid scan: min-rows-requested is negative")


def _flag(body: Json, key: str, *, default: bool) -> bool:
    return default if body.get(key) is None else flag(body, key, _WHERE)


def _names(body: Json, key: str) -> tuple[str, ...]:
    return () if body.get(key) is None else tuple(texts(body, key, _WHERE))
