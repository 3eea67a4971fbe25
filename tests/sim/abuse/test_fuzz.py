"""Bodies and queries that no client means to send: always an answer, never a 500 or a hang, and a refused request
changes nothing. The bodies follow the schema of each kind, with something wrong somewhere."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import pytest

from aiopslab.sim.core.kinds import Kind, Kinds
from aiopslab.sim.core.schema.nodes import Node, node_for

JSON = "application/json"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 1.5, "", "x", "0", "a b", "é\u0000", "9" * 300, [], {}, [None], [[]], {"": 1}, "1Gi",
)  # fmt: skip
TEXTS = ("a", "x:1", "10", "1Gi", "Always", "*/5 * * * *", "10.0.0.1", "2020-01-01T00:00:00Z", "/a", "50%", "TCP")
NAMES = ("a", "b", "c.d", "UPPER", "x" * 300)
DEPTH_MAX = 7
BODIES_PER_KIND = 12
# What the server says when its own code fails; it has other 500s in its vocabulary, as the real one does.
CRASH = re.compile(r"Internal error occurred: \w+(Error|Exception)\b")
KINDS = [k for k in Kinds().served() if "create" in k.verbs and k.group != "metrics.k8s.io"]


class Fuzz:
    """A seeded source of objects."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self._random.random() < share

    def pick(self, choices: Any) -> Any:
        """One of the choices."""
        return copy.deepcopy(self._random.choice(choices))

    def object_of(self, kind: Kind) -> Any:
        """An object of a kind."""
        node = node_for(kind)
        body = self.value(node, DEPTH_MAX, 0.8) if node is not None else {"spec": self.pick(JUNK)}
        if not isinstance(body, dict):
            return body
        body.pop("status", None)
        body |= {"apiVersion": kind.api_version, "kind": kind.kind}
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
        kept = {k: v for k, v in (metadata or {}).items() if self.chance(0.2)}
        body["metadata"] = {**kept, "name": self.pick(NAMES)} if self.chance(0.95) else self.pick(JUNK)
        return body

    def value(self, node: Node | None, depth: int, density: float = 0.35) -> Any:
        """Something that mostly fits a schema node."""
        if node is None or depth == 0 or self.chance(0.03):
            return self.pick(JUNK)
        if node.shape == "struct":
            required = set(node.required or ())
            names = [n for n in sorted(node.known) if n in required or self.chance(density)]
            return {name: self.value(node.field(name), depth - 1) for name in names}
        if node.shape == "map":
            return {self.pick(("a", "b/c", "cpu", "")): self.value(node.elem, depth - 1)}
        if node.shape == "list":
            return [self.value(node.elem, depth - 1) for _ in range(self.pick((0, 1, 1, 2)))]
        if node.type == "integer":
            return self.pick((0, 1, 2, -1, 8080, 70000, 2**40))
        if node.type == "boolean":
            return self.chance(0.5)
        return self.pick(TEXTS)

    def json_patch(self) -> Any:
        """Operations that may or may not apply."""
        paths = (
            "/spec",
            "/metadata/labels",
            "/metadata/name",
            "/data/x",
            "/spec/template/spec/containers/0",
            "",
            "/a~2",
        )
        return [
            {"op": self.pick(("add", "remove", "replace", "test", "move", "no")), "path": self.pick(paths),
             "value": self.pick(JUNK)}
            for _ in range(self.pick((0, 1, 3)))
        ]  # fmt: skip


