"""The closing report of a run: what broke, what the agent said, each check with its reason, the times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aiopslab.cli.output import console
from aiopslab.cli.summary import times
from aiopslab.record import Check, Result, RunRecord

_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
_COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow"}
_VALUE_MAX = 200  # characters of a submitted value shown


def print_report(record: RunRecord, result: Result, folder: Path) -> None:
    """Print the report of one judged run on stdout."""
    out = console()
    out.print(_headline(record, result))
    _section(out, "What broke", [_what_broke(record)])
    _section(out, "What the agent said", _said(record))
    _section(out, "Checks", [_checks_table(result.checks)])
    _section(out, "Times", [_times_line(record, result)])
    out.print(Text(f"Record: {folder.resolve()}", style="dim"))


def _headline(record: RunRecord, result: Result) -> Text:
    colour = _COLOURS.get(result.verdict, "yellow")
    text = Text.assemble(("\n" + result.verdict.upper(), f"bold {colour}"), f"  score {result.score:.2f}  ")
    text.append(f"{record.problem}  agent {record.agent}  seed {record.seed}  cluster {record.cluster}")
    if record.failure and record.failure not in (check.detail for check in result.checks):
        text.append(f"\n{record.outcome}: {record.failure}", style=colour)
    return text


def _section(out: Console, title: str, lines: list[Any]) -> None:
    out.print(Text(f"\n{title}", style="bold"))
    for line in lines:
        out.print(Padding(Text(line) if isinstance(line, str) else line, (0, 0, 0, 2), expand=False))


def _what_broke(record: RunRecord) -> str:
    expected, injection = record.expected, record.injection
    if expected is not None and not expected.anomaly:
        return "Nothing: the application was healthy."
    if injection is None:
        return "Nothing yet: the run ended before the injection."
    params = ", ".join(f"{name}={value}" for name, value in sorted(injection.params.items()))
    lines = [f"{injection.fault} ({params})" if params else injection.fault]
    if injection.objects:
        lines.append("changed: " + ", ".join(injection.objects))
    if expected is not None and expected.system_levels and expected.fault_types:
        lines.append(
            f"at fault: {', '.join(expected.components)}; {expected.system_levels[0]}, {expected.fault_types[0]}"
        )
    if injection.symptom_after_s is not None:
        lines.append(f"users felt it after {injection.symptom_after_s:.0f} s")
    return "\n".join(lines)


def _said(record: RunRecord) -> list[str]:
    if not record.submissions:
        return [f"Nothing was submitted ({record.outcome or 'the run did not end'})."]
    return [f"{entry.stage}: {_value(entry.value)}  (at {entry.at_s:.0f} s)" for entry in record.submissions]


def _value(value: Any) -> str:
    if value is None:
        return "done"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_MAX else text[: _VALUE_MAX - 1] + "…"


def _checks_table(checks: list[Check]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mark, colour = _MARKS[check.ok]
        table.add_row(Text(mark, style=colour), Text(check.name), Text(check.detail))
    return table


def _times_line(record: RunRecord, result: Result) -> str:
    found = times(record)
    stages = [
        ("detection", "detect_s"),
        ("localization", "localize_s"),
        ("analysis", "analyze_s"),
        ("mitigation", "mitigate_s"),
    ]
    parts = [f"{word} after {found[key]:.0f} s" for word, key in stages if found[key] is not None]
    recovered_s = result.metrics.get("recovered_s")
    if recovered_s:
        parts.append(f"users served well again from {recovered_s:.0f} s on")
    effort = f"{record.steps} step{'' if record.steps == 1 else 's'}"
    if record.invalid_actions:
        effort += f" ({record.invalid_actions} invalid)"
    if any(record.tokens.values()):
        effort += f", {record.tokens.get('in', 0)} + {record.tokens.get('out', 0)} tokens"
    parts.append(effort)
    parts.append(
        f"{found['wall_s']:.1f} s of wall time, {found['setup_wall_s']:.1f} s of it before the agent's first turn"
    )
    return "; ".join(parts) + "."
