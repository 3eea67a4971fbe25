"""The series store against a plain dictionary."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.sim.observe.linear import LinearPattern
from aiopslab.sim.observe.matchers import BadRegex, Matcher, compile_regex, make_labels
from aiopslab.sim.observe.series import CHUNK_SAMPLES, SeriesStore, is_stale


def names(store: SeriesStore, *matchers: Matcher) -> list[str]:
    return sorted(dict(store.labels(i))["pod"] for i in store.find(matchers))


@pytest.fixture
def pods() -> SeriesStore:
    store = SeriesStore()
    for pod, app in (("a", "web"), ("b", "web"), ("c", "db"), ("d", "")):
        store.append(1000, [store.series({"__name__": "cpu", "pod": pod, "app": app})], [1.0])
    return store


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (Matcher("app", "=", "web"), "ab"),
        (Matcher("app", "!=", "web"), "cd"),
        (Matcher("app", "=", ""), "d"),
        (Matcher("app", "!=", ""), "abc"),
        (Matcher("app", "=~", "web|db"), "abc"),
        (Matcher("app", "=~", "w.*"), "ab"),
        (Matcher("app", "=~", "w"), ""),
        (Matcher("app", "!~", "w.+"), "cd"),
        (Matcher("app", "=~", "|db"), "cd"),
        (Matcher("missing", "=", "x"), ""),
        (Matcher("missing", "=~", ".*"), "abcd"),
    ],
)
def test_matchers_choose_series(pods: SeriesStore, matcher: Matcher, expected: str) -> None:
    assert "".join(names(pods, Matcher("__name__", "=", "cpu"), matcher)) == expected
    assert "".join(names(pods, matcher)) == expected


def test_empty_labels_are_absent_and_order_does_not_matter() -> None:
    store = SeriesStore()
    first = store.series({"b": "2", "a": "1", "c": ""})
    assert store.series((("a", "1"), ("b", "2"))) == first
    assert store.labels(first) == make_labels({"a": "1", "b": "2"})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.sets(st.integers(0, 4), min_size=1)), min_size=1, max_size=200),
    st.integers(0, 4000),
    st.integers(0, 4000),
)
def test_reads_what_was_written(scrapes: list[tuple[int, set[int]]], a: int, b: int) -> None:
    store, model = SeriesStore(), {i: [] for i in range(5)}
    t = 0
    for number, (gap, members) in enumerate(scrapes):
        t += gap
        ids = [store.series({"n": str(i)}) for i in sorted(members)]
        store.append(t, ids, [float(number)] * len(ids))
        for i in members:
            model[i].append((t, float(number)))
    low, high = min(a, b), max(a, b)
    found = store.select([Matcher("n", "!=", "")], low, high)
    got = {
        dict(labels)["n"]: list(zip(*map(np.ndarray.tolist, found.series(i)), strict=True))
        for i, labels in enumerate(found.labels)
    }
    want = {str(i): inside for i, rows in model.items() if (inside := [r for r in rows if low <= r[0] <= high])}
    assert got == want


def test_bulk_and_scrape_writes_agree() -> None:
    bulk, single = SeriesStore(), SeriesStore()
    times = list(range(0, 3000, 7))
    bulk.extend(bulk.series({"n": "x"}), times, times)
    one = single.series({"n": "x"})
    for t in times:
        single.append(t, [one], [t])
    for store in (bulk, single):
        found = store.select([], 100, 2000)
        assert found.times.tolist() == found.values.tolist() == [t for t in times if 100 <= t <= 2000]


def test_late_samples_are_refused() -> None:
    store = SeriesStore()
    series = store.series({"n": "x"})
    store.append(10, [series], [1.0])
    with pytest.raises(ValueError, match="not newer than 10 ms"):
        store.append(10, [series], [2.0])
    with pytest.raises(ValueError, match="ascending"):
        store.extend(series, [12, 11], [0, 0])


def test_stale_marker_is_not_an_ordinary_nan() -> None:
    store = SeriesStore()
    series = store.series({"n": "x"})
    store.append(1, [series], [math.nan])
    store.mark_stale(2, [series])
    assert is_stale(store.select([], 0, 9).values).tolist() == [False, True]


def test_retention_drops_old_chunks_and_dead_series() -> None:
    store = SeriesStore(retention_s=100)
    dead, live = store.series({"n": "dead"}), store.series({"n": "live"})
    for second in range(5 * CHUNK_SAMPLES):
        store.append(second * 1000, [dead, live] if second < 10 else [live], np.ones(2 if second < 10 else 1))
    assert store.label_values("n") == ["live"]
    assert store.generation == 1
    newest = (5 * CHUNK_SAMPLES - 1) * 1000
    kept = store.select([], 0, newest).times
    assert kept[-1] == newest and newest - 100_000 - 2 * CHUNK_SAMPLES * 1000 < kept[0] <= newest - 100_000
    assert store.series({"n": "dead"}) != dead


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing closing ): `^(?:()$`"),
        (")", "unexpected ): `^(?:))$`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid or unsupported Perl syntax"),
    ],
)
def test_patterns_that_re2_refuses(pattern: str, message: str) -> None:
    with pytest.raises(BadRegex) as caught:
        compile_regex(pattern, True)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("[*+]+", "*+"), (r"\++", "++"), (r"a\\+", r"a\\"), ("[(?=]", "="), ("(ab)+.*", "ababc")],
)
def test_harmless_look_alikes(pattern: str, text: str) -> None:
    assert compile_regex(pattern, True).matches(text)


def test_posix_classes_and_newlines() -> None:
    assert compile_regex("[[:alpha:]]+", True).matches("abc")
    assert compile_regex(".*", True).matches("a\nb")
    assert not compile_regex(".*", False).matches("a\nb")


def test_patterns_that_would_hang_a_backtracking_matcher_are_answered() -> None:
    for pattern in ("(.+)+x", "(a|a)*b", "((a*)*)*b", "(a|.){1,60}c"):
        assert not compile_regex(pattern, True).matches("a" * 60)
        assert compile_regex(pattern, True).find("a" * 60) is None


PIECES = st.sampled_from(["a", "b", ".", "[ab]", "(a|bc)", "(b+a)", "(?:ab?)", r"\w", "(a*)"])
COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "*?", "{0,}"])
PATTERNS = st.lists(st.tuples(PIECES, COUNTS), max_size=5)


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.lists(PATTERNS, max_size=2), st.text("abc", max_size=8))
def test_the_linear_matcher_agrees_with_python(head: list, options: list[list], text: str) -> None:
    pattern = "|".join("".join(piece + count for piece, count in part) for part in [head, *options])
    assert LinearPattern(pattern, re.ASCII).fullmatch(text) == (re.fullmatch(pattern, text, re.ASCII) is not None)
