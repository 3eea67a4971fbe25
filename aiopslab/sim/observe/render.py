"""Query results as the JSON that Prometheus sends."""

from __future__ import annotations

import numpy as np
import orjson

from aiopslab.sim.observe.matchers import Labels
from aiopslab.sim.observe.promql.evaluate import Result
from aiopslab.sim.observe.promql.numbers import format_plain, format_sample, format_time
from aiopslab.sim.observe.promql.values import Vector, Windows


def _json(text: str) -> str:
    return orjson.dumps(text).decode()


def _metric(labels: Labels) -> str:
    return orjson.dumps(dict(labels)).decode()


def instant(result: Result, limit: int = 0) -> tuple[str, bool]:
    """``data`` members of an instant query without braces, and whether ``limit`` cut rows off."""
    value, at_ms = result.value, int(result.times[0])
    if isinstance(value, str):
        return f'"resultType":"string","result":[{at_ms / 1000!r},{_json(value)}]', False
    if isinstance(value, Vector):
        shown = value.rows(value.present[:, 0])
        cut = 0 < limit < len(shown.labels)
        at = format_time(at_ms)
        rows = [
            f'{{"metric":{_metric(labels)},"value":[{at},"{format_sample(number)}"]}}'
            for labels, number in list(zip(shown.labels, shown.values[:, 0].tolist(), strict=True))[: limit or None]
        ]
        return f'"resultType":"vector","result":[{",".join(rows)}]', cut
    if isinstance(value, Windows):
        rows = [row for index in range(len(value.labels)) if (row := _window(value, index))]
        return f'"resultType":"matrix","result":[{",".join(rows[: limit or None])}]', 0 < limit < len(rows)
    return f'"resultType":"scalar","result":[{format_time(at_ms)},"{format_plain(float(value[0]))}"]', False


def _window(windows: Windows, index: int) -> str:
    low, high = int(windows.low[index, 0]), int(windows.high[index, 0])
    if low == high:
        return ""
    times, values = windows.times[low:high].tolist(), windows.values[low:high].tolist()
    points = ",".join(f'[{format_time(t)},"{format_sample(v)}"]' for t, v in zip(times, values, strict=True))
    return f'{{"metric":{_metric(windows.labels[index])},"values":[{points}]}}'


def matrix(result: Result, limit: int = 0) -> tuple[str, bool]:
    """``data`` members of a range query without braces, and whether ``limit`` cut rows off."""
    value = result.value
    stamps = [format_time(t) for t in result.times.tolist()]
    if not isinstance(value, Vector):
        assert not isinstance(value, str | Windows)
        points = ",".join(f'[{at},"{format_sample(v)}"]' for at, v in zip(stamps, value.tolist(), strict=True))
        return f'"resultType":"matrix","result":[{{"metric":{{}},"values":[{points}]}}]', False
    order = sorted(np.flatnonzero(value.present.any(axis=1)).tolist(), key=value.labels.__getitem__)
    rows = []
    for row in order[: limit or None]:
        there = value.present[row].nonzero()[0].tolist()
        numbers = value.values[row].tolist()
        points = ",".join(f'[{stamps[i]},"{format_sample(numbers[i])}"]' for i in there)
        rows.append(f'{{"metric":{_metric(value.labels[row])},"values":[{points}]}}')
    return f'"resultType":"matrix","result":[{",".join(rows)}]', 0 < limit < len(order)
