"""The agent that knows: plays a problem's recorded repair and answer through the same actions as everybody.

It proves that a problem can be solved. The session gives it what no other agent gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COMMAND_TIMEOUT_S = 600


class SolutionAgent:
    """Diagnoses first (the stages before the repair), then repairs, then submits the rest."""

    def __init__(self) -> None:
        self.briefed = False
        self._staged = False
        self._answer: Mapping[str, Any] = {}
        self._commands: Sequence[str] = ()
        self._replies: list[str] | None = None

    def learn(self, answer: Mapping[str, Any], commands: Sequence[str]) -> None:
        """Take the right submissions by stage, in order, and the shell commands of the repair."""
        self._answer, self._commands = dict(answer), list(commands)

    def init_context(self, problem_desc: str, instructions: str, apis: dict[str, str]) -> None:
        """See whether answers are submitted in stages."""
        self.briefed = True
        self._staged = "stage" in apis.get("submit", "").split("\n", 1)[0]

    async def get_action(self, state: str) -> str:
        """The next recorded action; once all are played, the last again."""
        if self._replies is None:
            self._replies = self._script()
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return f"```\n{reply}\n```"

    def _script(self) -> list[str]:
        calls = {stage: self._submit(stage, value) for stage, value in self._answer.items()}
        diagnosis = [call for stage, call in calls.items() if stage != "mitigation"]
        repair = [f"exec_shell({command!r}, timeout={COMMAND_TIMEOUT_S})" for command in self._commands]
        closing = [calls["mitigation"]] if "mitigation" in calls else []
        return [*diagnosis, *repair, *closing] or ["submit()"]

    def _submit(self, stage: str, value: Any) -> str:
        if self._staged:
            return f"submit({stage!r})" if value is None else f"submit({stage!r}, {value!r})"
        return "submit()" if value is None else f"submit({value!r})"