def path_of(kind: Kind, name: str = "") -> str:
    """Path of a collection or of an object, in the default namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = "/namespaces/default" if kind.namespaced else ""
    return f"{root}{place}/{kind.plural}" + (f"/{name}" if name else "")


class Watched:
    """Sends requests and checks what must hold of every answer."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._store = client.cluster.kernel.store

    async def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> int:
        before = self._store.revision
        code, answer = await self._client(method, path, body, content_type)
        sent = f"{method} {path} {str(body)[:600]}"
        message = answer.get("message", "") if isinstance(answer, dict) else str(answer)
        assert not CRASH.search(message), f"{sent}: {message}"
        if code >= 400:
            assert self._store.revision == before, f"{sent}: {code} and the state changed"
        return code


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.group or 'core'}/{k.version}/{k.plural}")
async def test_objects_that_do_not_fit(client, kind):
    fuzz, send = Fuzz(hash_of(kind)), Watched(client)
    for _ in range(BODIES_PER_KIND):
        body = fuzz.object_of(kind)
        await send("POST", path_of(kind), body)
        await send("PUT", path_of(kind, "a"), {**body, "x": 1} if isinstance(body, dict) else body)
        patch_type = fuzz.pick(sorted(PATCHES))
        patch = fuzz.json_patch() if patch_type == "json" else fuzz.object_of(kind)
        query = "?fieldManager=f&force=true" if patch_type == "apply" else ""
        await send("PATCH", path_of(kind, "a") + query, patch, PATCHES[patch_type])
        part = fuzz.pick([s for s in kind.subresources if "update" in s.verbs] or [None])
        if part is not None:
            await send("PUT", f"{path_of(kind, 'a')}/{part.name}", fuzz.object_of(kind))


def hash_of(kind: Kind) -> int:
    """A seed that does not depend on the process."""
    return sum(ord(c) * 31**n for n, c in enumerate(kind.resource)) % 2**32


BROKEN_BODIES = (
    b"", b"{", b"null", b"[]", b"5", b'"x"', b"\xff\xfe", b"k8s\0", b"k8s\0\xff\xff\xff\xff\x0f",
    b"a: b: c", b"{}" * 3,
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"metadata":{"name":"b"}}', b"[" * 5000,
    b'{"a":' * 2000,
)  # fmt: skip
CONTENT_TYPES = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "",
    *PATCHES.values(),
)  # fmt: skip


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
async def test_bodies_that_are_no_objects(client, content_type):
    send = Watched(client)
    await client("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}, "data": {"a": "1"}})
    one = "/api/v1/namespaces/default/configmaps/m"
    places = (("POST", one[:-2]), ("PUT", one), ("PATCH", f"{one}?fieldManager=f"), ("DELETE", f"{one}x"))
    for body in BROKEN_BODIES:
        for method, path in places:
            await send(method, path, body, content_type)


QUERIES = (
    "limit=-1", "limit=x", "continue=x", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "labelSelector=%21%21",
    "labelSelector=a%20in", "fieldSelector=spec.x%3D1", "fieldSelector=%3D", "resourceVersion=-1",
    "resourceVersion=x", "resourceVersion=99999999", "resourceVersionMatch=Exact",
    "resourceVersionMatch=No&resourceVersion=1", "timeoutSeconds=x", "watch=true&timeoutSeconds=1",
    "watch=true&resourceVersion=99999999&timeoutSeconds=1", "sendInitialEvents=true",
    "watch=true&sendInitialEvents=x&timeoutSeconds=1", "pretty=x", "dryRun=x", "fieldValidation=x",
    "propagationPolicy=x", "gracePeriodSeconds=x", "gracePeriodSeconds=-5", "fieldManager=" + "x" * 200,
    "fieldManager=%00", "force=x", "a=%ff", "container=%00", "tailLines=x", "sinceTime=x",
)  # fmt: skip
PATHS = (
    "/api/v1/pods", "/api/v1/namespaces/default/pods/x", "/api/v1/namespaces/default/pods/x/log",
    "/api/v1/nodes/worker-1", "/apis/apps/v1/deployments",
    "/apis/apps/v1/namespaces/default/deployments/x/scale", "/openapi/v3", "/apis", "/version",
    "/api/v1/namespaces//pods", "/api/v1/namespaces/default/pods/x/exec",
    "/api/v1/namespaces/default/pods/x/y/z", "//", "/api/v1/%00", "/apis/x/v1/y", "/api/v2/pods",
    "/apis/metrics.k8s.io/v1beta1/pods", "/apis/events.k8s.io/v1/events", "/api/v1/watch/pods",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_queries_that_make_no_sense(client, path):
    send = Watched(client)
    for query in QUERIES:
        for method in ("GET", "DELETE", "POST", "PATCH", "PUT"):
            if method == "GET" or "watch=true" not in query:
                await send(method, f"{path}?{query}", None if method == "GET" else {}, "application/json")
