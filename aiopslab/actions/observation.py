"""Keeps an observation short enough to read: the middle of a long one is cut out, the whole is kept as a file."""

from __future__ import annotations

from aiopslab.actions.shell import Shell

MAX_CHARS = 16_000


async def fit(text: str, shell: Shell, step: int, max_chars: int = MAX_CHARS) -> str:
    """``text`` itself, or its beginning and end around a line that names the file with all of it."""
    if len(text) <= max_chars:
        return text
    path = await shell.put(f"outputs/step-{step:03d}.txt", text.encode("utf-8", "replace"))
    half = max_chars // 2
    head, tail = text[:half], text[-half:]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out} of {len(text)} characters left out; all of it is in {path} ...]\n\n{tail}"
