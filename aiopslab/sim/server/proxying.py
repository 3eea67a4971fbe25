"""``proxy`` of pods, Services and nodes: the API server passes a request on into the simulated network.

What arrives is a request like any other: it shows in logs, spans and metrics. Of a node, only what a kubelet says of
itself to anyone who may ask is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from aiopslab.sim.core.apierrors import ApiError, bad_request, not_found, status_error
from aiopslab.sim.core.endpointslices import is_ready, slices_of
from aiopslab.sim.core.ports import ContainerRef
from aiopslab.sim.core.store import Key
from aiopslab.sim.server import podlogs
from aiopslab.sim.server.call import Call

KUBELET_PORT = 10250
KUBELET = {"healthz": "ok", "healthz/ping": "ok", "healthz/syncloop": "ok"}
HOP_HEADERS = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive", "upgrade"})
SENT_HEADERS = ("accept", "content-type", "user-agent")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes on to."""

    ip: str
    port: int


async def proxy(call: Call) -> web.Response:
    """Any method on ``proxy`` and what follows it."""
    return await HANDLERS[call.served.plural](call)


async def _pod(call: Call) -> web.Response:
    scheme, name, wanted = split(call.info.name)
    pod = call.api.store.get(Key("pods", call.namespace, name))
    if pod is None:
        raise not_found(call.served, name)
    declared = [p for c in pod["spec"]["containers"] for p in c.get("ports") or []]
    named = {p.get("name"): p["containerPort"] for p in declared}
    if wanted and not wanted.isdigit() and wanted not in named:
        raise bad_request(f'invalid port "{wanted}"')
    port = named.get(wanted) or (int(wanted) if wanted else declared[0]["containerPort"] if declared else 80)
    ip = (pod.get("status") or {}).get("podIP", "")
    if not ip:
        raise unreached(f"dial tcp :{port}: connect: connection refused")
    return await _forward(call, Target(ip, port), scheme)


async def _service(call: Call) -> web.Response:
    scheme, name, wanted = split(call.info.name)
    service = call.api.store.get(Key("services", call.namespace, name))
    if service is None:
        raise not_found(call.served, name)
    ports = service["spec"].get("ports") or []
    found = [p for p in ports if wanted in (p.get("name", ""), str(p["port"]))] if wanted else ports[:1]
    if not found or (not wanted and len(ports) > 1):
        raise unavailable(f'no service port "{wanted}" found for service "{name}"')
    targets = endpoints(call, name, found[0].get("name", ""))
    if not targets:
        raise unavailable(f'no endpoints available for service "{name}"')
    number = call.api.kernel.ids.number(len(targets), "proxy", call.namespace, name, call.request.path)
    return await _forward(call, targets[number], scheme)


async def _node(call: Call) -> web.Response:
    name = split(call.info.name)[1]
    if call.api.store.get(Key("nodes", "", name)) is None:
        raise not_found(call.served, name)
    text = KUBELET.get("/".join(call.info.tail))
    if text is None:
        return web.Response(text="404 page not found\n", status=404, content_type="text/plain")
    return web.Response(text=text, content_type="text/plain")


def split(name: str) -> tuple[str, str, str]:
    """(scheme, name, port) of ``name``, ``name:port`` or ``scheme:name:port``. Raises 400."""
    parts = name.split(":")
    if len(parts) == 1:
        return "http", name, ""
    if len(parts) == 2:
        return "http", parts[0], parts[1]
    if len(parts) == 3 and parts[0] in ("", "http", "https"):
        return parts[0] or "http", parts[1], parts[2]
    raise bad_request(f'invalid proxy request "{name}"')


def endpoints(call: Call, service: str, port_name: str) -> list[Target]:
    """Ready addresses of one port of a Service, in order."""
    found = []
    for item in slices_of(call.api.store, call.namespace, service):
        number = next((p.get("port") for p in item.get("ports") or [] if (p.get("name") or "") == port_name), None)
        for endpoint in item.get("endpoints") or []:
            if number is not None and is_ready(endpoint):
                found += [Target(address, number) for address in endpoint.get("addresses") or []]
    return sorted(found, key=lambda target: (target.ip, target.port))


async def _forward(call: Call, target: Target, scheme: str) -> web.Response:
    """Send the request on and give the answer back."""
    where = f"{target.ip}:{target.port}"
    listener = _listener(call, target)
    if listener is None:
        raise unreached(f"dial tcp {where}: connect: connection refused")
    if scheme == "https":
        raise unreached("tls: first record does not look like a TLS handshake")
    world = call.server.world
    assert world is not None
    request = await _request(call, where)
    answer = world.converse(listener, target.port, request, call.api.kernel.now)
    response = parse(answer.reply)
    if response is None:
        raise unreached("EOF" if not answer.reply else f'net/http: malformed HTTP response "{_shown(answer.reply)}"')
    return response


def _listener(call: Call, target: Target) -> ContainerRef | None:
    world, now = call.server.world, call.api.kernel.now
    for pod in call.api.store.list("pods"):
        status = pod.get("status") or {}
        if world is None or status.get("podIP") != target.ip:
            continue
        for ref in podlogs.running_refs(pod):
            if world.listens(ref, target.port, now):
                return ref
    return None


async def _request(call: Call, host: str) -> bytes:
    """The request as it goes over the wire."""
    path = "/" + "/".join(call.info.tail)
    if call.request.path.endswith("/") and call.info.tail:
        path += "/"
    if call.request.query_string:
        path += f"?{call.request.query_string}"
    body = await call.request.read()
    headers = {name: value for name, value in call.request.headers.items() if name.lower() in SENT_HEADERS}
    lines = [f"{call.request.method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def parse(raw: bytes) -> web.Response | None:
    """An HTTP/1.1 answer; None for anything else."""
    head, found, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not found or not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        return None
    headers = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    kept = {name: value for name, value in headers.items() if name.lower() not in HOP_HEADERS}
    return web.Response(body=body, status=int(rest[:3]), headers=kept)


def _shown(raw: bytes) -> str:
    return raw[:24].decode("latin-1").encode("unicode_escape").decode()


def unreached(why: str) -> ApiError:
    """503: the other side could not be spoken to."""
    return unavailable(f"error trying to reach service: {why}")


def unavailable(message: str) -> ApiError:
    """503 with a message."""
    return status_error("ServiceUnavailable", message)


HANDLERS: dict[str, Callable[[Call], Awaitable[web.Response]]] = {
    "pods": _pod, "services": _service, "nodes": _node,
}  # fmt: skip
