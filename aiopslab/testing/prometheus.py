"""A Prometheus-shaped server over a file of samples, for tests and conformance suites.

    python -m aiopslab.testing.prometheus --openmetrics FILE[.gz] [--stale FILE.jsonl] [--semantics 2|3]
                                          [--rules FILE] --port N

The file is OpenMetrics text with a timestamp (seconds) on every sample; samples of one series must be in order
of time. ``--stale`` names JSON lines ``{"metric": {labels}, "t": seconds}``: stale markers, which the text format
cannot express. ``--rules`` names a file of recording and alert rules, which are evaluated over the samples from
their first one on. Nothing expires.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
from aiohttp import web

from aiopslab.errors import UsageError
from aiopslab.sim.observe.matchers import Labels, make_labels
from aiopslab.sim.observe.prometheus import Source, prometheus_app
from aiopslab.sim.observe.promql.evaluate import Engine
from aiopslab.sim.observe.rules.files import RuleFile, read_rules
from aiopslab.sim.observe.rules.manager import RuleManager
from aiopslab.sim.observe.series import STALE, SeriesStore
from aiopslab.sim.observe.targets import MetricMetadata

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+) (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPE = re.compile(r'\\[n"\\]')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


class _Stale(msgspec.Struct):
    metric: dict[str, str]
    t: float


class Samples:
    """Samples and metadata read from text, ready to be stored."""

    def __init__(self) -> None:
        self.series: dict[Labels, list[tuple[int, float]]] = {}
        self.metadata: dict[str, MetricMetadata] = {}

    def read(self, text: str, name: str = "input") -> None:
        """Add OpenMetrics text. ``name`` appears in errors."""
        heads: dict[str, list[tuple[int, float]]] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("#"):
                self._comment(line)
            elif line:
                found = _SAMPLE.fullmatch(line)
                if found is None:
                    raise UsageError(f"{name}, line {number}: not a sample with a timestamp: {line[:120]!r}")
                metric, body, value, stamp = found.groups()
                head = line[: found.start(3)]
                if head not in heads:
                    heads[head] = self.series.setdefault(_labels(metric, body), [])
                heads[head].append((round(float(stamp) * 1000), float(value)))

    def mark_stale(self, lines: Iterable[bytes]) -> None:
        """Add stale markers from JSON lines."""
        for line in lines:
            if line.strip():
                mark = msgspec.json.decode(line, type=_Stale)
                self.series.setdefault(make_labels(mark.metric), []).append((round(mark.t * 1000), STALE))

    def store(self) -> SeriesStore:
        """A new series store with everything read so far."""
        store = SeriesStore()
        for labels, samples in sorted(self.series.items()):
            samples.sort(key=lambda sample: sample[0])
            store.extend(store.series(labels), [t for t, _ in samples], [value for _, value in samples])
        return store

    def _comment(self, line: str) -> None:
        word, _, rest = line[1:].strip().partition(" ")
        metric, _, text = rest.partition(" ")
        known = self.metadata.get(metric, MetricMetadata("unknown", ""))
        if word == "TYPE":
            self.metadata[metric] = MetricMetadata(text, known.help, known.unit)
        elif word == "HELP":
            self.metadata[metric] = MetricMetadata(known.type, text, known.unit)
        elif word == "UNIT":
            self.metadata[metric] = MetricMetadata(known.type, known.help, text)


def _labels(metric: str, body: str | None) -> Labels:
    pairs = [("__name__", metric)]
    for label, value in _LABEL.findall(body or ""):
        pairs.append((label, _ESCAPE.sub(lambda found: _ESCAPES[found.group()], value)))
    return make_labels(pairs)


def app_from_files(
    openmetrics: Path, stale: Path | None = None, semantics: int = 3, rules: Path | None = None
) -> web.Application:
    """The HTTP application over one file of samples and, maybe, one of stale markers and one of rules."""
    raw = openmetrics.read_bytes()
    samples = Samples()
    samples.read((gzip.decompress(raw) if openmetrics.suffix == ".gz" else raw).decode(), openmetrics.name)
    if stale is not None:
        samples.mark_stale(stale.read_bytes().splitlines())
    store = samples.store()
    manager = None if rules is None else _evaluated(store, read_rules(rules, semantics=semantics), semantics)
    source = Source(store, semantics=semantics, metadata=lambda: samples.metadata, rules=manager)
    return prometheus_app(source)


def _evaluated(store: SeriesStore, rules: RuleFile, semantics: int) -> RuleManager:
    """The rules over all samples. They stand still where the samples end, however long ago that was."""
    start, end = (store.oldest_ms or 0) / 1000, (store.newest_ms or 0) / 1000
    manager = RuleManager(store, Engine(store, semantics), [rules], start, until=end)
    manager.catch_up(end)
    return manager


def main(argv: list[str] | None = None) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve a file of samples with the Prometheus HTTP API.")
    parser.add_argument("--openmetrics", type=Path, required=True, metavar="FILE[.gz]")
    parser.add_argument("--stale", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--semantics", type=int, choices=(2, 3), default=3, help="major version whose rules hold")
    parser.add_argument("--rules", type=Path, metavar="FILE", help="recording and alert rules, in YAML")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args(argv)
    app = app_from_files(args.openmetrics, args.stale, args.semantics, args.rules)
    web.run_app(app, host=args.host, port=args.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
