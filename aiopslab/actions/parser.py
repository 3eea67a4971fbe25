"""Reads an agent's reply: lenient in form, never silent.

``parse(reply, actions)`` gives the one action to carry out, or a ``Refusal`` that says exactly what was wrong
and shows a call made of the task's own names. What is not carried out is named in ``ParsedAction.note``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiopslab.actions.binding import BindingError, bind
from aiopslab.actions.blocks import Block, Outline, outline, without_thinking
from aiopslab.actions.calls import Call, Unreadable, find_names, read_call
from aiopslab.actions.spec import ActionSpec
from aiopslab.errors import did_you_mean

SHELL = "exec_shell"
MAX_READ_CHARS = 200_000  # an action is never longer; more is refused unread
_SHELL_TAGS = {"bash", "sh", "shell", "console", "zsh", "shell-session", "terminal"}
_COMMAND_WORDS = re.compile(
    r"(?:\$ )?(?:sudo )?(?:kubectl|helm|curl|jq|grep|cat|ls|echo|sleep|date|for|while)\b(?!\s*\()"
)
_STATEMENT = re.compile(
    r"^[ \t]*(?:\w+[ \t]*=[ \t]*)?(?:await[ \t]+)?(?:print[ \t]*\([ \t]*)?([A-Za-z_]\w*)[ \t]*\(", re.MULTILINE
)
_LABELLED = re.compile(r"\baction\b[ \t]*:[ \t*]*`*[ \t]*([A-Za-z_]\w*)", re.IGNORECASE)
_NAME_KEYS = ("name", "tool", "action", "api", "tool_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "input", "kwargs", "action_input", "params")


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """One action to carry out, its arguments by parameter name, and a note on what was read leniently or left
    out.
    """

    name: str
    args: dict[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was carried out; ``reason`` is what the agent is told."""

    reason: str


class _Refuse(Exception):
    pass


def parse(reply: str, actions: Mapping[str, ActionSpec]) -> ParsedAction | Refusal:
    """Read one reply. Never raises, whatever the text."""
    try:
        return _parse(reply, actions)
    except _Refuse as refusal:
        return Refusal(f"Nothing was run: {refusal}\n{how_to_reply(actions)}")


def how_to_reply(actions: Mapping[str, ActionSpec]) -> str:
    """The form of a reply, with an example of the task's own names."""
    spec = actions.get(SHELL) or next(iter(actions.values()))
    done = f" When you are done: {actions['submit'].example}" if "submit" in actions else ""
    form = "Reply with one action in one block of three backticks, for example:"
    return f"{form}\n```\n{spec.example}\n```\n{done}".rstrip()


def _parse(reply: str, actions: Mapping[str, ActionSpec]) -> ParsedAction:
    if len(reply) > MAX_READ_CHARS:
        raise _Refuse(f"the reply has {len(reply)} characters; at most {MAX_READ_CHARS} are read.")
    text = without_thinking(reply.replace("\r\n", "\n").lstrip("\ufeff"))
    if not text.strip():
        raise _Refuse("the reply is empty." if not reply.strip() else "the reply holds only thinking, no action.")
    if re.search(r"(?:```|~~~)(?:[\w-]*)\\+n", text):
        raise _Refuse(
            "the block only exists as escaped text (\\n instead of line breaks); the reply must be the text itself,"
            " not a printed object around it."
        )
    tool_call = _tool_call(text)
    if tool_call is not None:
        return _finish(tool_call, [], "", actions)
    parts = outline(text)
    chosen = _from_blocks(parts, actions)
    return chosen if chosen is not None else _from_prose(parts, actions)


