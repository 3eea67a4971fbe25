"""The HTTP API: envelopes, codes, parameters; and the client library that the lab uses."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from prometheus_api_client import PrometheusConnect

from aiopslab.errors import UsageError
from aiopslab.sim.observe.prometheus import Source, prometheus_app
from aiopslab.sim.observe.targets import Target
from aiopslab.testing.prometheus import Samples, app_from_files

TEXT = "\n".join(
    [
        "# TYPE requests_total counter",
        "# HELP requests_total Requests served.",
        *(f'requests_total{{path="/{p}"}} {i * (p + 1)} {1000 + 15 * i}' for p in range(2) for i in range(41)),
        '# TYPE note gauge\nnote{text="a\\"b\\\\c\\nd"} 2 1600',
        "# EOF",
    ]
)
NOW = 1600.5


def source(semantics: int = 3) -> tuple[Source, list[float]]:
    samples = Samples()
    samples.read(TEXT)
    refreshed: list[float] = []
    made = Source(
        samples.store(),
        now=lambda: NOW,
        refresh=lambda: refreshed.append(NOW),
        semantics=semantics,
        targets=lambda: [Target({"job": "web", "instance": "w:1"}, "web", "http://w:1/metrics", 1600.0, 0.01, 15)],
        metadata=lambda: samples.metadata,
    )
    return made, refreshed


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with TestServer(prometheus_app(source()[0])) as running:
        yield running


async def get(server: TestServer, path: str, pairs: Any = (), method: str = "GET") -> tuple[int, Any]:
    async with ClientSession() as session:
        form = {"data": pairs} if method == "POST" else {"params": pairs}
        async with session.request(method, server.make_url(path), allow_redirects=False, **form) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text


async def test_instant_query_defaults_to_the_virtual_now(server: TestServer) -> None:
    status, body = await get(server, "/api/v1/query", {"query": 'requests_total{path="/0"}'})
    labels = {"__name__": "requests_total", "path": "/0"}
    data = {"resultType": "vector", "result": [{"metric": labels, "value": [NOW, "40"]}]}
    assert (status, body) == (200, {"status": "success", "data": data})


async def test_refresh_runs_before_each_answer() -> None:
    made, refreshed = source()
    async with TestServer(prometheus_app(made)) as running:
        await get(running, "/api/v1/query", {"query": "1"})
        await get(running, "/api/v1/labels")
    assert len(refreshed) == 2


async def test_times_are_written_with_three_decimals_or_none(server: TestServer) -> None:
    async with ClientSession() as session:
        url = server.make_url("/api/v1/query_range")
        params = {"query": "vector(1)", "start": "1.24", "end": "2.5", "step": "0.76"}
        async with session.get(url, params=params) as answer:
            assert '[[1.240,"1"],[2,"1"]]' in await answer.text()


async def test_post_form_wins_over_the_address(server: TestServer) -> None:
    status, body = await get(server, "/api/v1/query?query=2&time=7", {"query": "1"}, "POST")
    assert (status, body["data"]) == (200, {"resultType": "scalar", "result": [7, "1"]})


@pytest.mark.parametrize(
    ("path", "params", "status", "kind", "message"),
    [
        ("query", {"query": "up{"}, 400, "bad_data",
         'invalid parameter "query": 1:4: parse error: unexpected end of input inside braces'),
        ("query", {"query": "1", "time": "x"}, 400, "bad_data", 'invalid parameter "time": invalid time value for '
         "'time': cannot parse \"x\" to a valid timestamp"),
        ("query", {"query": "requests_total + on () requests_total"}, 422, "execution", "found duplicate series"),
        ("query", {"query": "1", "timeout": "0"}, 503, "timeout", "query timed out in expression evaluation"),
        ("query_range", {"query": "1", "end": "2", "step": "1"}, 400, "bad_data",
         'invalid parameter "start": cannot parse "" to a valid timestamp'),
        ("query_range", {"query": "1", "start": "2", "end": "1", "step": "1"}, 400, "bad_data",
         'invalid parameter "end": end timestamp must not be before start time'),
        ("query_range", {"query": "1", "start": "1", "end": "2", "step": "0"}, 400, "bad_data",
         'invalid parameter "step": zero or negative query resolution step widths are not accepted'),
        ("query_range", {"query": "1", "start": "0", "end": "11001", "step": "1"}, 400, "bad_data",
         "exceeded maximum resolution of 11,000 points per timeseries"),
        ("query_range", {"query": "up[5m]", "start": "1", "end": "2", "step": "1"}, 400, "bad_data",
         'invalid parameter "query": invalid expression type "range vector" for range query'),
        ("series", {}, 400, "bad_data", "no match[] parameter provided"),
        ("series", {"match[]": "{}"}, 400, "bad_data", 'invalid parameter "match[]": match[] must contain'),
        ("rules", {"type": "x"}, 400, "bad_data", 'invalid parameter "type": not supported value "x"'),
        ("query", {"query": "1", "limit": "-1"}, 400, "bad_data", "limit must be non-negative"),
    ],
)  # fmt: skip
async def test_errors(
    server: TestServer, path: str, params: dict[str, str], status: int, kind: str, message: str
) -> None:
    got, body = await get(server, f"/api/v1/{path}", params)
    assert (got, body["status"], body["errorType"]) == (status, "error", kind)
    assert message in body["error"]


async def test_labels_series_and_limits(server: TestServer) -> None:
    assert (await get(server, "/api/v1/labels"))[1]["data"] == ["__name__", "path", "text"]
    assert (await get(server, "/api/v1/label/path/values"))[1]["data"] == ["/0", "/1"]
    assert (await get(server, "/api/v1/label/text/values"))[1]["data"] == ['a"b\\c\nd']
    chosen = [("match[]", "note"), ("match[]", 'requests_total{path="/1"}')]
    _, body = await get(server, "/api/v1/series", chosen)
    assert [row["__name__"] for row in body["data"]] == ["note", "requests_total"]
    _, body = await get(server, "/api/v1/series", [*chosen, ("limit", "1")])
    assert (len(body["data"]), body["warnings"]) == (1, ["results truncated due to limit"])
    _, body = await get(server, "/api/v1/label/path/values", {"start": "2000"})
    assert body["data"] == []


async def test_pages_beside_the_api(server: TestServer) -> None:
    assert await get(server, "/-/healthy") == (200, "Prometheus Server is Healthy.\n")
    assert await get(server, "/-/ready") == (200, "Prometheus Server is Ready.\n")
    assert await get(server, "/api/v1/nothing") == (404, "404 page not found\n")
    assert (await get(server, "/"))[0] == 302
    assert (await get(server, "/api/v1/query", method="PUT"))[0] == 405
    for page in ("buildinfo", "runtimeinfo", "flags", "config", "tsdb", "walreplay"):
        status, body = await get(server, f"/api/v1/status/{page}")
        assert (status, body["status"]) == (200, "success")
    assert (await get(server, "/api/v1/status/nothing"))[0] == 404
    _, body = await get(server, "/api/v1/format_query", {"query": "sum(a)by(b)>1"})
    assert body["data"] == "sum by (b) (a) > 1"


async def test_the_client_library_works_without_warnings(server: TestServer) -> None:
    def use() -> None:
        client = PrometheusConnect(url=str(server.make_url("")).rstrip("/"), disable_ssl=True)
        assert client.check_prometheus_connection()
        assert client.all_metrics() == ["note", "requests_total"]
        assert client.get_current_metric_value("requests_total", {"path": "/1"})[0]["value"] == [NOW, "80"]
        start, end = (datetime.fromtimestamp(t, UTC) for t in (1300, 1600))
        rows = client.custom_query_range("rate(requests_total[1m])", start, end, "15")
        assert [len(row["values"]) for row in rows] == [21, 21]
        assert float(rows[1]["values"][0][1]) == pytest.approx(2 / 15)
        rows = client.get_metric_range_data("requests_total", start_time=start, end_time=end)
        assert [len(row["values"]) for row in rows] == [20, 20]  # the left edge is open
        assert client.get_label_names() == ["__name__", "path", "text"]
        assert client.get_metric_aggregation("requests_total", ["max"], start, end, "15")["max"]
        assert client.get_targets()["activeTargets"][0]["health"] == "up"
        assert client.get_scrape_pools() == ["web"]
        assert client.get_metric_metadata("requests_total")[0]["help"] == "Requests served."
        assert client.get_target_metadata({"job": "web"}) == []

    await asyncio.to_thread(use)


async def test_a_server_over_files(tmp_path: Path) -> None:
    samples, stale = tmp_path / "s.om.gz", tmp_path / "stale.jsonl"
    samples.write_bytes(gzip.compress(b"m 1 10\nm 2 20.5\n# EOF\n"))
    stale.write_text('{"metric": {"__name__": "m"}, "t": 30}\n')
    app: web.Application = app_from_files(samples, stale, 2)
    async with TestServer(app) as running:
        for at, expected in (("29", ["2"]), ("30", [])):
            _, body = await get(running, "/api/v1/query", {"query": "m", "time": at})
            assert [row["value"][1] for row in body["data"]["result"]] == expected


def test_samples_without_time_are_refused() -> None:
    with pytest.raises(UsageError, match=r"metrics\.txt, line 2: not a sample with a timestamp"):
        Samples().read("# TYPE m gauge\nm 1\n", "metrics.txt")
