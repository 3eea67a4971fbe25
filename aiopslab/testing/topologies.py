"""Random synthetic applications of any size, for property tests and for measuring how cost grows.

    shop = synthetic(services=50, seed=3)
    shop.write(folder)                   # a bundle: apps/<name>/sim.toml
    shop.objects("ns")                   # Deployments and Services that run it

A call graph is a forest below one HTTP entry: every service has one parent, so each request's cost is bounded, and
every service is reached by some route. All calls are instrumented on both sides and every service writes one line
per call, so that spans, metrics and lines can be counted against each other.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiopslab.errors import UsageError

ENTRY = "entry"
USERS = "users"
IMAGES = "synthetic.example"
HTTP_PORT, RPC_PORT = 8080, 50051
SERVICES_MIN, SERVICES_MAX = 2, 1000
ROUTE_SERVICES = 12  # services that one route reaches, about
DEPTH_MAX = 6
_CLIENTS = ("grpc-go", "grpc-js", "grpc-python")
Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Service:
    """One service: what runs, where it listens, and which others it calls (in order, with how often)."""

    name: str
    port: int
    calls: tuple[tuple[str, int], ...]
    cpu_ms: float
    median_ms: float
    client: str
    replicas: int = 1

    @property
    def image(self) -> str:
        """Image name without tag."""
        return f"{IMAGES}/{self.name}"

    def env(self, ports: dict[str, int]) -> dict[str, str]:
        """Addresses of everything it calls."""
        return {variable(name): f"{name}:{ports[name]}" for name, _ in self.calls}


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A synthetic application. ``routes`` are the entry's: path and the services it calls first."""

    name: str
    services: tuple[Service, ...]
    routes: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def ports(self) -> dict[str, int]:
        """Port by service."""
        return {service.name: service.port for service in self.services}

    def manifest(self) -> Obj:
        """``sim.toml`` as data."""
        programs = {s.name: self._program(s) for s in self.services}
        programs[USERS] = self._users()
        return {"programs": programs}

    def toml(self) -> str:
        """``sim.toml`` as text."""
        lines = []
        for name, program in self.manifest()["programs"].items():
            lines.append(f"[programs.{_inline(name)}]")
            lines += [f"{_inline(key)} = {_inline(value)}" for key, value in program.items()]
        return "\n".join(lines) + "\n"

    def write(self, bundle: Path) -> Path:
        """Write it as an app of a bundle folder; returns the app's folder."""
        folder = bundle / "apps" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sim.toml").write_text(self.toml(), encoding="utf-8")
        return folder

    def objects(self, namespace: str) -> list[Obj]:
        """Deployments and Services, and a Deployment of ten users."""
        found: list[Obj] = []
        for service in self.services:
            found.append(_deployment(namespace, service.name, service.image, service.env(self.ports), service))
            found.append({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": service.name, "namespace": namespace},
                "spec": {"selector": {"app": service.name},
                         "ports": [{"port": service.port, "targetPort": service.port}]},
            })  # fmt: skip
        env = {"TARGET": f"{ENTRY}:{HTTP_PORT}", "USERS": "10", "RATE": "10"}
        found.append(_deployment(namespace, USERS, f"{IMAGES}/{USERS}", env, None))
        return found

    def _program(self, service: Service) -> Obj:
        http = service.name == ENTRY
        common: Obj = {
            "images": [service.image],
            "serves": "http" if http else "grpc",
            "port": str(service.port),
            "client": service.client,
            "server": "grpc-go" if http else service.client,
            "span_style": "otelhttp" if http else "otelgrpc",
            "log_format": "logrus",
            "startup_s": 0.3,
            "stop": {"after_s": 0.05, "code": 0},
            "workers": 64,
            "resources": {"memory_mib": 24.0, "memory_wave_mib": 6.0},
        }
        if not http:
            common["package"] = "synthetic"
        routes = self.routes if http else ((f"{_title(service.name)}/Do", tuple(n for n, _ in service.calls)),)
        times = dict(service.calls)
        common["ops"] = {name: _operation(service, calls, times) for name, calls in routes}
        return common

    def _users(self) -> Obj:
        tasks = [{"name": name, "weight": 1.0, "requests": [{"route": name}]} for name, _ in self.routes]
        return {
            "images": [f"{IMAGES}/{USERS}"],
            "client": "http",
            "startup_s": 0.2,
            "users": {
                "target": "TARGET", "program": ENTRY, "on_start": self.routes[0][0], "think_s": [1.0, 5.0],
                "timeout_s": 30.0, "tasks": tasks,
            },
        }  # fmt: skip