def _from_blocks(parts: Outline, actions: Mapping[str, ActionSpec]) -> ParsedAction | None:
    calls: list[Call] = []
    leftovers: list[str] = []
    for block in parts.blocks:
        found = _calls(block.text, actions)
        if found:
            leftovers.append(_leftover(block.text, found))
        calls += found
    if calls:
        return _finish(calls[0], calls[1:], " ".join(filter(None, leftovers)), actions)
    filled = [block for block in parts.blocks if block.text]
    for block in filled:
        tool_call = _tool_call(block.text)
        if tool_call is not None:
            return _finish(tool_call, [], "", actions)
    if find_names(parts.outside, list(actions)):
        return None
    commands = [block for block in filled if _is_command(block)]
    if len(commands) == 1 and SHELL in actions:
        return _raw_command(commands[0])
    if len(commands) > 1:
        raise _Refuse(f"{len(commands)} blocks hold commands; give one action a reply.")
    for block in filled:
        _refuse_unknown(block.text, actions)
    if parts.blocks and not filled and not _LABELLED.search(parts.outside):
        raise _Refuse("the block is empty: it holds no action.")
    return None


def _from_prose(parts: Outline, actions: Mapping[str, ActionSpec]) -> ParsedAction:
    text = parts.outside
    labelled = _LABELLED.search(text)
    if labelled:
        after = [found for found in find_names(text, list(actions)) if found.start() >= labelled.start(1)]
        if after and after[0].start() == labelled.start(1):
            call = _read(text, after[0], labelled=True)
            later = [_read(text, found, labelled=False) for found in after[1:] if found.start() >= call.end]
            return _finish(call, [other for other in later if not other.same_as(call)], "", actions)
        _refuse_label(labelled.group(1), text[labelled.end() :], actions)
    alone = _alone(text, actions)
    if alone is not None:
        return _finish(alone[0], alone[1:], "", actions)
    raise _Refuse("no action was found in the reply.")


def _alone(text: str, actions: Mapping[str, ActionSpec]) -> list[Call] | None:
    """Calls in running text: only those that stand on lines or in ticks of their own, or a single clear one."""
    found = find_names(text, list(actions))
    if not found:
        return None
    on_own_line = [f for f in found if not text[text.rfind("\n", 0, f.start()) + 1 : f.start()].strip(" \t`*>")]
    candidates = on_own_line or found
    calls: list[Call] = []
    for place in candidates:
        if calls and place.start() < calls[-1].end:
            continue
        call = _read(text, place, labelled=bool(on_own_line))
        if not any(call.same_as(other) for other in calls):
            calls.append(call)
    if len(calls) > 1 and not on_own_line:
        names = ", ".join(call.name for call in calls)
        raise _Refuse(f"the text mentions several calls ({names}) and none stands in a block.")
    return calls


def _calls(text: str, actions: Mapping[str, ActionSpec]) -> list[Call]:
    """The calls of known actions that a block holds, in order; calls inside strings of others are no calls."""
    calls: list[Call] = []
    for found in find_names(_blank_comments(text), list(actions)):
        if calls and found.start() < calls[-1].end:
            continue
        if _inside_command(text, found.start()):
            continue
        try:
            calls.append(_read(text, found, labelled=True))
        except _Refuse:
            if not calls:
                raise
            calls.append(Call(found.group(1), [], {}, found.start(), len(text)))
    return calls


def _blank_comments(text: str) -> str:
    return re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m.group()), text, flags=re.MULTILINE)


