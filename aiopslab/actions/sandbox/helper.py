"""Runs inside the sandbox, before the agent's command. Standard library only; it is copied into the sandbox.

It opens listening sockets on the sandbox's own loopback and hands their descriptors out over the control
socket, so that the lab can serve on them although the sandbox has no network. Then it gives up privileges,
sets the limits and becomes the command.

Control socket, both directions one JSON line: in ``{"ports", "uid", "gid", "limits", "argv"}``; out
``{"ready": n}`` with n descriptors attached, or ``{"error": text}``; then in one byte: go.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys


def main() -> None:
    """Serve one command; never returns."""
    control = socket.socket(fileno=int(sys.argv[1]))
    config = json.loads(_line(control))
    try:
        listeners = [_listen(port) for port in config["ports"]]
        head = json.dumps({"ready": len(listeners)}).encode() + b"\n"
        if listeners:
            socket.send_fds(control, [head], [listener.fileno() for listener in listeners])
        else:
            control.sendall(head)
        if control.recv(1) != b"g":
            os._exit(125)
        for listener in listeners:
            listener.close()
        _give_up_privileges(config["uid"], config["gid"])
        for name, value in config["limits"].items():
            _limit(getattr(resource, name), value)
    except OSError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        os._exit(125)
    control.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so in children
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.execvp(config["argv"][0], config["argv"])


def _line(control: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        chunk = control.recv(65536)
        if not chunk:
            os._exit(125)
        data += chunk
    return data


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def _give_up_privileges(uid: int | None, gid: int | None) -> None:
    if uid is None or gid is None:
        return
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bounded, bounded))


main()
