"""The Prometheus HTTP API over a series store."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import promql_parser
from aiohttp import web

from aiopslab.sim.observe import federate, render, status
from aiopslab.sim.observe.matchers import NAME, Matcher
from aiopslab.sim.observe.params import MAX_MS, MIN_MS, ApiFailure, Params, bad_data, parse_step, parse_time
from aiopslab.sim.observe.promql import ast
from aiopslab.sim.observe.promql.errors import ParseError, QueryError, QueryTimeout
from aiopslab.sim.observe.promql.evaluate import Engine, Result
from aiopslab.sim.observe.promql.parser import parse, parse_selector
from aiopslab.sim.observe.promql.signatures import TYPE_NAMES
from aiopslab.sim.observe.rules.manager import RuleManager
from aiopslab.sim.observe.rules.pages import alerts_page, rules_page
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata, Target

POINTS_MAX = 11_000
TIMEOUT_S = 120.0
_CODES = {"bad_data": 400, "execution": 422, "timeout": 503}
_TOO_FINE = (
    "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
)
_TRUNCATED = "results truncated due to limit"


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Source:
    """What the API serves. ``now`` gives Unix seconds (the virtual clock); ``refresh`` is called before an
    answer, so that the world can simulate up to now. ``semantics`` is Prometheus' major version. ``rules`` are
    evaluated up to now before an answer."""

    store: SeriesStore
    now: Callable[[], float] = time.time
    refresh: Callable[[], None] = _nothing
    semantics: int = 3
    targets: Callable[[], list[Target]] = list
    metadata: Callable[[], Mapping[str, MetricMetadata]] = dict
    rules: RuleManager | None = None

    def catch_up(self) -> None:
        """Bring everything up to now."""
        self.refresh()
        if self.rules is not None:
            self.rules.catch_up(self.now())


def prometheus_app(source: Source) -> web.Application:
    """An aiohttp application with the whole read API, health and status pages."""
    api = _Api(source)
    app = web.Application(middlewares=[_plain_not_found], client_max_size=16 << 20)
    both = {
        "query": api.query, "query_range": api.query_range, "query_exemplars": api.exemplars,
        "format_query": api.format_query, "series": api.series, "labels": api.labels,
    }  # fmt: skip
    only_get = {
        "label/{name}/values": api.label_values, "metadata": api.metadata, "targets": api.targets,
        "targets/metadata": api.target_metadata, "scrape_pools": api.scrape_pools, "rules": api.rules,
        "alerts": api.alerts, "alertmanagers": api.alertmanagers, "status/{page}": api.status,
    }  # fmt: skip
    for path, handler in {**both, **only_get}.items():
        answer = api.answering(handler)
        app.router.add_get(f"/api/v1/{path}", answer)
        if path in both:
            app.router.add_post(f"/api/v1/{path}", answer)
    app.router.add_get("/-/healthy", _text("Prometheus Server is Healthy.\n"))
    app.router.add_get("/-/ready", _text("Prometheus Server is Ready.\n"))
    for path in ("reload", "quit"):
        app.router.add_post(f"/-/{path}", _text("Lifecycle API is not enabled.", 403))
        app.router.add_put(f"/-/{path}", _text("Lifecycle API is not enabled.", 403))
    app.router.add_get("/metrics", api.metrics)
    app.router.add_get("/federate", api.federate)
    app.router.add_get("/", api.root)
    for path in ("query", "graph"):
        app.router.add_get(f"/{path}", _text("There is no web interface here; the HTTP API is at /api/v1/.\n"))
    return app


def _text(body: str, code: int = 200) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, status=code)

    return answer


@web.middleware
async def _plain_not_found(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return web.Response(text="404 page not found\n", status=404)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A successful answer: ``data`` as ready JSON text."""

    data: str
    warnings: tuple[str, ...] = ()


def _dump(data: Any) -> _Answer:
    return _Answer(orjson.dumps(data).decode())


