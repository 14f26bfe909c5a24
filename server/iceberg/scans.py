"""Server-side scan planning: a scan is planned, its tasks are fetched or given up."""

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
    """Plan a scan: a small one is answered whole, a large one by the tasks to fetch. Asking again plans it again."""
    planned = services.scans.plan(catalog, name, body)
    return json_response({"plan-id": planned.plan_id, **_completed(planned)})


@router.get("/plan/{plan_id}")
def planning_result(services: ServicesDep, catalog: CatalogDep, name: TableDep, plan_id: str) -> Response:
    """A plan whose tasks can be fetched, or that it was cancelled."""
    planned = services.scans.result(catalog, name, plan_id)
    return json_response({"status": "cancelled"} if planned is None else _completed(planned))


@router.delete("/plan/{plan_id}", status_code=204)
def cancel_planning(services: ServicesDep, catalog: CatalogDep, name: TableDep, plan_id: str) -> None:
    """Give up a plan."""
    services.scans.cancel(catalog, name, plan_id)


@router.post("/tasks")
def fetch_scan_tasks(services: ServicesDep, catalog: CatalogDep, name: TableDep, body: JsonBody) -> Response:
    """The files of one task of a plan."""
    return json_response(_files(services.scans.fetch(catalog, name, text_in(body, "plan-task"))))


def _completed(planned: Planned) -> dict[str, Any]:
    tasks = {"plan-tasks": list(planned.tasks)} if planned.tasks else _files(planned.files)
    return {"status": "completed", **tasks}


def _files(files: Sequence[FileTask]) -> dict[str, Any]:
    """Files and the deletes that they refer to, each of these once."""
    numbers: dict[DeleteFile, int] = {}
    residuals: dict[int, Any] = {}  # files of one partition share theirs
    tasks = []
    for file in files:
        key = id(file.residual)
        if key not in residuals:
            residuals[key] = to_json(file.residual)
        task: dict[str, Any] = {"data-file": file.content, "residual-filter": residuals[key]}
        if file.deletes:
            task["delete-file-references"] = [numbers.setdefault(one, len(numbers)) for one in file.deletes]
        tasks.append(task)
    return {"delete-files": [one.content for one in numbers], "file-scan-tasks": tasks}