def _inside_command(text: str, at: int) -> bool:
    """Whether the name at ``at`` stands inside a raw command (``kubectl ... -- sh -c 'wait(3)'``)."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return bool(_COMMAND_WORDS.match(line.lstrip()))


def _read(text: str, found: re.Match[str], *, labelled: bool) -> Call:
    try:
        return read_call(text, found, command_like=found.group(1) == SHELL, bare_words=labelled)
    except Unreadable as error:
        raise _Refuse(f"{error}.") from None


def _finish(call: Call, others: list[Call], leftover: str, actions: Mapping[str, ActionSpec]) -> ParsedAction:
    spec = actions.get(call.name)
    if spec is None:
        raise _Refuse(_unknown(call.name, actions))
    try:
        args = bind(spec, call.args, call.kwargs)
    except BindingError as error:
        raise _Refuse(f"{error} The form is {spec.signature}, for example {spec.example}.") from None
    notes = [note + "." for note in call.notes]
    rest = [other for other in others if not other.same_as(call)]
    if rest:
        names = ", ".join(_shown(other) for other in rest)
        notes.append(f"one action a reply: {names} {'was' if len(rest) == 1 else 'were'} not run.")
    if leftover:
        notes.append(f"only the call was run, not the rest of the block: {leftover}")
    return ParsedAction(call.name, args, " ".join(note[:1].upper() + note[1:] for note in notes))


def _shown(call: Call) -> str:
    first = next(iter([*call.args, *call.kwargs.values()]), None)
    inner = (
        ""
        if first is None
        else repr(first if not isinstance(first, str) or len(first) < 60 else first[:57] + "...")
    )
    return f"{call.name}({inner})"


def _leftover(text: str, calls: list[Call]) -> str:
    kept: list[str] = []
    at = 0
    for call in calls:
        kept.append(text[at : call.start])
        at = call.end
    kept.append(text[at:])
    lines = [line.strip() for part in kept for line in part.split("\n")]
    idle = re.compile(
        r"(?:(?:Action|Thought|Executor|Assistant)\s*:?|\w+\s*=|await|print\s*\(|[`*);\s]*)+\Z", re.IGNORECASE
    )
    rest = [line for line in lines if line and not line.startswith("#") and not idle.match(line)]
    shown = " / ".join(rest)
    return shown if len(shown) <= 120 else shown[:117] + "..."


def _is_command(block: Block) -> bool:
    if block.tag in _SHELL_TAGS:
        return not _STATEMENT.match(block.text) or bool(_COMMAND_WORDS.match(block.text))
    return block.tag in ("", "text") and bool(_COMMAND_WORDS.match(block.text))


def _raw_command(block: Block) -> ParsedAction:
    if not block.closed:
        raise _Refuse("the block with the command is not closed, so the command may be cut off.")
    lines = block.text.split("\n")
    if all(line.startswith("$ ") for line in lines if line.strip()):
        lines = [line[2:] for line in lines]
    return ParsedAction(
        SHELL, {"command": "\n".join(lines), "timeout": 30}, "The block was run as the command of exec_shell."
    )


def _refuse_unknown(text: str, actions: Mapping[str, ActionSpec]) -> None:
    for found in _STATEMENT.finditer(text):
        if found.group(1) not in ("print", *actions):
            raise _Refuse(_unknown(found.group(1), actions))
    for name in actions:
        if re.match(rf"\s*{re.escape(name)}\b", text):
            _refuse_label(name, text[len(name) :], actions)


def _refuse_label(name: str, after: str, actions: Mapping[str, ActionSpec]) -> None:
    if name in actions:
        spec = actions[name]
        raise _Refuse(f"{name} is named but not called; the form is {spec.signature}, for example {spec.example}.")
    if after.lstrip(" \t").startswith("("):
        raise _Refuse(_unknown(name, actions))


def _unknown(name: str, actions: Mapping[str, ActionSpec]) -> str:
    near = did_you_mean(name, actions, most=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"there is no action {name!r}.{hint} Actions: {', '.join(actions)}."


def _tool_call(text: str) -> Call | None:
    """A JSON tool call, alone in the text or in a ``<tool_call>`` tag; None when the text is nothing of the
    kind.
    """
    body = text.strip()
    tagged = re.search(r"<tool_call>(.*?)(?:</tool_call>|\Z)", body, re.DOTALL)
    body = tagged.group(1).strip() if tagged else body
    if not body.startswith(("{", "[")):
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        if len(value) != 1:
            return None
        value = value[0]
    return _from_json(value)


def _from_json(value: Any) -> Call | None:
    if not isinstance(value, dict):
        return None
    for wrapper in ("tool_calls", "function", "function_call", "tool_call"):
        inner = value.get(wrapper)
        if isinstance(inner, list) and len(inner) == 1:
            inner = inner[0]
        if isinstance(inner, dict):
            return _from_json(inner)
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None and isinstance(value.get("function"), str):
        name = value["function"]
    if name is None:
        return None
    arguments: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = [arguments]
    if isinstance(arguments, dict):
        return Call(name, [], arguments, 0, 0)
    return Call(name, arguments if isinstance(arguments, list) else [arguments], {}, 0, 0)
