"""``/federate``: the newest sample of each chosen series, in the text format."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.observe.matchers import NAME, Labels, Matcher
from aiopslab.sim.observe.promql.numbers import format_sample
from aiopslab.sim.observe.series import SeriesStore, is_stale

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def federate(store: SeriesStore, selectors: Iterable[list[Matcher]], at_ms: int, lookback_ms: int) -> str:
    """Text of all series that a selector matches, sorted by name; ended ones are left out. The server does not
    pass types on. A series without ``instance`` gets an empty one, so that the reader does not add its own."""
    newest: dict[Labels, tuple[int, float]] = {}
    for matchers in selectors:
        found = store.select(matchers, at_ms - lookback_ms + 1, at_ms)
        for row, labels in enumerate(found.labels):
            times, values = found.series(row)
            if not is_stale(values[-1:])[0]:
                newest[labels] = (int(times[-1]), float(values[-1]))
    lines, name = [], None
    for labels in sorted(newest, key=lambda pairs: (dict(pairs).get(NAME, ""), pairs)):
        known = {"instance": "", **dict(labels)}
        metric = known.pop(NAME, "")
        if metric != name:
            lines.append(f"# TYPE {metric} untyped")
            name = metric
        at, value = newest[labels]
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted(known.items()))
        lines.append(f"{metric}{{{shown}}} {format_sample(value)} {at}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
