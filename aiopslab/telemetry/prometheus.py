"""Metrics: PromQL over the Prometheus HTTP API, at explicit times.

The client library blocks, so each call runs in a thread; async code never waits on a socket here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import requests
from prometheus_api_client import PrometheusApiClientException, PrometheusConnect
from urllib3.util import Retry

from aiopslab.errors import TelemetryError
from aiopslab.telemetry.http import new_session, reason

REQUEST_TIMEOUT_WALL_S = 30
RETRIES = Retry(total=2, backoff_factor=0.2, status_forcelist=(502, 503, 504))
T = TypeVar("T")


class Sample(msgspec.Struct, frozen=True):
    """One value of one series. ``at`` is Unix seconds."""

    labels: dict[str, str]
    at: float
    value: float


class Series(msgspec.Struct, frozen=True):
    """One series over time: ``points`` are ``(Unix seconds, value)``, in order, without gaps filled."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


class Prometheus:
    """A Prometheus server. Times are Unix seconds of cluster time. Every method raises TelemetryError."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session = new_session(self.url)
        self._client = PrometheusConnect(
            url=self.url, session=self._session, retry=RETRIES, timeout=REQUEST_TIMEOUT_WALL_S
        )

    def close(self) -> None:
        """Give back the connections."""
        self._session.close()

    async def query(self, expr: str, at: float) -> list[Sample]:
        """The instant vector of ``expr`` at one time, sorted by labels; a scalar has no labels."""
        params = {"time": repr(at)}
        return await self._call(expr, lambda: _samples(self._client.custom_query(expr, params=params)))

    async def value(self, expr: str, at: float) -> float | None:
        """The one value of ``expr`` at one time; None where there is no data (or it is not a number).

        TelemetryError when ``expr`` gives more than one series.
        """
        samples = await self.query(expr, at)
        if len(samples) > 1:
            raise TelemetryError(f"{_short(expr)} gives {len(samples)} series; aggregate it to one")
        return samples[0].value if samples and math.isfinite(samples[0].value) else None

    async def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        """``expr`` at ``start``, ``start + step_s``, ... up to ``end`` (inclusive), sorted by labels."""
        params = {"query": expr, "start": repr(start), "end": repr(end), "step": repr(step_s)}
        return await self._call(expr, lambda: _series(self._get("query_range", params)))

    async def series(self, match: list[str], start: float, end: float) -> list[dict[str, str]]:
        """Label sets of the series that match any selector in a stretch of time."""
        params = {"match[]": match, "start": repr(start), "end": repr(end)}
        rows = await self._call(", ".join(match), lambda: self._get("series", params))
        return sorted(rows, key=lambda labels: sorted(labels.items()))

    async def label_values(self, label: str, match: list[str] | None = None) -> list[str]:
        """Values that a label has; ``__name__`` gives the metric names."""
        params = {"match[]": match or []}
        return sorted(await self._call(label, lambda: self._get(f"label/{label}/values", params)))

    def _get(self, path: str, params: dict[str, Any]) -> Any:
        """An endpoint that the library rounds times for, or does not have."""
        url = f"{self.url}/api/v1/{path}"
        answer = self._session.get(url, params=params, timeout=REQUEST_TIMEOUT_WALL_S)
        if answer.status_code != 200:
            raise PrometheusApiClientException(f"HTTP {answer.status_code}: {answer.text[:300]}")
        return answer.json()["data"]

    async def _call(self, shown: str, call: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(call)
        except requests.exceptions.JSONDecodeError as error:
            raise TelemetryError(f"{self.url} does not answer like Prometheus: {error}") from error
        except requests.RequestException as error:
            raise TelemetryError(f"Prometheus at {self.url} does not answer: {reason(error)}") from error
        except PrometheusApiClientException as error:
            raise TelemetryError(f"Prometheus refuses {_short(shown)}: {error}") from error
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise TelemetryError(f"{self.url} does not answer like Prometheus: {error!r}") from error


def _samples(rows: list[Any]) -> list[Sample]:
    if rows and not isinstance(rows[0], dict):  # a scalar: [time, value]
        return [Sample({}, float(rows[0]), _number(rows[1]))]
    samples = [Sample(row["metric"], float(row["value"][0]), _number(row["value"][1])) for row in rows]
    return sorted(samples, key=lambda sample: sorted(sample.labels.items()))


def _series(data: dict[str, Any]) -> list[Series]:
    found = []
    for row in data["result"]:
        found.append(Series(row["metric"], [(float(at), _number(value)) for at, value in row["values"]]))
    return sorted(found, key=lambda series: sorted(series.labels.items()))


def _number(text: str) -> float:
    return float(text)  # also +Inf, -Inf and NaN, as Prometheus writes them


def _short(expr: str) -> str:
    flat = " ".join(expr.split())
    return f"`{flat if len(flat) <= 120 else flat[:117] + '...'}`"
