"""Reads what an agent submits: which stage it answers, whether it is an answer at all, and whether the task
ends.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

STAGES = ("detection", "localization", "analysis", "mitigation")
SYSTEM_LEVELS = ("Hardware", "Operating System", "Virtualization", "Application")
FAULT_TYPES = (
    "Misconfiguration",
    "Code Defect",
    "Authentication Issue",
    "Network/Storage Issue",
    "Operation Error",
    "Dependency Problem",
)
_YES_NO = {"yes": "Yes", "true": "Yes", "no": "No", "false": "No"}


class ActionRefused(Exception):
    """The action cannot be carried out as given; costs a step. The text says what would be right."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """One accepted answer to one stage; ``ends`` says whether the task is over with it."""

    stage: str
    value: Any
    ends: bool


def accept(task: str, answer: Any) -> Submitted:
    """An answer to a task of one stage. Raises ``ActionRefused`` for what cannot be an answer."""
    return Submitted(task, _READERS[task](answer), ends=True)


def accept_stage(stage: Any, answer: Any) -> Submitted:
    """An answer to one stage of an incident. It ends with the mitigation, or when nothing is wrong."""
    name = stage.strip().lower() if isinstance(stage, str) else ""
    if name not in STAGES:
        raise ActionRefused(
            f"{stage!r} is no stage. Use submit(stage, answer) with stage one of {', '.join(STAGES)},"
            ' for example submit("detection", "Yes").'
        )
    value = _READERS[name](answer)
    over = name == "mitigation" or (name == "detection" and value == "No")
    return Submitted(name, value, ends=over)


def _detection(answer: Any) -> str:
    word = str(answer).strip().strip(".!").lower()
    if word not in _YES_NO:
        raise ActionRefused(
            f'{_short(answer)} is neither "Yes" nor "No". Submit "Yes" when something is wrong, else "No".'
        )
    return _YES_NO[word]


def _localization(answer: Any) -> list[Any]:
    answer = _from_json(answer)
    if answer is None or (isinstance(answer, str) and answer.strip().lower() in ("", "none", "no fault", "[]")):
        return []
    if isinstance(answer, str):
        return [part.strip() for part in answer.split(",") if part.strip()]
    if isinstance(answer, list | tuple | set) and all(isinstance(item, str) for item in answer):
        return sorted(answer) if isinstance(answer, set) else list(answer)
    raise ActionRefused(
        f'{_short(answer)} is not a list of component names, such as ["frontend"], most likely first.'
    )


def _analysis(answer: Any) -> dict[str, Any]:
    answer = _from_json(answer)
    if answer is None or answer in ({}, [], "", "None", "none"):
        return {}
    if not isinstance(answer, dict):
        raise ActionRefused(f"{_short(answer)} is not a dictionary with the keys system_level and fault_type.")
    missing = [key for key in ("system_level", "fault_type") if key not in answer]
    if missing:
        raise ActionRefused(f"the answer has no {' and no '.join(missing)}; give system_level and fault_type.")
    return {
        **answer,
        "system_level": _one_of("system_level", answer["system_level"], SYSTEM_LEVELS),
        "fault_type": _one_of("fault_type", answer["fault_type"], FAULT_TYPES),
    }


def _mitigation(answer: Any) -> Any:
    return answer


_READERS = {
    "detection": _detection,
    "localization": _localization,
    "analysis": _analysis,
    "mitigation": _mitigation,
}


def _one_of(key: str, value: Any, allowed: tuple[str, ...]) -> str:
    wanted = _plain(value)
    for candidate in allowed:
        if _plain(candidate) == wanted:
            return candidate
    raise ActionRefused(f"{key} {_short(value)} is not one of: {', '.join(allowed)}. Nothing was submitted.")


def _plain(value: Any) -> str:
    return re.sub(r"[^a-z]", "", str(value).lower())


def _from_json(answer: Any) -> Any:
    if isinstance(answer, str) and answer.strip()[:1] in ("{", "["):
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            return answer
    return answer


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
