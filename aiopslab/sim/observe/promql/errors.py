"""What can go wrong with a query, in the families of the HTTP API."""

from __future__ import annotations


class QueryError(Exception):
    """A query that cannot be answered. ``kind`` is the API's errorType, ``str`` its error text."""

    kind = "execution"


class ParseError(QueryError):
    """Text that is not PromQL. ``str`` is ``line:column: parse error: message``; columns count bytes from 1."""

    kind = "bad_data"

    def __init__(self, query: str, at: int, message: str) -> None:
        before = query[:at]
        line = before.count("\n") + 1
        column = len(before[before.rfind("\n") + 1 :].encode()) + 1
        super().__init__(f"{line}:{column}: parse error: {message}")


class ExecutionError(QueryError):
    """A query that is well-formed but meets samples that it cannot be applied to."""


class QueryTimeout(QueryError):
    """The time allowed for the query is over."""

    kind = "timeout"
