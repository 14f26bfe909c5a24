"""Server-side scan planning: clients plan a scan, and fetch its tasks or cancel it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response

from catalog.ports.scan import FileTask
from catalog.scan.deletes import DeleteFile
from catalog.scan.expression import to_json
from server.iceberg.requests import CatalogDep, JsonBody, ServicesDep, TableDep, json_response, text_in
from server.service.tables.scan_planning import Planned

router = APIRouter(prefix="/{catalog}/namespaces/{namespace}/tables/{table}")


@router.post("/plan")
def plan_scan(services: ServicesDep, catalog: CatalogDep, name: TableDep, body: JsonBody) -> Response:
    """Plan a scan. A small scan's answer has all files, a large one's the tasks to fetch. Each request plans again."""
    planned = services.scans.plan(catalog, name, body)
    return json_response({"plan-id": planned.plan_id, **_build_completed(planned)})


@router.get("/plan/{plan_id}")
def planning_result(services: ServicesDep, catalog: CatalogDep, name: TableDep, plan_id: str) -> Response:
    """Get the tasks of a plan, or its cancellation."""
    planned = services.scans.result(catalog, name, plan_id)
    return json_response({"status": "cancelled"} if planned is None else _build_completed(planned))


@router.delete("/plan/{plan_id}", status_code=204)
def cancel_planning(services: ServicesDep, catalog: CatalogDep, name: TableDep, plan_id: str) -> None:
    """Cancel a plan."""
    services.scans.cancel(catalog, name, plan_id)


@router.post("/tasks")
def fetch_scan_tasks(services: ServicesDep, catalog: CatalogDep, name: TableDep, body: JsonBody) -> Response:
    """List the files of one task of a plan."""
    return json_response(_encode_files(services.scans.fetch(catalog, name, text_in(body, "plan-task"))))


def _build_completed(planned: Planned) -> dict[str, Any]:
    tasks = {"plan-tasks": list(planned.tasks)} if planned.tasks else _encode_files(planned.files)
    return {"status": "completed", **tasks}


def _encode_files(files: Sequence[FileTask]) -> dict[str, Any]:
    """Encode files, and each of their delete files once."""
    numbers: dict[DeleteFile, int] = {}
    residuals: dict[int, Any] = {}  # files of one partition share their residual
    tasks = []
    for file in files:
        key = id(file.residual)
        if key not in residuals:
            residuals[key] = to_json(file.residual)
        task: dict[str, Any] = {"data-file": file.content, "residual-filter": residuals[key]}
        if file.deletes:
            task["delete-file-references"] = [numbers.setdefault(delete, len(numbers)) for delete in file.deletes]
        tasks.append(task)
    return {"delete-files": [delete.content for delete in numbers], "file-scan-tasks": tasks}
