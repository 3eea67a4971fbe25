"""The actions that agents have. Their docstrings are the documentation that agents read.

``Actions`` is one run's set: ``specs`` for the parser, ``apis`` for the agent, ``perform`` to carry one out.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiopslab.actions.exports import export_metrics, export_traces
from aiopslab.actions.lab import Lab
from aiopslab.actions.logs import read_logs
from aiopslab.actions.parser import ParsedAction
from aiopslab.actions.shell import DEFAULT_TIMEOUT_S, ShellResult
from aiopslab.actions.spec import ActionSpec, spec_of
from aiopslab.actions.submissions import ActionRefused, Submitted, accept, accept_stage
from aiopslab.errors import LabFailure
from aiopslab.kube.errors import KubeError

MAX_TIMEOUT_S, MAX_WAIT_S = 1800.0, 3600.0
_READ_CHARS = 4_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did. ``valid`` False: it could not be carried out as given, which costs a step."""

    observation: str
    valid: bool = True
    submitted: Submitted | None = None


class Actions:
    """The actions of one run."""

    def __init__(self, lab: Lab, task: str) -> None:
        """``task``: detection, localization, analysis, mitigation or incident."""
        self._lab, self._task = lab, task
        ns, service = lab.namespace, next(iter(lab.services), "frontend")
        home = lab.shell.room.shown_home
        self._functions: dict[str, Callable[..., Awaitable[Any]]] = {
            "get_logs": self.get_logs,
            "get_metrics": self.get_metrics,
            "get_traces": self.get_traces,
            "read_metrics": self.read_metrics,
            "read_traces": self.read_traces,
            "exec_shell": self.exec_shell,
            "wait": self.wait,
        }
        examples = {
            "get_logs": f'get_logs("{ns}", "{service}")',
            "get_metrics": f'get_metrics("{ns}", 5)',
            "get_traces": f'get_traces("{ns}", 5)',
            "read_metrics": f'read_metrics("{home}/metrics/metric_20250602_090000/service/kpi_error_ratio.csv")',
            "read_traces": f'read_traces("{home}/traces/traces_1748854800.csv")',
            "exec_shell": f'exec_shell("kubectl get pods -n {ns}")',
            "wait": "wait(60)",
        }
        self.specs: dict[str, ActionSpec] = {
            name: spec_of(function, examples[name]) for name, function in self._functions.items()
        }
        self.specs["submit"] = submit_spec(task, service)

    @property
    def apis(self) -> dict[str, str]:
        """Documentation by action name."""
        return {name: spec.doc for name, spec in self.specs.items()}

    async def perform(self, action: ParsedAction) -> Outcome:
        """Carry out one action. LabFailure when the lab itself cannot."""
        try:
            if action.name == "submit":
                return self._submit(action.args)
            answer = await self._functions[action.name](**action.args)
        except ActionRefused as refused:
            return Outcome(f"Nothing was done: {refused}", valid=False)
        except KubeError as error:
            if error.code == 0 or error.code >= 500:
                raise
            return Outcome(f"Error from server ({error.reason}): {error.message}")
        except RecursionError as error:
            raise LabFailure(f"{action.name} failed: {error}") from error
        return Outcome(str(answer))

    async def get_logs(self, namespace: str, service: str = "") -> str:
        """Read the newest log lines of a service.

        Args:
            namespace (str): the namespace of the service.
            service (str): the name of a Service, of a workload (also as deploy/name), or of a pod.
        Returns:
            str: the last 500 lines of each of its pods' containers, with times; for containers that restarted
            also the last lines before that.
        """
        return await read_logs(self._lab, namespace, service)

    async def get_metrics(self, namespace: str, duration: int = 5) -> str:
        """Export metrics of a namespace as CSV files that read_metrics and the shell can read.

        Args:
            namespace (str): the namespace.
            duration (int): minutes back from now. Default 5.
        Returns:
            str: the folder, the files in it (containers, Kubernetes objects, and requests, errors and latency
            of each service), and a summary of the services.
        """
        return await export_metrics(self._lab, namespace, duration)

    async def read_metrics(self, file_path: str) -> str:
        """Read a CSV file that get_metrics exported.

        Args:
            file_path (str): its path. For a folder the files in it are listed.
        Returns:
            str: the content of the file.
        """
        return self._read(file_path, "metrics")

    async def get_traces(self, namespace: str, duration: int = 5) -> str:
        """Export traces of a namespace as a CSV file that read_traces and the shell can read.

        Args:
            namespace (str): the namespace.
            duration (int): minutes back from now. Default 5.
        Returns:
            str: the file, and a summary by service and operation: number of spans, failures, latency.
        """
        return await export_traces(self._lab, namespace, duration)

    async def read_traces(self, file_path: str) -> str:
        """Read a CSV file that get_traces exported.

        Args:
            file_path (str): its path.
        Returns:
            str: the content of the file.
        """
        return self._read(file_path, "traces")

    async def exec_shell(self, command: str, timeout: int = 30) -> str:
        """Run a command with bash in your shell. It has kubectl, helm, curl, jq and the usual text tools.

        The command gets no input and no terminal. Files in the home folder and /tmp stay between calls;
        processes do not. There is no network except the Kubernetes API (KUBECONFIG is set), Prometheus
        ($PROMETHEUS_URL) and Jaeger ($JAEGER_URL).

        Args:
            command (str): the command, as one string; several lines are fine.
            timeout (int): seconds after which it is stopped. Default 30, not counting up to 600 seconds of
                sleep and of kubectl's --timeout; at most 1800.
        Returns:
            str: its output (standard output and error together, in order) and its exit code.
        """
        call = re.match(r"\s*(\w+)\s*\(", command)
        if call and call.group(1) in self.specs:
            raise ActionRefused(f"{call.group(1)} is an action, not a command; reply with the call itself.")
        given = None if timeout == DEFAULT_TIMEOUT_S else min(float(timeout), MAX_TIMEOUT_S)
        return _shown(await self._lab.shell.run(command, given))

    async def wait(self, seconds: float) -> str:
        """Let time pass, for example to see whether a repair holds.

        Args:
            seconds (float): how long, at most 3600.
        Returns:
            str: the time afterwards.
        """
        passed = min(float(seconds), MAX_WAIT_S)
        now = await self._lab.cluster.clock.sleep(passed)
        return f"{passed:g} s have passed. It is {dt.datetime.fromtimestamp(now, dt.UTC):%Y-%m-%dT%H:%M:%SZ}."

    def _submit(self, args: dict[str, Any]) -> Outcome:
        if self._task == "incident":
            submitted = accept_stage(args.get("stage"), args.get("answer"))
        else:
            submitted = accept(self._task, next(iter(args.values()), None))
        text = (
            "Your submission was taken."
            if submitted.ends
            else f"Your answer to {submitted.stage} was taken. Go on."
        )
        return Outcome(text, submitted=submitted)

    def _read(self, file_path: str, kind: str) -> str:
        path = self._lab.shell.room.outside(file_path)
        if path is not None and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            return text[:_READ_CHARS] or "(the file is empty)"
        room = self._lab.shell.room
        folder = path if path is not None and path.is_dir() else None
        if folder is None:
            near = path.parent if path is not None else room.home / kind
            folder = near if near.is_dir() else room.home / kind
        files = (
            sorted(room.inside(p) for p in folder.rglob("*.csv"))
            if _below(folder, room.home) and folder.is_dir()
            else []
        )
        listing = "\n".join(files[:200]) or f"(no files; get_{kind} exports some)"
        if path is not None and path.is_dir():
            return f"{file_path} is a folder. Files in it:\n{listing}"
        raise ActionRefused(f"there is no file {file_path!r}. Files there are:\n{listing}")


