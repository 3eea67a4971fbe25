"""HTTP/2 header lists to HTTP/1.1 requests, and HTTP/1.1 answers back to what HTTP/2 sends."""

from __future__ import annotations

from dataclasses import dataclass

# Headers of one HTTP/1.1 connection: they mean nothing in HTTP/2.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"})
_FORBIDDEN = frozenset("\r\n\0")
_WITHOUT_BODY = (204, 304)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """``raw`` is an HTTP/1.1 request up to its body; ``chunked``: a body of unknown length follows in chunks."""

    raw: bytes
    chunked: bool


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer, names in lower case."""

    status: int
    headers: list[tuple[str, str]]


def request_head(headers: list[tuple[str, str]], ended: bool) -> RequestHead | None:
    """The request that ``headers`` describe; ``ended``: it has no body. None for what HTTP/1.1 cannot say."""
    pseudo = {name: value for name, value in headers if name.startswith(":")}
    method, path = pseudo.get(":method", ""), pseudo.get(":path", "")
    plain = [(n, v) for n, v in headers if not n.startswith(":") and n not in _HOP_BY_HOP]
    words = [method, path, pseudo.get(":authority", ""), *(part for pair in plain for part in pair)]
    if not method or not path or " " in method + path or any(_FORBIDDEN & set(word) for word in words):
        return None
    names = {name for name, _ in plain}
    lines = [f"{method} {path} HTTP/1.1", "connection: close"]
    if "host" not in names:
        lines.append(f"host: {pseudo.get(':authority', '')}")
    chunked = not ended and "content-length" not in names
    if chunked:
        lines.append("transfer-encoding: chunked")
    # One Cookie header, as HTTP/1.1 wants it, is not needed: the API knows no cookies.
    lines += [f"{name}: {value}" for name, value in plain]
    return RequestHead("\r\n".join([*lines, "", ""]).encode(), chunked)


class ResponseReader:
    """Takes an HTTP/1.1 answer apart as it is written. ``complete`` tells that its body has ended."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._buffer = bytearray()
        self._headed = False
        self._chunked = False
        self._left = 0  # bytes of the body, or of the chunk, that are still to come; -1: until the end
        self.complete = False

    def feed(self, data: bytes) -> list[Head | bytes]:
        """The head, once it is there, and the parts of the body in ``data``."""
        if self._headed and not self._chunked and not self._buffer:
            return self._plain(data)
        self._buffer += data
        found: list[Head | bytes] = []
        if not self._headed:
            head = self._head()
            if head is None:
                return found
            found.append(head)
        if self._chunked:
            found += self._chunks()
        else:
            rest = bytes(self._buffer)
            self._buffer.clear()
            found += self._plain(rest)
        return found

    def _head(self) -> Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        while end >= 0:
            lines = self._buffer[:end].decode("utf-8", "surrogateescape").split("\r\n")
            del self._buffer[: end + 4]
            status = int(lines[0].split(" ", 2)[1])
            if status >= 200:
                return self._begin(status, [_field(line) for line in lines[1:]])
            end = self._buffer.find(b"\r\n\r\n")  # an interim answer; the one that counts follows
        return None

    def _begin(self, status: int, fields: list[tuple[str, str]]) -> Head:
        self._headed = True
        values = dict(fields)
        self._chunked = "chunked" in values.get("transfer-encoding", "")
        self._left = 0 if self._chunked else int(values.get("content-length", "-1"))
        if self._method == "HEAD" or status in _WITHOUT_BODY:
            self._chunked, self._left = False, 0
        self.complete = not self._chunked and self._left == 0
        return Head(status, [(n, v) for n, v in fields if n not in _HOP_BY_HOP])

    def _plain(self, data: bytes) -> list[Head | bytes]:
        if self.complete or not data:
            return []
        if self._left < 0:
            return [data]
        part = data[: self._left]
        self._left -= len(part)
        self.complete = self._left == 0
        return [part]

    def _chunks(self) -> list[Head | bytes]:
        found: list[Head | bytes] = []
        while not self.complete:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                break
            size = int(self._buffer[:end].split(b";")[0], 16)
            if len(self._buffer) < end + 2 + size + 2:
                break
            if size:
                found.append(bytes(self._buffer[end + 2 : end + 2 + size]))
            self.complete = size == 0
            del self._buffer[: end + 2 + size + 2]
        return found


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
