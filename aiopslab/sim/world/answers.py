"""The bodies of HTTP answers that commands in containers get to see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from aiopslab.sim.world.programspec import Op
from aiopslab.sim.world.runs import Run

PLAIN_TEXT = "text/plain; charset=utf-8"
_TYPES = {"html": "text/html", "json": "application/json", "css": "text/css", "js": "application/javascript"}


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer. ``server`` is its header of that name, empty for none."""

    status: int
    took_ms: float
    body: bytes = b""
    content_type: str = PLAIN_TEXT
    server: str = ""


def served_file(run: Run, path: str) -> str | None:
    """The file that a server with a root folder has at a path; a folder's is its index."""
    root = run.program.root if run.program is not None else ""
    if not root:
        return None
    wanted = root + path.partition("?")[0]
    for name in (wanted, wanted.rstrip("/") + "/index.html"):
        if run.files is not None and name in run.files:
            return run.files[name].decode(errors="replace")
        if name in run.spec.files:
            return run.spec.files[name]
    return None


def reply(run: Run, op: Op | None, path: str, outcome: tuple[int, float], now: float) -> Reply:
    """What ``run`` answers to a request for ``path`` that ended with (status, milliseconds)."""
    status, took_ms = outcome
    program = run.program
    assert program is not None
    found = served_file(run, path) if status == 200 else None
    if found is not None:
        kind = _TYPES.get(path.partition("?")[0].rpartition(".")[2], "text/html")
        return Reply(status, took_ms, found.encode(), kind, program.server_header)
    if status == 200 and op is not None and op.body:
        return Reply(status, took_ms, _filled(op.body, run, now), op.content_type, program.server_header)
    own = program.pages.get(str(status))
    if own is not None:
        return Reply(status, took_ms, own.lstrip("\n").encode(), "text/html", program.server_header)
    kind = "text/html; charset=utf-8" if status == 200 else PLAIN_TEXT
    return Reply(status, took_ms, _usual(status), kind, program.server_header)


def _filled(template: str, run: Run, now: float) -> bytes:
    facts = {
        "pod": run.ref.pod,
        "pod_ip": run.spec.pod_ip,
        "host": f"{run.spec.pod_ip}:{run.port}",
        "time": f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S.%f} +0000 UTC",
    }
    text = template.lstrip("\n") if template.startswith("\n<") else template
    for name, value in facts.items():
        text = text.replace("{" + name + "}", value)
    return text.encode()


def _usual(status: int) -> bytes:
    if status == 200:
        return b"ok\n"
    return b"404 page not found\n" if status == 404 else b"Internal Server Error\n" if status >= 500 else b""
