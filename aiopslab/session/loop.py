"""The agent's turns: observation, reply, action, until it is done or a limit is reached."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from aiopslab.actions.definitions import Actions, Outcome
from aiopslab.actions.lab import Lab
from aiopslab.actions.observation import fit
from aiopslab.actions.parser import ParsedAction, Refusal, parse
from aiopslab.errors import AgentFailure
from aiopslab.record import Step, Submission
from aiopslab.session.agentport import AgentPort
from aiopslab.session.diary import Diary
from aiopslab.session.options import RunOptions
from aiopslab.session.prompts import FIRST_STATE


class Conversation:
    """One agent's session with the actions of one run."""

    def __init__(self, lab: Lab, actions: Actions, options: RunOptions, diary: Diary) -> None:
        self._lab, self._actions, self._options, self._diary = lab, actions, options, diary
        self._stepped = lab.cluster.clock.mode == "stepped"
        self._max_steps = options.max_steps
        self.state = FIRST_STATE  # what the agent is shown next

    async def run(self, port: AgentPort, max_steps: int) -> str:
        """Take turns until the end; returns the outcome: submitted, step-limit or time-limit. Raises
        AgentFailure.
        """
        limits, self._max_steps = self._options.limits, max_steps
        deadline = time.monotonic() + limits.run_wall_s
        for step in range(1, max_steps + 1):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return "time-limit"
            try:
                reply = await port.ask(self.state, min(limits.reply_wall_s, left_s), limits.reply_chars)
            except AgentFailure:
                if time.monotonic() >= deadline:
                    return "time-limit"
                raise
            if await self.turn(step, reply):
                return "submitted"
        return "step-limit"

    async def turn(self, step: int, reply: str) -> bool:
        """Carry out one reply and record it; True when the task is over with it."""
        began_wall, clock = time.monotonic(), self._lab.cluster.clock
        if self._stepped and self._options.think_time_s:
            await clock.sleep(self._options.think_time_s)
        began = await self._diary.now()
        parsed = await asyncio.to_thread(parse, reply, self._actions.specs)
        outcome = await self._carry_out(parsed)
        observation = await fit(outcome.observation, self._lab.shell, step, self._options.limits.observation_chars)
        self._diary.step(
            Step(
                step=step,
                time_s=self._diary.since_injection(began),
                wall_s=round(time.monotonic() - began_wall, 4),
                reply=_recordable(reply[: self._options.limits.recorded_chars]),
                action=parsed.name if isinstance(parsed, ParsedAction) else "",
                args=_plain(parsed.args) if isinstance(parsed, ParsedAction) else {},
                valid=outcome.valid,
                observation=_recordable(observation),
            ),
            self._max_steps,
        )
        await self._diary.collect_audit()
        self.state = f"{observation}\n{FIRST_STATE}"
        if outcome.submitted is None:
            return False
        done = outcome.submitted
        at_s = self._diary.since_injection(began)
        self._diary.submission(Submission(stage=done.stage, value=_plain(done.value), at_s=at_s, step=step))
        return done.ends

    async def _carry_out(self, parsed: ParsedAction | Refusal) -> Outcome:
        if isinstance(parsed, Refusal):
            return Outcome(parsed.reason, valid=False)
        outcome = await self._actions.perform(parsed)
        if not parsed.note:
            return outcome
        return Outcome(f"({parsed.note})\n{outcome.observation}", outcome.valid, outcome.submitted)


def _plain(value: Any) -> Any:
    """``value`` as JSON data; what JSON does not have becomes text."""
    text = json.dumps(value, default=_as_data, ensure_ascii=True, skipkeys=True)
    return json.loads(text, parse_constant=str)


def _as_data(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def _recordable(text: str) -> str:
    """``text`` without half surrogate pairs, which no encoder takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
