"""What an agent is: one coroutine. Everything else is optional."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Agent(Protocol):
    """Answers an observation with a reply that holds one action.

    Optional members, used when they are there:

    * ``init_context(problem_desc: str, instructions: str, apis: dict[str, str])``, called once before the
      first step; may be a coroutine function.
    * ``briefed``: False until ``init_context`` was called. ``Orchestrator`` leaves briefing to its caller, except
      for an agent that says that it still needs it.
    * ``usage``: a mapping (or object) with the tokens used so far, ``in``/``out`` or
      ``input_tokens``/``output_tokens`` or ``prompt_tokens``/``completion_tokens``.
    """

    async def get_action(self, state: str) -> str:
        """The next reply. ``state`` is the last observation, ending in a request for the next action."""


def tokens_of(agent: Any) -> dict[str, int]:
    """Tokens that an agent says it has used, ``{"in": n, "out": n}``; 0 where it says nothing."""
    usage = getattr(agent, "usage", None)
    found = {"in": 0, "out": 0}
    for ours, names in _TOKEN_NAMES.items():
        for name in names:
            value = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                found[ours] = value
                break
    return found


_TOKEN_NAMES = {
    "in": ("in", "input_tokens", "prompt_tokens", "in_tokens"),
    "out": ("out", "output_tokens", "completion_tokens", "out_tokens"),
}