def _below(path: Any, home: Any) -> bool:
    return path == home or home in path.parents


def _shown(result: ShellResult) -> str:
    output = result.output if result.output.strip() else "(no output)\n"
    end = "" if output.endswith("\n") else "\n"
    return f"{output}{end}[{result.stopped or f'exit code {result.exit_code}'}]"


def submit_spec(task: str, service: str) -> ActionSpec:
    """``submit`` as the task has it."""

    def detection() -> ActionSpec:
        async def submit(has_anomaly: str) -> None:
            """Submit whether something is wrong. This ends the task.

            Args:
                has_anomaly (str): "Yes" or "No".
            """

        return spec_of(submit, 'submit("Yes")')

    def localization() -> ActionSpec:
        async def submit(faulty_components: list[str]) -> None:
            """Submit the components that are the cause. This ends the task.

            Args:
                faulty_components (list[str]): names of services, most likely first; [] when nothing is wrong.
            """

        return spec_of(submit, f'submit(["{service}"])')

    def analysis() -> ActionSpec:
        async def submit(analysis: dict[str, str] | None = None) -> None:
            """Submit the root cause. This ends the task.

            Args:
                analysis (dict[str, str]): {"system_level": ..., "fault_type": ...}, with values from the
                task's lists; nothing
                    when nothing is wrong.
            """

        return spec_of(submit, 'submit({"system_level": "Application", "fault_type": "Misconfiguration"})')

    def mitigation() -> ActionSpec:
        async def submit() -> None:
            """Submit that the incident is over: the fault is repaired and the users are served again. This
            ends the task.
            """

        return spec_of(submit, "submit()", extra_ignored=True)

    def incident() -> ActionSpec:
        async def submit(stage: str, answer: Any = None) -> None:
            """Submit the answer to one stage of the incident, as soon as you have it. A later answer replaces
            an earlier one.

            Args:
                stage (str): "detection", "localization", "analysis" or "mitigation".
                answer: detection: "Yes" or "No" ("No" ends the task). localization: a list of service names,
                most likely first.
                    analysis: {"system_level": ..., "fault_type": ...}. mitigation: nothing; it says that the
                    repair is done and ends the task.
            """

        return spec_of(submit, 'submit("detection", "Yes")')

    forms: dict[str, Callable[[], ActionSpec]] = {
        "detection": detection,
        "localization": localization,
        "analysis": analysis,
        "mitigation": mitigation,
        "incident": incident,
    }
    return forms[task]()