class _Api:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._engine = Engine(source.store, source.semantics)
        self._started = source.now()

    def answering(
        self, handler: Callable[[Params, web.Request], _Answer]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Wrap a handler: parameters in, envelope out."""

        async def answer(request: web.Request) -> web.Response:
            try:
                params = await Params.read(request, self._source.semantics)
                self._source.catch_up()
                found = handler(params, request)
            except ApiFailure as failure:
                body = orjson.dumps({"status": "error", "errorType": failure.kind, "error": str(failure)})
                return web.Response(body=body, status=failure.code, content_type="application/json")
            extra = f',"warnings":{orjson.dumps(found.warnings).decode()}' if found.warnings else ""
            text = f'{{"status":"success","data":{found.data}{extra}}}'
            return web.Response(body=text.encode(), content_type="application/json")

        return answer

    # -- queries

    def query(self, params: Params, _: web.Request) -> _Answer:
        at_ms = params.time("time", round(self._source.now() * 1000))
        engine, check = self._engine_for(params)
        return self._evaluate(params, lambda: engine.instant(params.get("query"), at_ms, check), render.instant)

    def query_range(self, params: Params, _: web.Request) -> _Answer:
        start = params.parsed("start", parse_time)
        end = params.parsed("end", parse_time)
        if end < start:
            raise bad_data('invalid parameter "end": end timestamp must not be before start time')
        step = params.parsed("step", parse_step)
        if step <= 0:
            message = "zero or negative query resolution step widths are not accepted. Try a positive integer"
            raise bad_data(f'invalid parameter "step": {message}')
        if (end - start) // step > POINTS_MAX:
            raise bad_data(_TOO_FINE)
        engine, check = self._engine_for(params)
        query = params.get("query")
        times = np.arange(start, end + 1, step, dtype=np.int64)

        def run() -> Result:
            found = ast.value_type(parse(query, self._source.semantics))
            if found not in ("scalar", "vector"):
                kind = f'invalid expression type "{TYPE_NAMES[found]}" for range query'
                raise bad_data(self._of_query(f"{kind}, must be Scalar or instant Vector"))
            return engine.range(query, times, check)

        return self._evaluate(params, run, render.matrix)

    def _of_query(self, message: str) -> str:
        """Prometheus 2 leaves out the parameter's name in range queries."""
        return f'invalid parameter "query": {message}' if self._source.semantics >= 3 else message

    def _evaluate(
        self, params: Params, run: Callable[[], Result], show: Callable[[Result, int], tuple[str, bool]]
    ) -> _Answer:
        began = time.perf_counter()
        try:
            result = run()
        except ParseError as error:
            named = show is render.instant
            raise bad_data(f'invalid parameter "query": {error}' if named else self._of_query(str(error))) from None
        except QueryError as error:
            raise ApiFailure(error.kind, str(error), _CODES[error.kind]) from None
        text, cut = show(result, params.limit())
        if params.get("stats"):
            numbers = status.query_stats(time.perf_counter() - began, result.samples)
            text += f',"stats":{orjson.dumps(numbers).decode()}'
        return _Answer("{" + text + "}", (_TRUNCATED,) if cut else ())

    def _engine_for(self, params: Params) -> tuple[Engine, Callable[[], None]]:
        timeout_ms = params.duration("timeout")
        allowed_s = TIMEOUT_S if timeout_ms is None else min(timeout_ms / 1000, TIMEOUT_S)
        deadline = time.monotonic() + allowed_s

        def check() -> None:
            if time.monotonic() >= deadline:
                raise QueryTimeout("query timed out in expression evaluation")

        lookback_ms = params.duration("lookback_delta") if self._source.semantics >= 3 else None
        engine = replace(self._engine, lookback_ms=lookback_ms) if lookback_ms else self._engine
        return engine, check

    def exemplars(self, params: Params, _: web.Request) -> _Answer:
        self._parsed(params)
        return _Answer("[]")

    def format_query(self, params: Params, _: web.Request) -> _Answer:
        query = params.get("query")
        self._parsed(params)
        try:
            return _dump(promql_parser.parse(query).prettify())
        except ValueError as error:
            raise bad_data(f'invalid parameter "query": {error}') from None

    def _parsed(self, params: Params) -> ast.Node:
        try:
            return parse(params.get("query"), self._source.semantics)
        except ParseError as error:
            raise bad_data(f'invalid parameter "query": {error}') from None

    # -- series and labels

    def series(self, params: Params, _: web.Request) -> _Answer:
        if not params.all("match[]"):
            raise bad_data("no match[] parameter provided")
        ids = self._matching(params, "series") or []
        found = sorted({self._source.store.labels(i) for i in ids})
        return self._limited(params, [dict(labels) for labels in found])

    def labels(self, params: Params, _: web.Request) -> _Answer:
        return self._limited(params, self._source.store.label_names(self._matching(params, "labels")))

    def label_values(self, params: Params, request: web.Request) -> _Answer:
        name = request.match_info["name"]
        plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
        if not plain and self._source.semantics < 3:
            raise bad_data(f'invalid label name: "{name}"')
        return self._limited(params, self._source.store.label_values(name, self._matching(params, "labels")))

    def _limited(self, params: Params, rows: list[Any]) -> _Answer:
        limit = params.limit()
        cut = 0 < limit < len(rows)
        return _Answer(orjson.dumps(rows[: limit or None]).decode(), (_TRUNCATED,) if cut else ())

    def _matching(self, params: Params, endpoint: str) -> list[int] | None:
        """Ids chosen by ``match[]``, ``start`` and ``end``; None when all are."""
        start, end = params.time("start", MIN_MS), params.time("end", MAX_MS)
        texts = params.all("match[]")
        if not texts and start == MIN_MS and end == MAX_MS:
            return None
        named = self._source.semantics >= 3 or endpoint == "series"
        selectors = [self._selector(text, 'invalid parameter "match[]": ' if named else "") for text in texts]
        found: set[int] = set()
        for matchers in selectors or [[]]:
            found.update(self._source.store.find(matchers, start, end))
        return sorted(found)

    def _selector(self, text: str, prefix: str) -> list[Matcher]:
        try:
            matchers = parse_selector(text, self._source.semantics)
        except ParseError as error:
            raise bad_data(f"{prefix}{error}") from None
        if all(matcher.matches("") for matcher in matchers):
            raise bad_data(f"{prefix}match[] must contain at least one non-empty matcher")
        return matchers

    # -- everything else

    def metadata(self, params: Params, _: web.Request) -> _Answer:
        limit = params.count("limit")
        params.count("limit_per_metric")  # there is one entry per metric
        wanted = params.get("metric")
        known = sorted(self._source.metadata().items())
        chosen = [(name, about) for name, about in known if wanted in ("", name)]
        return _dump({name: [status.metadata_json(about)] for name, about in chosen[:limit]})

    def target_metadata(self, params: Params, _: web.Request) -> _Answer:
        limit, wanted = params.count("limit"), params.get("metric")
        text = params.get("match_target")
        matchers = self._selector(text, 'invalid parameter "match_target": ') if text else []
        rows = []
        for target in self._source.targets():
            if all(matcher.matches(target.labels.get(matcher.name, "")) for matcher in matchers):
                for name, about in sorted(self._source.metadata().items()):
                    if wanted in ("", name) and self._has(target, name):
                        named = {} if wanted else {"metric": name}
                        rows.append({"target": dict(target.labels), **named, **status.metadata_json(about)})
        return _dump(rows[:limit])

    def _has(self, target: Target, family: str) -> bool:
        """Whether a target exposes a metric family (a histogram's series have suffixes)."""
        where = [Matcher(name, "=", value) for name, value in target.labels.items()]
        names = Matcher(NAME, "=~", f"{family}|{family}_bucket|{family}_count")
        return bool(self._source.store.find([names, *where]))

    def targets(self, params: Params, _: web.Request) -> _Answer:
        state = params.get("state").lower()
        pool = params.get("scrapePool")
        targets = [t for t in self._source.targets() if pool in ("", t.pool)]
        active = [status.target_json(t) for t in targets] if state in ("", "any", "active") else []
        return _dump({"activeTargets": active, "droppedTargets": [], "droppedTargetCounts": {}})

    def scrape_pools(self, _: Params, __: web.Request) -> _Answer:
        return _dump({"scrapePools": sorted({target.pool for target in self._source.targets()})})

    def rules(self, params: Params, _: web.Request) -> _Answer:
        manager = self._source.rules or RuleManager(self._source.store, self._engine, (), self._started)
        prefix = 'invalid parameter "match[]": '
        return _dump(rules_page(manager, params, lambda text: self._selector(text, prefix)))

    def alerts(self, _: Params, __: web.Request) -> _Answer:
        return _dump(alerts_page(self._source.rules) if self._source.rules else {"alerts": []})

    def alertmanagers(self, _: Params, __: web.Request) -> _Answer:
        return _dump({"activeAlertmanagers": [], "droppedAlertmanagers": []})

    def status(self, _: Params, request: web.Request) -> _Answer:
        pages: dict[str, Callable[[], Any]] = {
            "buildinfo": lambda: status.build_info(self._source.semantics),
            "runtimeinfo": lambda: status.runtime_info(self._started, self._source.now()),
            "flags": lambda: status.FLAGS,
            "config": lambda: {"yaml": status.config_yaml(self._source.targets())},
            "tsdb": lambda: status.tsdb(self._source.store),
            "walreplay": lambda: {"min": 0, "max": 0, "current": 0},
        }
        page = pages.get(request.match_info["page"])
        if page is None:
            raise web.HTTPNotFound
        return _dump(page())

    async def metrics(self, _: web.Request) -> web.Response:
        text = status.own_metrics(self._source.store, self._source.semantics)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def federate(self, request: web.Request) -> web.Response:
        params = await Params.read(request, self._source.semantics)
        self._source.catch_up()
        try:
            selectors = [self._selector(text, "") for text in params.all("match[]")]
        except ApiFailure as failure:
            return web.Response(text=f"{failure}\n", status=failure.code)
        at_ms = round(self._source.now() * 1000)
        text = federate.federate(self._source.store, selectors, at_ms, self._engine.lookback_ms)
        return web.Response(text=text, headers={"Content-Type": federate.CONTENT_TYPE})

    async def root(self, _: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/query" if self._source.semantics >= 3 else "/graph"})
