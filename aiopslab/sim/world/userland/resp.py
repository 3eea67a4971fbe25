"""RESP, the wire protocol of redis: commands as arrays of bulk strings or as plain lines."""

from __future__ import annotations

from aiopslab.sim.world.userland.redis import Login, RedisError, Reply, Space

CRLF = b"\r\n"


def serve(space: Space, received: bytes) -> tuple[bytes, int]:
    """Replies to all complete commands in ``received``, and how many bytes those are."""
    replies, at = bytearray(), 0
    session = Login(space)
    while (found := _command(received, at)) is not None:
        words, at = found
        if words:
            replies += _outcome(session, words)
    return bytes(replies), at


def _outcome(session: Login, words: list[str]) -> bytes:
    try:
        return encode(session.run(words))
    except RedisError as error:
        return f"-{error}\r\n".encode()


def encode(reply: Reply) -> bytes:
    """A reply on the wire."""
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, str):
        if reply in ("OK", "PONG"):
            return b"+" + reply.encode() + CRLF
        raw = reply.encode()
        return b"$%d\r\n" % len(raw) + raw + CRLF
    return b"*%d\r\n" % len(reply) + b"".join(encode(one) for one in reply)


def _command(data: bytes, at: int) -> tuple[list[str], int] | None:
    """The command at ``at`` and where the next begins; None while it is not all there."""
    line = _line(data, at)
    if line is None:
        return None
    text, at = line
    if not text.startswith(b"*"):
        return text.decode(errors="replace").split(), at
    words: list[str] = []
    for _ in range(_number(text)):
        head = _line(data, at)
        if head is None:
            return None
        start, size = head[1], _number(head[0])
        if len(data) < start + size + len(CRLF):
            return None
        words.append(data[start : start + size].decode(errors="replace"))
        at = start + size + len(CRLF)
    return words, at


def _line(data: bytes, at: int) -> tuple[bytes, int] | None:
    end = data.find(b"\n", at)
    return None if end < 0 else (data[at:end].rstrip(b"\r"), end + 1)


def _number(text: bytes) -> int:
    """The count after the type's mark; 0 for what is none."""
    return int(text[1:]) if text[1:].isdigit() else 0