def synthetic(services: int, seed: int, *, name: str = "synthetic", replicas: int = 1) -> Synthetic:
    """A random application of ``services`` services, the entry among them; equal arguments give equal ones.

    Raises UsageError for a size that makes no sense.
    """
    if not SERVICES_MIN <= services <= SERVICES_MAX:
        raise UsageError(f"services must be between {SERVICES_MIN} and {SERVICES_MAX}, not {services}")
    draw = random.Random(f"{seed}/{services}")
    names = [f"svc-{n:03d}" for n in range(1, services)]
    routes = _routes(names)
    calls: dict[str, list[tuple[str, int]]] = {n: [] for n in (ENTRY, *names)}
    for _, members in routes:
        _grow(members, calls, draw)
    found = [_service(n, tuple(calls[n]), draw, replicas) for n in (ENTRY, *names)]
    entries: list[tuple[str, tuple[str, ...]]] = [(path, (members[0],)) for path, members in routes]
    found[0] = _entry(entries, replicas)
    return Synthetic(name, tuple(found), tuple(entries))


def variable(service: str) -> str:
    """The environment variable that holds a service's address."""
    return service.upper().replace("-", "_") + "_ADDR"


def _routes(names: list[str]) -> list[tuple[str, list[str]]]:
    parts = [names[i : i + ROUTE_SERVICES] for i in range(0, len(names), ROUTE_SERVICES)]
    return [(f"GET /r{number}", part) for number, part in enumerate(parts)]


def _grow(members: list[str], calls: dict[str, list[tuple[str, int]]], draw: random.Random) -> None:
    """Hang each member but the first below an earlier one that is not too deep."""
    depth = {members[0]: 1}
    for member in members[1:]:
        parent = draw.choice([m for m, d in depth.items() if d < DEPTH_MAX])
        depth[member] = depth[parent] + 1
        calls[parent].append((member, 2 if draw.random() < 0.15 else 1))


def _service(name: str, calls: tuple[tuple[str, int], ...], draw: random.Random, replicas: int) -> Service:
    cpu_ms = round(draw.uniform(0.2, 1.5), 3)
    median_ms = round(cpu_ms + draw.uniform(0.2, 4.0), 3)
    return Service(name, RPC_PORT, calls, cpu_ms, median_ms, draw.choice(_CLIENTS), replicas)


def _entry(routes: list[tuple[str, tuple[str, ...]]], replicas: int) -> Service:
    return Service(ENTRY, HTTP_PORT, tuple((m[0], 1) for _, m in routes), 1.2, 1.8, "grpc-go", replicas)


def _operation(service: Service, calls: tuple[str, ...], times: dict[str, int]) -> Obj:
    mu = round(math.log(service.median_ms), 4)
    return {
        "time": [[1.0, mu, 0.35]],
        "cpu_ms": service.cpu_ms,
        "request_bytes": 300,
        "response_bytes": 900,
        "logs": [
            {"at": "end", "message": "handled"},
            {"at": "error", "level": "error", "message": "failed", "fields": {"error": "{error}"}},
        ],
        "steps": [
            {
                "call": variable(callee), "op": f"{_title(callee)}/Do", "times": times[callee],
                "wrap": f"{callee}: {{error}}",
            }
            for callee in calls
        ],
    }  # fmt: skip


def _title(name: str) -> str:
    return name.title().replace("-", "")


def _deployment(namespace: str, name: str, image: str, env: dict[str, str], service: Service | None) -> Obj:
    container: Obj = {
        "name": "server",
        "image": f"{image}:1.0",
        "env": [{"name": key, "value": value} for key, value in sorted(env.items())],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    if service is not None:
        container["ports"] = [{"containerPort": service.port}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": service.replicas if service else 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def _inline(value: Any) -> str:
    """A TOML value on one line; JSON's texts are TOML's."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_inline(k)} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value)
