"""Evaluation of a query: the syntax tree over all steps at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aiopslab.sim.observe.matchers import NAME
from aiopslab.sim.observe.promql import aggregate, ast, binary, functions, histogram, over_time
from aiopslab.sim.observe.promql.errors import ExecutionError
from aiopslab.sim.observe.promql.parser import parse
from aiopslab.sim.observe.promql.values import Floats, Ints, Value, Vector, Windows
from aiopslab.sim.observe.series import Selection, SeriesStore, is_stale

# Bounds the memory of one query, as --query.max-samples does (50 million in Prometheus).
SAMPLES_MAX = 20_000_000
SUBQUERY_STEP_MS = 60_000


@dataclass(frozen=True, slots=True)
class Engine:
    """How queries are evaluated. ``semantics`` is the major version of Prometheus whose rules hold: 2 has
    closed windows and lookback, 3 leaves their left edge out."""

    store: SeriesStore
    semantics: int = 3
    lookback_ms: int = 300_000

    def instant(self, query: str, at_ms: int, check: Callable[[], None] | None = None) -> Result:
        """Evaluate at one time. ``check`` is called now and then and may raise QueryTimeout."""
        return self._run(query, np.array([at_ms], np.int64), check)

    def range(self, query: str, times: Ints, check: Callable[[], None] | None = None) -> Result:
        """Evaluate at each of ``times`` (milliseconds, evenly spaced)."""
        return self._run(query, times, check)

    def _run(self, query: str, times: Ints, check: Callable[[], None] | None) -> Result:
        node = parse(query, self.semantics)
        evaluation = _Evaluation(self, int(times[0]), int(times[-1]), check or (lambda: None))
        with np.errstate(all="ignore"):
            return Result(times, evaluation.value(node, times), evaluation.samples)


@dataclass(frozen=True, slots=True)
class Result:
    """A value at ``times`` (milliseconds), and how many samples were read for it."""

    times: Ints
    value: Value
    samples: int


class _Evaluation:
    """One run of one query. ``start_ms``/``end_ms`` are what ``@ start()`` and ``@ end()`` mean."""

    def __init__(self, engine: Engine, start_ms: int, end_ms: int, check: Callable[[], None]) -> None:
        self._engine = engine
        self._start_ms, self._end_ms = start_ms, end_ms
        self._check = check
        self.samples = 0

    def value(self, node: ast.Node, times: Ints) -> Value:
        """The value of any expression at ``times``."""
        self._check()
        match node:
            case ast.Number(value=number):
                return np.full(len(times), number)
            case ast.String(value=text):
                return text
            case ast.Paren(expr=inner):
                return self.value(inner, times)
            case ast.VectorSelector():
                return self._instant(node, times)[0]
            case ast.MatrixSelector() | ast.Subquery():
                return self._windows(node, times)
            case ast.Unary():
                return self._unary(node, times)
            case ast.Binary():
                return self._binary(node, times)
            case ast.Aggregate():
                return self._aggregate(node, times)
            case ast.Call():
                return self._call(node, times)
        raise TypeError(f"no evaluation for {type(node).__name__}")

    def _vector(self, node: ast.Node, times: Ints) -> Vector:
        value = self.value(node, times)
        assert isinstance(value, Vector)
        return value

    def _scalar(self, node: ast.Node, times: Ints) -> Floats:
        value = self.value(node, times)
        assert isinstance(value, np.ndarray)
        return value

    def _spend(self, samples: int) -> None:
        self.samples += samples
        if self.samples > SAMPLES_MAX:
            raise ExecutionError("query processing would load too many samples into memory in query execution")

    # -- selectors

    def _effective(self, timing: ast.Timing, times: Ints) -> Ints:
        """Evaluation times after ``@`` and ``offset``."""
        at = {"start": self._start_ms, "end": self._end_ms}.get(timing.at, timing.at)  # type: ignore[arg-type]
        base = times if at is None else np.full(len(times), at, np.int64)
        return base - timing.offset_ms

    def _instant(self, node: ast.VectorSelector, times: Ints) -> tuple[Vector, Floats]:
        """Newest sample within the lookback, and the samples' own times (seconds, like the values)."""
        at = self._effective(node.timing, times)
        lookback = self._engine.lookback_ms
        oldest = int(at.min()) - lookback + (1 if self._engine.semantics >= 3 else 0)
        found = self._engine.store.select(node.matchers, oldest, int(at.max()))
        self._spend(len(found.times) + len(found.labels) * len(at))
        index = _newest(found, at)
        present = index >= found.offsets[:-1, None]
        if not len(found.times):
            return Vector.empty(len(times)), np.empty((0, len(times)))
        index = np.maximum(index, 0)
        age = at - found.times[index]
        present &= (age < lookback) if self._engine.semantics >= 3 else (age <= lookback)
        present &= ~is_stale(found.values)[index]
        vector = Vector(found.labels, found.values[index], present)
        stamps = found.times[index] / 1000.0
        some = present.any(axis=1)
        return vector.rows(some), stamps[some]

    def _windows(self, node: ast.Node, times: Ints) -> Windows:
        while isinstance(node, ast.Paren):
            node = node.expr
        if isinstance(node, ast.Subquery):
            ends = self._effective(node.timing, times)
            starts = ends - node.range_ms
            found = self._subquery(node, int(starts.min()), int(ends.max()))
        else:
            assert isinstance(node, ast.MatrixSelector)
            ends = self._effective(node.vector.timing, times)
            starts = ends - node.range_ms
            found = self._engine.store.select(node.vector.matchers, int(starts.min()), int(ends.max()))
            found = _without_stale(found)
        self._spend(len(found.times) + len(found.labels) * len(times))
        side = "right" if self._engine.semantics >= 3 else "left"
        low = np.empty((len(found.labels), len(times)), np.int64)
        high = np.empty_like(low)
        for row in range(len(found.labels)):
            stamps, _ = found.series(row)
            low[row] = stamps.searchsorted(starts, side)  # type: ignore[call-overload]
            high[row] = stamps.searchsorted(ends, "right")
        low += found.offsets[:-1, None]
        high += found.offsets[:-1, None]
        return Windows(found.labels, found.times, found.values, low, high, starts, ends)

    def _subquery(self, node: ast.Subquery, start_ms: int, end_ms: int) -> Selection:
        """The inner expression at all multiples of the step that some window holds."""
        step = node.step_ms or SUBQUERY_STEP_MS
        first = step * math.floor(start_ms / step)
        if first < start_ms or (first == start_ms and self._engine.semantics >= 3):
            first += step
        self._spend(max(end_ms - first, 0) // step)
        times = np.arange(first, end_ms + 1, step, dtype=np.int64)
        if not len(times):
            empty = np.empty(0, np.int64)
            return Selection([], empty, np.empty(0), np.zeros(1, np.int64))
        vector = self._vector(node.expr, times)
        columns = np.nonzero(vector.present)[1]
        offsets = np.concatenate([[0], np.cumsum(vector.present.sum(axis=1))])
        return Selection(vector.labels, times[columns], vector.values[vector.present], offsets)

    # -- operators

    def _unary(self, node: ast.Unary, times: Ints) -> Value:
        value = self.value(node.expr, times)
        if node.op == "+":
            return value
        if isinstance(value, Vector):
            return value.map(-value.values)
        assert isinstance(value, np.ndarray)
        return -value

    def _binary(self, node: ast.Binary, times: Ints) -> Value:
        left, right = self.value(node.left, times), self.value(node.right, times)
        if isinstance(left, Vector) and isinstance(right, Vector):
            if node.op in ("and", "or", "unless"):
                return binary.sets(node.op, left, right, node.matching)
            return binary.vectors(node.op, left, right, node.matching, node.return_bool)
        if isinstance(left, Vector) and isinstance(right, np.ndarray):
            return binary.vector_scalar(node.op, left, right, swapped=False, return_bool=node.return_bool)
        if isinstance(left, np.ndarray) and isinstance(right, Vector):
            return binary.vector_scalar(node.op, right, left, swapped=True, return_bool=node.return_bool)
        assert isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
        return binary.scalars(node.op, left, right)

    def _aggregate(self, node: ast.Aggregate, times: Ints) -> Vector:
        vector = self._vector(node.expr, times)
        if node.param is None:
            return aggregate.aggregate(node.op, vector, node.grouping, node.without)
        if node.op == "count_values":
            label = self.value(node.param, times)
            assert isinstance(label, str)
            return aggregate.count_values(vector, label, node.grouping, node.without)
        level = self._scalar(node.param, times)
        if node.op == "quantile":
            return aggregate.quantile(vector, level, node.grouping, node.without)
        return aggregate.rank(vector, level, node.grouping, node.without, largest=node.op == "topk")

    # -- functions

    def _call(self, node: ast.Call, times: Ints) -> Value:
        name, args = node.func.name, node.args
        if "matrix" in node.func.args:
            return self._over_range(name, args, times)
        if name in functions.MATH:
            vector = self._vector(args[0], times)
            return vector.map(functions.MATH[name](vector.values))
        if name in functions.CALENDAR:
            vector = self._vector(args[0], times) if args else _vector_of(times / 1000.0)
            return vector.map(functions.calendar(name, vector.values))
        match name:
            case "time":
                return times / 1000.0
            case "pi":
                return np.full(len(times), math.pi)
            case "vector":
                return _vector_of(self._scalar(args[0], times))
            case "timestamp":
                return self._timestamp(args[0], times)
            case "histogram_quantile":
                return histogram.histogram_quantile(self._scalar(args[0], times), self._vector(args[1], times))
            case "label_replace" | "label_join":
                return self._label_function(name, args, times)
        return self._on_vector(name, args, times)

    def _on_vector(self, name: str, args: list[ast.Node], times: Ints) -> Value:
        """Functions whose one vector argument comes with scalars, or alone."""
        if name.startswith("histogram_"):
            # These read native histograms, which this store never holds: nothing matches, as in Prometheus.
            return Vector.empty(len(times))
        vector = self._vector(args[0], times)
        numbers = [self._scalar(arg, times) for arg in args[1:]]
        match name:
            case "scalar":
                return functions.to_scalar(vector)
            case "absent":
                return functions.absent(np.asarray(vector.present.any(axis=0)), _absent_labels(args[0]))
            case "sort" | "sort_desc":
                return functions.sort(vector, descending=name == "sort_desc")
            case "round":
                nearest = numbers[0] if numbers else np.ones(len(times))
                return vector.map(functions.round_to(vector.values, nearest))
            case "clamp":
                return functions.clamp(vector, numbers[0], numbers[1])
            case "clamp_min":
                return vector.map(functions.higher_of(vector.values, numbers[0]))
            case "clamp_max":
                return vector.map(functions.lower_of(vector.values, numbers[0]))
        raise TypeError(f"no evaluation for function {name}")

    def _timestamp(self, arg: ast.Node, times: Ints) -> Vector:
        """A plain selector gives the samples' own times, anything else the evaluation time."""
        while isinstance(arg, ast.Paren):
            arg = arg.expr
        if isinstance(arg, ast.VectorSelector):
            vector, stamps = self._instant(arg, times)
            return vector.map(stamps)
        vector = self._vector(arg, times)
        return vector.map(np.broadcast_to(times / 1000.0, vector.values.shape))

    def _label_function(self, name: str, args: list[ast.Node], times: Ints) -> Vector:
        vector = self._vector(args[0], times)
        texts = [str(self.value(arg, times)) for arg in args[1:]]
        if name == "label_join":
            return functions.label_join(vector, texts)
        return functions.label_replace(vector, texts, dot_all=self._engine.semantics >= 3)

    def _over_range(self, name: str, args: list[ast.Node], times: Ints) -> Vector:
        numbers = [self._scalar(arg, times) for arg in args if ast.value_type(arg) == "scalar"]
        range_arg = next(arg for arg in args if ast.value_type(arg) == "matrix")
        windows = self._windows(range_arg, times)
        if name == "absent_over_time":
            return functions.absent(over_time.any_present(windows), _absent_labels(range_arg))
        result = self._reduce(name, windows, numbers, times).without_gaps()
        if name == "last_over_time":
            return result
        named = len({label for found in result.labels for label in found if label[0] == NAME})
        if named > 1:
            # Series of different names that agree in all labels are refused even when they take turns.
            bare = [tuple(pair for pair in found if pair[0] != NAME) for found in result.labels]
            if len(set(bare)) < len(bare):
                raise ExecutionError("vector cannot contain metrics with the same labelset")
        return result.map(result.values)

    def _reduce(self, name: str, windows: Windows, numbers: list[Floats], times: Ints) -> Vector:
        semantics = self._engine.semantics
        match name:
            case "rate" | "increase" | "delta":
                return over_time.extrapolated(
                    windows, counter=name != "delta", per_second=name == "rate", semantics=semantics
                )
            case "irate" | "idelta":
                return over_time.last_two(windows, rate=name == "irate")
            case "resets" | "changes":
                return over_time.count_between(windows, resets=name == "resets")
            case "quantile_over_time":
                return over_time.per_window(windows, lambda part: over_time.quantile(part, numbers[0]))
            case "predict_linear":
                return over_time.per_window(windows, lambda part: over_time.predict(part, times, numbers[0]), 2)
            case "deriv":
                return over_time.per_window(windows, over_time.derivative, 2)
            case "holt_winters":
                over_time.check_smoothing(numbers[0], numbers[1])
                return over_time.per_window(windows, lambda part: over_time.smooth(part, numbers[0], numbers[1]), 2)
        whole = _WHOLE.get(name)
        if whole is not None:
            return whole(windows)
        return over_time.per_window(windows, _EACH[name])


_WHOLE: dict[str, Callable[[Windows], Vector]] = {
    "last_over_time": over_time.last,
    "count_over_time": over_time.count,
    "present_over_time": over_time.there,
}
_EACH: dict[str, Callable[[over_time.Expanded], Floats]] = {
    "sum_over_time": over_time.total,
    "avg_over_time": over_time.average,
    "min_over_time": over_time.minimum,
    "max_over_time": over_time.maximum,
    "stdvar_over_time": over_time.variance,
    "stddev_over_time": over_time.deviation,
}


def _vector_of(values: Floats) -> Vector:
    return Vector([()], values[None, :], np.ones((1, len(values)), bool))


def _absent_labels(node: ast.Node) -> functions.Labels:
    while isinstance(node, ast.Paren):
        node = node.expr
    match node:
        case ast.VectorSelector(matchers=matchers):
            return functions.absent_labels(matchers)
        case ast.MatrixSelector(vector=vector):
            return functions.absent_labels(vector.matchers)
        case _:
            return ()


def _newest(found: Selection, at: Ints) -> Ints:
    """Index of the newest sample at or before each time, or the index before the series' first."""
    if len(at) == 1:
        # The selection ends at the only time, so that is each series' last sample.
        return found.offsets[1:, None] - 1
    index = np.empty((len(found.labels), len(at)), np.int64)
    for row in range(len(found.labels)):
        stamps, _ = found.series(row)
        index[row] = stamps.searchsorted(at, "right")
    return index + found.offsets[:-1, None] - 1


def _without_stale(found: Selection) -> Selection:
    """Range vectors skip stale markers."""
    stale = is_stale(found.values)
    if not stale.any():
        return found
    keep = ~stale
    kept = np.concatenate([[0], np.cumsum(keep)])
    return Selection(found.labels, found.times[keep], found.values[keep], kept[found.offsets])
