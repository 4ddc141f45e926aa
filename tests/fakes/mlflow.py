"""An MLflow tracking server as far as the exporter sees it; tests/contract/test_mlflow.py holds it to the real one.

async with FakeMlflow() as server: ... server.uri ...
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

Json = dict[str, Any]


@dataclass
class FakeMlflow:
    """`fail` holds the statuses that the next calls are answered with."""

    token: str = ""
    fail: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    experiments: dict[str, str] = field(default_factory=dict)
    runs: list[Json] = field(default_factory=list)
    uri: str = ""
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/2.0/mlflow/{route:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.uri = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        route = request.match_info["route"]
        self.calls.append(route)
        if self.fail:
            return web.json_response({"error_code": "INTERNAL_ERROR", "message": "as told"}, status=self.fail.pop(0))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="You are not authenticated")
        body = dict(request.query) if request.method == "GET" else await request.json()
        return getattr(self, "_" + route.replace("/", "_").replace("-", "_"))(body)  # type: ignore[no-any-return]

    def _experiments_get_by_name(self, body: Json) -> web.Response:
        found = self.experiments.get(body["experiment_name"])
        if found is None:
            return web.json_response({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}, status=404)
        return web.json_response({"experiment": {"experiment_id": found}})

    def _experiments_create(self, body: Json) -> web.Response:
        self.experiments[body["name"]] = str(len(self.experiments) + 1)
        return web.json_response({"experiment_id": self.experiments[body["name"]]})

    def _runs_create(self, body: Json) -> web.Response:
        info = {"run_id": f"{len(self.runs):032x}", "status": "RUNNING", "experiment_id": body["experiment_id"]}
        info["run_name"] = body["run_name"]
        self.runs.append({"info": info, "data": {"tags": body["tags"], "params": []}, "history": {}})
        return web.json_response({"run": self.runs[-1]})

    def _runs_search(self, body: Json) -> web.Response:
        wanted = body["filter"].partition("'")[2].rstrip("'")
        found = [run for run in self.runs if any(tag["value"] == wanted for tag in run["data"]["tags"])]
        return web.json_response({"runs": [shown(run) for run in found]} if found else {})

    def _runs_log_batch(self, body: Json) -> web.Response:
        run = self._run(body)
        run["data"]["params"] += body.get("params", [])
        for metric in body.get("metrics", []):
            rows = run["history"].setdefault(metric["key"], [])
            if metric not in rows:
                rows.append(metric)
        return web.json_response({})

    def _runs_update(self, body: Json) -> web.Response:
        self._run(body)["info"]["status"] = body["status"]
        return web.json_response({})

    def _runs_get(self, body: Json) -> web.Response:
        return web.json_response({"run": shown(self._run(body))})

    def _metrics_get_history(self, body: Json) -> web.Response:
        return web.json_response({"metrics": self._run(body)["history"].get(body["metric_key"], [])})

    def _run(self, body: Json) -> Json:
        return next(run for run in self.runs if run["info"]["run_id"] == body["run_id"])


def shown(run: Json) -> Json:
    """A run with the newest value of every metric."""
    newest = [max(rows, key=lambda row: (row["step"], row["timestamp"])) for rows in run["history"].values()]
    return {"info": run["info"], "data": {**run["data"], "metrics": newest}}
