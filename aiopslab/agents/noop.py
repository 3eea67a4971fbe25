"""The agent that does nothing: submits that all is well. A problem that it passes is no problem."""

from __future__ import annotations


class NoopAgent:
    """Submits the do-nothing answer of whatever form the task asks for."""

    def __init__(self) -> None:
        self.briefed = False
        self._submit = ""

    def init_context(self, problem_desc: str, instructions: str, apis: dict[str, str]) -> None:
        """Learn the form of ``submit`` from its documentation."""
        self.briefed = True
        self._submit = apis.get("submit", "").split("\n", 1)[0]

    async def get_action(self, state: str) -> str:
        """The same submission every time."""
        if "stage" in self._submit:
            call = 'submit("detection", "No")'
        elif "has_anomaly" in self._submit:
            call = 'submit("No")'
        elif "faulty_components" in self._submit:
            call = "submit([])"
        else:
            call = "submit()"
        return f"```\n{call}\n```"
