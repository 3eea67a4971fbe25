"""SPDY/3.1 frames, as far as port-forwarding uses them; no sockets.

A control frame begins with ``0x8003`` and its type, a data frame with its stream's number; then follow 8 bits of
flags and 24 bits of length. Names and values of streams travel in a zlib stream that starts from a dictionary.
There is no flow control: the clients that speak this protocol here have none.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 0x01
CONTROL = 0x8003
HEAD_BYTES = 8
FRAME_BYTES_MAX = 1 << 20
HEADERS_BYTES_MAX = 1 << 16
DATA_BYTES_MAX = 1 << 15
STREAM_MASK = 0x7FFF_FFFF

# The dictionary of SPDY version 3: these words, each after its length, then the text as it is.
_WORDS = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|accept-ranges|age|"
    "allow|authorization|cache-control|connection|content-base|content-encoding|content-language|content-length|"
    "content-location|content-md5|content-range|content-type|date|etag|expect|expires|from|host|if-match|"
    "if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|location|max-forwards|pragma|"
    "proxy-authenticate|proxy-authorization|range|referer|retry-after|server|te|trailer|transfer-encoding|upgrade|"
    "user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|"
    "keep-alive|origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(w)) + w.encode() for w in _WORDS.split("|")) + _TEXT.encode()


class ProtocolError(Exception):
    """The peer does not speak SPDY/3.1. ``str`` says what was wrong."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opened a stream. ``ended``: it will send nothing on it."""

    stream: int
    headers: dict[str, str]
    ended: bool


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes on a stream; ``ended``: the last ones."""

    stream: int
    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer has dropped a stream."""

    stream: int


Event = Opened | Data | Reset


@dataclass(slots=True)
class Connection:
    """The serving end of one connection. What is to be sent gathers in ``outgoing``."""

    outgoing: bytearray = field(default_factory=bytearray)
    closed: bool = False
    _incoming: bytearray = field(default_factory=bytearray)
    _inflate: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))
    _deflate: zlib._Compress = field(default_factory=lambda: zlib.compressobj(zdict=DICTIONARY))

    def receive(self, data: bytes) -> list[Event]:
        """Bytes from the peer, cut anywhere; the events of all frames that are complete."""
        self._incoming += data
        events: list[Event] = []
        while len(self._incoming) >= HEAD_BYTES:
            first, flags_length = struct.unpack_from(">II", self._incoming)
            flags, length = flags_length >> 24, flags_length & 0xFF_FFFF
            if length > FRAME_BYTES_MAX:
                raise ProtocolError(f"a frame of {length} bytes; at most {FRAME_BYTES_MAX} are taken")
            if len(self._incoming) < HEAD_BYTES + length:
                break
            body = bytes(self._incoming[HEAD_BYTES : HEAD_BYTES + length])
            del self._incoming[: HEAD_BYTES + length]
            if first >> 31:
                events += self._control(first, flags, body)
            else:
                events.append(Data(first, body, bool(flags & FIN)))
        return events

    def accept(self, stream: int) -> None:
        """Confirm a stream that the peer opened."""
        body = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._send_control(SYN_REPLY, struct.pack(">I", stream) + body)

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Bytes on a stream; ``end``: the last ones."""
        parts = [data[i : i + DATA_BYTES_MAX] for i in range(0, len(data), DATA_BYTES_MAX)] or [b""]
        for number, part in enumerate(parts, 1):
            flags = FIN if end and number == len(parts) else 0
            self.outgoing += struct.pack(">II", stream, flags << 24 | len(part)) + part

    def take(self) -> bytes:
        """What is to be sent, once."""
        data = bytes(self.outgoing)
        self.outgoing.clear()
        return data

    def _control(self, first: int, flags: int, body: bytes) -> list[Event]:
        version, kind = first >> 16, first & 0xFFFF
        if version != CONTROL:
            raise ProtocolError(f"version {version & 0x7FFF} of the protocol; only 3 is spoken")
        if kind == SYN_STREAM:
            if len(body) < 10:
                raise ProtocolError("a stream without a number")
            return [Opened(_stream(body), self._headers(body[10:]), bool(flags & FIN))]
        if kind == RST_STREAM:
            return [Reset(_stream(body))]
        if kind == PING:
            self._send_control(PING, body)
        elif kind == GOAWAY:
            self.closed = True
        return []

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, HEADERS_BYTES_MAX)
            (count,) = struct.unpack_from(">I", plain)
            at, found = 4, {}
            for _ in range(count):
                name, at = _text(plain, at)
                value, at = _text(plain, at)
                found[name.lower()] = value
        except (zlib.error, struct.error) as error:
            raise ProtocolError(f"headers that cannot be read: {error}") from None
        return found

    def _send_control(self, kind: int, body: bytes) -> None:
        self.outgoing += struct.pack(">HHI", CONTROL, kind, len(body)) + body


def _stream(body: bytes) -> int:
    if len(body) < 4:
        raise ProtocolError("a frame without its stream")
    number: int = struct.unpack_from(">I", body)[0]
    return number & STREAM_MASK


def _text(plain: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", plain, at)
    end = at + 4 + length
    return plain[at + 4 : end].decode("latin-1"), end
