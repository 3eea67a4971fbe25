"""What is refused, with Prometheus' words and columns; and agreement with an independent parser."""

from __future__ import annotations

import promql_parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiopslab.sim.observe.promql.durations import format_duration, parse_duration
from aiopslab.sim.observe.promql.errors import ParseError
from aiopslab.sim.observe.promql.numbers import format_plain, format_sample, format_time
from aiopslab.sim.observe.promql.parser import parse

ERRORS = [
    ("  # nothing", "1:1: parse error: no expression found in input"),
    ("a{b=", "1:5: parse error: unexpected end of input inside braces"),
    ("a{b 3}", "1:5: parse error: unexpected character inside braces: '3'"),
    ('a{b="c" d="e"}', '1:9: parse error: unexpected identifier "d" in label matching, expected "," or "}"'),
    ("a{b=}", '1:5: parse error: unexpected "}" in label matching, expected string'),
    ("a ? b", "1:3: parse error: unexpected character: '?'"),
    ("a\n+ b ! c", "2:5: parse error: unexpected character after '!': ' '"),
    ("(a", "1:3: parse error: unclosed left parenthesis"),
    ("a]", "1:2: parse error: unexpected right bracket ']'"),
    ("a[5m", "1:5: parse error: unclosed left bracket"),
    ("a[5q]", '1:3: parse error: bad duration syntax: "5"'),
    ("a[5m:1m:]", "1:8: parse error: unexpected colon ':'"),
    ("a[0s]", "1:3: parse error: duration must be greater than 0"),
    ("a[1s1h]", '1:3: parse error: not a valid duration string: "1s1h"'),
    ("3[5m]", "1:2: parse error: ranges only allowed for vector selectors"),
    ("a offset 5m offset 5m", "1:1: parse error: offset may not be set multiple times"),
    ("sum(a) offset 5m", "1:1: parse error: offset modifier must be preceded by an instant vector selector or "
                         "range vector selector or a subquery"),
    ("a offset b", '1:10: parse error: unexpected identifier "b" in offset, expected duration'),
    ("a @ b", '1:5: parse error: unexpected identifier "b" in @, expected timestamp'),
    ("sum(a b)", '1:7: parse error: unexpected identifier "b" in aggregation'),
    ("sum by a (b)", '1:8: parse error: unexpected identifier "a" in grouping opts, expected "("'),
    ("sum by (a b) (c)", '1:11: parse error: unexpected identifier "b" in grouping opts, expected "," or ")"'),
    ("abs(a,)", "1:6: parse error: trailing commas not allowed in function call args"),
    ("nosuch(a)", '1:1: parse error: unknown function with name "nosuch"'),
    ("rate(a)", '1:6: parse error: expected type range vector in call to function "rate", got instant vector'),
    ("label_join(a)", '1:1: parse error: expected at least 3 argument(s) in call to "label_join", got 1'),
    ("round(a, 1, 2)", '1:1: parse error: expected at most 2 argument(s) in call to "round", got 3'),
    ("topk(a)", "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, got 1"),
    ("1 < 2", "1:3: parse error: comparisons between scalars must use BOOL modifier"),
    ("a + bool b", "1:3: parse error: bool modifier can only be used on comparison operators"),
    ("a or 1", '1:1: parse error: set operator "or" not allowed in binary scalar expression'),
    ("a and on (b) group_left c", '1:1: parse error: no grouping allowed for "and" operation'),
    ("a + on (b) group_left (b) c", '1:3: parse error: label "b" must not occur in ON and GROUP clause at once'),
    ("a + on (b) 1", "1:1: parse error: vector matching only allowed between instant vectors"),
    ("-a[5m]", '1:1: parse error: unary expression only allowed on expressions of type scalar or instant vector, '
               'got "range vector"'),
    ("a[5m][5m:1m]", "1:1: parse error: subquery is only allowed on instant vector, got matrix instead"),
    ('{a=~".*"}', "1:1: parse error: vector selector must contain at least one non-empty matcher"),
    ('a{__name__="b"}', '1:1: parse error: metric name must not be set twice: "a" or "b"'),
    ("1e999", '1:1: parse error: error parsing number: strconv.ParseFloat: parsing "1e999": value out of range'),
    ("'a\\q'", "1:1: parse error: unknown escape sequence U+0071 'q'"),
    ("\u00e4 + 1", "1:1: parse error: unexpected character: '\u00e4'"),
    ("avg(\u00e4)", "1:5: parse error: unexpected character: '\u00e4'"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "message"), ERRORS)
def test_refusals(query: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(query, 2)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "query",
    ["a[300]", "a offset 5", "5m", '{"a.b"}', '{"a.b", "c.d"="e"}', 'sum by ("c.d") ({"a.b"})', "a offset +5m"],
)
def test_version_3_reads_more(query: str) -> None:
    parse(query, 3)
    with pytest.raises(ParseError):
        parse(query, 2)


def test_experimental_functions_are_not_enabled() -> None:
    with pytest.raises(ParseError, match='function "info" is not enabled'):
        parse("info(a)", 3)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(ParseError, match="levels deep"):
        parse("(" * 5000 + "1" + ")" * 5000, 3)


LEAVES = st.sampled_from(["a", "b{c='d'}", "1", "rate(a[5m])", "2.5", "a offset 5m", "rate(a[1h:5m])", "sum(b)"])
OPERATORS = ["+", "-", "*", "/", "^", "%", "and", "or", "unless", "> bool", "== bool", "+ on (c)"]


def _bigger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(OPERATORS)
    return st.one_of(
        st.builds("{} {} {}".format, inner, operators, inner),
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("{} by (c) ({})".format, st.sampled_from(["sum", "avg", "count"]), inner),
        st.builds("abs({})".format, inner),
        st.builds("topk(2, {})".format, inner),
    )


@settings(max_examples=200, deadline=None)
@given(st.recursive(LEAVES, _bigger, max_leaves=6))
def test_accepts_what_an_independent_parser_accepts(query: str) -> None:
    try:
        promql_parser.parse(query)
    except ValueError:
        with pytest.raises(ParseError):
            parse(query, 3)
    else:
        parse(query, 3)


@pytest.mark.parametrize(
    ("value", "plain", "sample"),
    [
        (0.0, "0", "0"), (-0.0, "-0", "-0"), (1.0, "1", "1"), (0.1, "0.1", "0.1"), (1e21, "1" + "0" * 21, "1e+21"),
        (123456789012345678.0, "123456789012345680", "123456789012345680"), (1e-7, "0.0000001", "1e-07"),
        (1.5e-10, "0.00000000015", "1.5e-10"), (-2.5e300, "-25" + "0" * 299, "-2.5e+300"),
        (float("nan"), "NaN", "NaN"), (float("-inf"), "-Inf", "-Inf"),
    ],
)  # fmt: skip
def test_numbers_are_printed_as_go_prints_them(value: float, plain: str, sample: str) -> None:
    assert format_plain(value) == plain
    assert format_sample(value) == sample


@given(st.floats())
def test_printed_numbers_read_back(value: float) -> None:
    for text in (format_plain(value), format_sample(value)):
        assert float(text) == value or value != value


@pytest.mark.parametrize(("ms", "text"), [(1500, "1.500"), (2000, "2"), (-250, "-0.250"), (1240, "1.240")])
def test_times(ms: int, text: str) -> None:
    assert format_time(ms) == text


@given(st.integers(1, 10**12))
def test_durations_read_back(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms
