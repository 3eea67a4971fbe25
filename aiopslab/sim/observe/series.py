"""The series store: samples by label set, appended a scrape at a time, read by label matchers.

Each series owns a list of chunks of ``CHUNK_SAMPLES`` samples. Chunks live in slabs (two numpy arrays: int64
milliseconds and float64 values), so one scrape of thousands of series is a handful of vector assignments, and
16 bytes a sample is all it costs.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aiopslab.sim.observe.matchers import Labels, Matcher, make_labels

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STALE_BITS = 0x7FF0000000000002
STALE: float = struct.unpack("<d", struct.pack("<Q", STALE_BITS))[0]
CHUNK_SAMPLES = 64
SLAB_CHUNKS = 4096
# How many appends pass between two looks for chunks that are older than the retention.
APPENDS_PER_SWEEP = 64


def is_stale(values: Floats) -> npt.NDArray[np.bool_]:
    """Which values are the stale marker: a NaN with bits of its own, told apart from an ordinary NaN."""
    return np.asarray(values.view(np.uint64) == STALE_BITS)


@dataclass(frozen=True, slots=True)
class Selection:
    """Samples of several series, one behind the other.

    Series ``i`` has ``times[offsets[i]:offsets[i + 1]]`` (int64 milliseconds, ascending) and the same part of
    ``values``; stale markers are included. Series are sorted by label set.
    """

    labels: list[Labels]
    times: Ints
    values: Floats
    offsets: Ints

    def series(self, index: int) -> tuple[Ints, Floats]:
        """Times and values of one series."""
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return self.times[part], self.values[part]


class SeriesStore:
    """Time series in memory. ``retention_s`` (seconds, None: for ever) is measured from the newest sample."""

    def __init__(self, retention_s: float | None = None) -> None:
        self._retention_ms = None if retention_s is None else int(retention_s * 1000)
        self._ids: dict[Labels, int] = {}
        self._labels: list[Labels | None] = []
        self._maps: list[dict[str, str]] = []
        self._index: dict[str, dict[str, set[int]]] = {}
        self._chunks: list[list[int]] = []  # per series: chunk numbers, oldest first
        self._starts: list[list[int]] = []  # per series: time of the first sample of each chunk
        self._times: list[Ints] = []
        self._values: list[Floats] = []
        self._free: list[int] = []
        self._current = np.empty(0, np.int64)  # per series: chunk being filled, -1 before the first
        self._fill = np.empty(0, np.int64)  # per series: samples in that chunk
        self._first = np.empty(0, np.int64)  # per series: oldest and newest time
        self._last = np.empty(0, np.int64)
        self._appends = 0
        self.newest_ms: int | None = None
        self.generation = 0  # grows whenever ids were given up, so that holders of ids ask again

    def __len__(self) -> int:
        return len(self._ids)

    # -- writing

    def series(self, labels: Mapping[str, str] | Labels) -> int:
        """The id of a label set, new or known. Ids stay valid until ``generation`` changes."""
        key = make_labels(labels)
        found = self._ids.get(key)
        if found is not None:
            return found
        new = len(self._labels)
        self._ids[key] = new
        self._labels.append(key)
        self._maps.append(dict(key))
        self._chunks.append([])
        self._starts.append([])
        for name, value in key:
            self._index.setdefault(name, {}).setdefault(value, set()).add(new)
        if new >= len(self._current):
            self._grow(max(1024, 2 * new))
        return new

    def labels(self, series: int) -> Labels:
        """The label set of an id."""
        found = self._labels[series]
        if found is None:
            raise KeyError(f"series {series} was removed by retention")
        return found

    def append(self, t_ms: int, ids: Sequence[int] | Ints, values: Sequence[float] | Floats) -> None:
        """One sample at ``t_ms`` for each of several different series. Times must ascend within a series."""
        rows = np.asarray(ids, np.int64)
        if not len(rows):
            return
        late = rows[self._last[rows] >= t_ms]
        if len(late):
            labels = dict(self.labels(int(late[0])))
            raise ValueError(f"sample at {t_ms} ms is not newer than {int(self._last[late[0]])} ms of {labels}")
        full = rows[(self._current[rows] < 0) | (self._fill[rows] == CHUNK_SAMPLES)]
        for series in full.tolist():
            self._open_chunk(series, t_ms)
        chunk, slot = self._current[rows], self._fill[rows]
        slabs, within = np.divmod(chunk, SLAB_CHUNKS)
        numbers = np.asarray(values, np.float64)
        for slab in np.unique(slabs).tolist():
            part = slabs == slab
            self._times[slab][within[part], slot[part]] = t_ms
            self._values[slab][within[part], slot[part]] = numbers[part]
        self._fill[rows] += 1
        self._last[rows] = t_ms
        self._advance(t_ms)

    def extend(self, series: int, times: Sequence[int] | Ints, values: Sequence[float] | Floats) -> None:
        """Many samples of one series, in ascending order of time (milliseconds)."""
        stamps, numbers = np.asarray(times, np.int64), np.asarray(values, np.float64)
        if not len(stamps):
            return
        if (np.diff(stamps) <= 0).any() or stamps[0] <= self._last[series]:
            raise ValueError(f"samples of {dict(self.labels(series))} are not in ascending order of time")
        done = 0
        while done < len(stamps):
            if self._current[series] < 0 or self._fill[series] == CHUNK_SAMPLES:
                self._open_chunk(series, int(stamps[done]))
            slab, within = divmod(int(self._current[series]), SLAB_CHUNKS)
            slot = int(self._fill[series])
            size = min(CHUNK_SAMPLES - slot, len(stamps) - done)
            self._times[slab][within, slot : slot + size] = stamps[done : done + size]
            self._values[slab][within, slot : slot + size] = numbers[done : done + size]
            self._fill[series] += size
            done += size
        self._last[series] = stamps[-1]
        self._advance(int(stamps[-1]))

    def mark_stale(self, t_ms: int, ids: Sequence[int] | Ints) -> None:
        """End several series at ``t_ms``: they vanish from instant queries at once."""
        rows = np.asarray(ids, np.int64)
        self.append(t_ms, rows, np.full(len(rows), STALE))

    # -- reading

    def find(self, matchers: Iterable[Matcher], t0_ms: int | None = None, t1_ms: int | None = None) -> list[int]:
        """Ids of matching series with samples in ``[t0_ms, t1_ms]``, sorted by label set."""
        rest = list(matchers)
        found = self._candidates(rest)
        for matcher in rest:
            name, matches = matcher.name, matcher.matches
            found = [i for i in found if matches(self._maps[i].get(name, ""))]
        if t0_ms is not None:
            found = [i for i in found if self._last[i] >= t0_ms]
        if t1_ms is not None:
            found = [i for i in found if self._first[i] <= t1_ms]
        return sorted((i for i in found if self._chunks[i]), key=self.labels)

    def select(self, matchers: Iterable[Matcher], t0_ms: int, t1_ms: int) -> Selection:
        """Samples with ``t0_ms <= t <= t1_ms`` of all series that match."""
        labels: list[Labels] = []
        times: list[Ints] = []
        values: list[Floats] = []
        offsets = [0]
        for series in self.find(matchers, t0_ms, t1_ms):
            size = self._collect(series, t0_ms, t1_ms, times, values)
            if size:
                labels.append(self.labels(series))
                offsets.append(offsets[-1] + size)
        return Selection(
            labels,
            np.concatenate(times) if times else np.empty(0, np.int64),
            np.concatenate(values) if values else np.empty(0, np.float64),
            np.array(offsets, np.int64),
        )

    def label_names(self, ids: Iterable[int] | None = None) -> list[str]:
        """Sorted label names of the given series, or of all."""
        if ids is None:
            return sorted(name for name, values in self._index.items() if values)
        return sorted({name for i in ids for name in self._maps[i]})

    def label_values(self, name: str, ids: Iterable[int] | None = None) -> list[str]:
        """Sorted values of a label among the given series, or among all."""
        if ids is None:
            return sorted(self._index.get(name, ()))
        return sorted({value for i in ids if (value := self._maps[i].get(name))})

    def series_count(self, name: str, value: str) -> int:
        """How many series have this label value."""
        return len(self._index.get(name, {}).get(value, ()))

    @property
    def oldest_ms(self) -> int | None:
        """Time of the oldest sample that is still kept."""
        starts = [found[0] for found in self._starts if found]
        return min(starts) if starts else None

    @property
    def chunk_count(self) -> int:
        """How many chunks are in use."""
        return len(self._times) * SLAB_CHUNKS - len(self._free)

    # -- inside

    def _candidates(self, matchers: list[Matcher]) -> list[int]:
        """The smallest set that one positive matcher allows; that matcher is then done with."""
        best: list[set[int]] | None = None
        size = len(self._labels) + 1
        used = None
        for matcher in matchers:
            if matcher.allowed is None or "" in matcher.allowed:
                continue
            index = self._index.get(matcher.name, {})
            sets = [index[value] for value in matcher.allowed if value in index]
            total = sum(map(len, sets))
            if total < size:
                best, size, used = sets, total, matcher
        if best is None:
            return list(self._ids.values())
        matchers.remove(used)  # type: ignore[arg-type]
        return [i for found in best for i in found]

    def _collect(self, series: int, t0_ms: int, t1_ms: int, times: list[Ints], values: list[Floats]) -> int:
        chunks, starts = self._chunks[series], self._starts[series]
        first = max(bisect_left(starts, t0_ms) - 1, 0)
        taken = 0
        for place in range(first, len(chunks)):
            if starts[place] > t1_ms:
                break
            slab, within = divmod(chunks[place], SLAB_CHUNKS)
            fill = int(self._fill[series]) if place == len(chunks) - 1 else CHUNK_SAMPLES
            stamps = self._times[slab][within, :fill]
            low = int(stamps.searchsorted(t0_ms, "left")) if starts[place] < t0_ms else 0
            high = int(stamps.searchsorted(t1_ms, "right")) if stamps[-1] > t1_ms else fill
            if high > low:
                times.append(stamps[low:high])
                values.append(self._values[slab][within, low:high])
                taken += high - low
        return taken

    def _grow(self, size: int) -> None:
        extra = size - len(self._current)
        self._current = np.concatenate([self._current, np.full(extra, -1)])
        self._fill = np.concatenate([self._fill, np.zeros(extra, np.int64)])
        self._first = np.concatenate([self._first, np.full(extra, np.iinfo(np.int64).max)])
        self._last = np.concatenate([self._last, np.full(extra, np.iinfo(np.int64).min)])

    def _open_chunk(self, series: int, t_ms: int) -> None:
        if not self._free:
            base = len(self._times) * SLAB_CHUNKS
            self._times.append(np.empty((SLAB_CHUNKS, CHUNK_SAMPLES), np.int64))
            self._values.append(np.empty((SLAB_CHUNKS, CHUNK_SAMPLES), np.float64))
            self._free.extend(range(base + SLAB_CHUNKS - 1, base - 1, -1))
        chunk = self._free.pop()
        self._chunks[series].append(chunk)
        self._starts[series].append(t_ms)
        self._current[series] = chunk
        self._fill[series] = 0
        self._first[series] = min(int(self._first[series]), t_ms)

    def _advance(self, t_ms: int) -> None:
        self.newest_ms = t_ms if self.newest_ms is None else max(self.newest_ms, t_ms)
        self._appends += 1
        if self._retention_ms is not None and self._appends % APPENDS_PER_SWEEP == 0:
            self._sweep(self.newest_ms - self._retention_ms)

    def _sweep(self, keep_from_ms: int) -> None:
        """Give back chunks whose every sample is older, and forget series that have none left."""
        for series in np.flatnonzero(self._first[: len(self._labels)] < keep_from_ms).tolist():
            chunks, starts = self._chunks[series], self._starts[series]
            whole = bool(self._last[series] < keep_from_ms)
            # A chunk ends before the next one starts.
            gone = len(chunks) if whole else max(bisect_left(starts, keep_from_ms) - 1, 0)
            self._free.extend(chunks[:gone])
            del chunks[:gone], starts[:gone]
            if starts:
                self._first[series] = starts[0]
            elif gone:
                self._remove(series)

    def _remove(self, series: int) -> None:
        for name, value in self.labels(series):
            values = self._index[name]
            values[value].discard(series)
            if not values[value]:
                del values[value]
        del self._ids[self.labels(series)]
        self._labels[series] = None
        self._maps[series] = {}
        self._current[series] = -1
        self._first[series] = np.iinfo(np.int64).max
        self.generation += 1
