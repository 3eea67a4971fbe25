"""What an agent is told before its first step. Nothing here may tell what is wrong, or that anything is
simulated.
"""

from __future__ import annotations

from aiopslab.actions.submissions import FAULT_TYPES, SYSTEM_LEVELS
from aiopslab.catalog.manifests import App

FIRST_STATE = "Please take the next action"

_MAYBE = "Something may be wrong with the application."
_ANALYSIS = '{"system_level": ..., "fault_type": ...}'
_TASKS = {
    "detection": (
        "Find out whether anything is wrong with the application right now. "
        'Submit "Yes" if there is an anomaly, else "No".'
    ),
    "localization": (
        f"{_MAYBE} Find out which components are the cause (not those that merely suffer from it), and submit "
        "their names as a list, most likely first; an empty list if nothing is wrong."
    ),
    "analysis": f"{_MAYBE} Find the root cause and submit it as {_ANALYSIS}.",
    "mitigation": (
        f"{_MAYBE} Find out what, and repair it: at the end its users are served again, every workload is healthy, "
        "and nothing else was damaged. Then submit."
    ),
    "incident": (
        "You are on call for the application. Handle it from beginning to end, and submit each answer as soon as "
        "you have it:\n"
        '1. detection: is anything wrong? "Yes" or "No". "No" ends the task.\n'
        "2. localization: which components are the cause? A list of names, most likely first.\n"
        f"3. analysis: what is the root cause? {_ANALYSIS}.\n"
        "4. mitigation: repair it, check that users are served again, then submit. This ends the task."
    ),
}

_VOCABULARY = (
    f"system_level is one of: {', '.join(SYSTEM_LEVELS)}.\nfault_type is one of: {', '.join(FAULT_TYPES)}."
)


def describe(task: str, app: App) -> str:
    """The task's description: the application, then what is asked."""
    about = app.description.strip() or app.title
    services = f"Its services: {', '.join(app.services)}.\n" if app.services else ""
    asked = _TASKS[task] + (f"\n{_VOCABULARY}" if _ANALYSIS in _TASKS[task] else "")
    return (
        f"You are responsible for the application {app.title}, which runs on Kubernetes in the namespace "
        f"{app.namespace}.\n"
        f"{about}\n{services}Its users' entry is the Service {app.entry.service}.\n\n{asked}\n"
    )


def instruct(example: str, max_steps: int) -> str:
    """How to reply."""
    return (
        "You act through the actions that are listed for you, one in each reply, and see its result before the "
        "next one. Put the action into one block of three backticks, written as a Python call:\n\n"
        f"```\n{example}\n```\n\n"
        "Text outside the block is for your own thoughts and is not read. Only the first action of a reply is "
        f"carried out. You have {max_steps} replies; one that holds no action counts too. Submit before they run "
        "out.\n"
    )
