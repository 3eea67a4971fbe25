"""A command's output, kept within bounds while it runs: its beginning, its end, and how much was in between."""

from __future__ import annotations

KEEP_BYTES = 8 << 20


class Output:
    """Collects bytes. Past ``keep`` bytes only the newest half of that is kept besides the oldest half."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        self._half = keep // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._half:
            del self._tail[: len(self._tail) - self._half]

    def text(self) -> str:
        """What was kept, as text; a gap says how many bytes are missing."""
        tail = self._tail[-self._half :] if len(self._tail) > self._half else self._tail
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            return (bytes(self._head) + bytes(tail)).decode("utf-8", "replace")
        gap = f"\n[... {missing} bytes of output were not kept ...]\n"
        return self._head.decode("utf-8", "replace") + gap + bytes(tail).decode("utf-8", "replace")
