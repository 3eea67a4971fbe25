"""The outer form of a reply: thinking tags, fenced blocks, and what stands between them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_THINKING = re.compile(r"<(think|thinking|thought|reasoning|scratchpad)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THINKING_END = re.compile(r"\A.*?</(?:think|thinking|thought|reasoning|scratchpad)>", re.DOTALL | re.IGNORECASE)
_THINKING_OPEN = re.compile(r"<(?:think|thinking|thought|reasoning|scratchpad)>.*\Z", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"`{3,}|^[ \t]*~{3,}", re.MULTILINE)
_TAG_LINE = re.compile(r"[ \t]*([A-Za-z][\w+.-]*)?[ \t]*\n")
_INLINE_TAG = re.compile(r"[ \t]*(python|py|bash|sh|shell|json|tool_code|text|console)[ \t]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. ``tag`` is its language in lower case; ``closed`` is False when the reply ends inside it."""

    tag: str
    text: str
    closed: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """A reply taken apart: fenced blocks in order, and the text outside them."""

    blocks: tuple[Block, ...]
    outside: str


def without_thinking(text: str) -> str:
    """The reply without what the agent only thought, also when a tag was opened or closed only."""
    text = _THINKING.sub("", text)
    text = _THINKING_END.sub("", text)
    return _THINKING_OPEN.sub("", text)


def outline(text: str) -> Outline:
    """Take a reply apart. Accepts three or more ticks or tildes, indented, inline, and an unclosed last block."""
    blocks: list[Block] = []
    outside: list[str] = []
    at = 0
    while True:
        opening = _FENCE.search(text, at)
        if opening is None:
            outside.append(text[at:])
            return Outline(tuple(blocks), "".join(outside))
        outside.append(text[at : opening.start()])
        mark = opening.group().strip()
        end, resume = _closing(text, opening.end(), mark)
        blocks.append(_block(text[opening.end() : end], closed=resume is not None))
        if resume is None:
            return Outline(tuple(blocks), "".join(outside))
        at = resume


def _closing(text: str, start: int, mark: str) -> tuple[int, int | None]:
    closing = re.compile(f"{re.escape(mark[0])}{{{len(mark)},}}").search(text, start)
    if closing is None:
        return len(text), None
    return closing.start(), closing.end()


def _block(raw: str, closed: bool) -> Block:
    tag = ""
    first = _TAG_LINE.match(raw)
    inline = _INLINE_TAG.match(raw)
    if first is not None:
        tag = (first.group(1) or "").lower()
        raw = raw[first.end() :]
    elif inline is not None:
        tag = inline.group(1).lower()
        raw = raw[inline.end() :]
    return Block(tag, _dedent(raw), closed)


def _dedent(raw: str) -> str:
    lines = raw.split("\n")
    filled = [line for line in lines if line.strip()]
    if not filled:
        return ""
    indent = len(filled[0]) - len(filled[0].lstrip(" \t"))
    prefix = filled[0][:indent]
    return "\n".join(line[indent:] if line.startswith(prefix) else line for line in lines).strip()
