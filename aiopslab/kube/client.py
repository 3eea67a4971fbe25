"""The lab's Kubernetes client: dicts in, dicts out, over ``kubernetes.aio``.

Only the transport of the client library is used (configuration, authentication, TLS, connection pool). Its typed
models are not: they drop unknown fields, and faults and graders must see objects as the server has them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlencode

import aiohttp
import yaml
from kubernetes.aio import client as aio_client
from kubernetes.aio import config as aio_config

from aiopslab.kube.errors import UNREACHABLE, KubeError, error_from
from aiopslab.kube.resources import SNAPSHOT_RESOURCES, ResourceType, split_api_version, split_resource
from aiopslab.record import Snapshot

Obj = dict[str, Any]
Objs = list[Obj]  # `list` is a method below
PatchType = Literal["json", "merge", "strategic"]

REQUEST_TIMEOUT_WALL_S = 60
LIST_PAGE_OBJECTS = 500
# Shows up as the owner of changed fields, so it must say nothing about the lab.
FIELD_MANAGER = "kubectl"
USER_AGENT = "kubectl"

_PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Kube:
    """A connection to one cluster with the identity of ``kubeconfig``. Use as an async context manager.

    ``resource`` arguments are resource strings (``kube.resources``). Every method raises KubeError.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = Path(kubeconfig)
        self._api: Any = None
        self._types: dict[tuple[str, str], dict[str, ResourceType]] = {}

    async def __aenter__(self) -> Kube:
        configuration = aio_client.Configuration()
        try:
            self.kubeconfig.stat()  # the library prints to the terminal about a file that is not there
            await aio_config.load_kube_config(
                config_file=str(self.kubeconfig), client_configuration=configuration, persist_config=False
            )
        except (aio_config.ConfigException, yaml.YAMLError, OSError, KeyError, TypeError, ValueError) as error:
            cause = " ".join(str(error).split())
            message = f"kubeconfig {self.kubeconfig} cannot be used: {cause}; check --kubeconfig"
            raise KubeError(0, "BadKubeconfig", message) from error
        configuration.client_session_kwargs = {"trust_env": False}
        self._api = aio_client.ApiClient(configuration)
        self._api.user_agent = USER_AGENT
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._api is not None:
            await self._api.close()
            self._api = None

    # -- reading

    async def get(self, resource: str, namespace: str, name: str) -> Obj:
        """One object; KubeError with ``not_found`` when it does not exist."""
        path = (await self.resource_type(resource)).path(namespace, name)
        return await self.request("GET", path)

    async def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        """``get`` that answers None for an object that does not exist."""
        try:
            return await self.get(resource, namespace, name)
        except KubeError as error:
            if error.not_found:
                return None
            raise

    async def list(
        self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Objs:
        """Objects of a namespace (None: of all), in the server's order, with apiVersion and kind filled in."""
        kind = await self.resource_type(resource)
        query = {"limit": str(LIST_PAGE_OBJECTS), "labelSelector": labels, "fieldSelector": fields}
        found: Objs = []
        while True:
            page = await self.request("GET", kind.path(namespace or ""), query=query)
            head = {"apiVersion": page.get("apiVersion", ""), "kind": kind.kind}
            found += [{**head, **item} for item in page.get("items") or []]
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return found

    async def list_all(self, namespace: str, at_s: float = 0.0) -> Snapshot:
        """Every object of a namespace at one moment, as a record keeps it.

        managedFields are removed; values of Secrets are replaced by digests, so that a change shows and the
        value does not. ``at_s`` is stored with it. Resources that the cluster does not serve are left out.
        """
        rows = await asyncio.gather(*(self._list_served(resource, namespace) for resource in SNAPSHOT_RESOURCES))
        objects = {
            name: [_cleaned(obj) for obj in row]
            for name, row in zip(SNAPSHOT_RESOURCES, rows, strict=True)
            if row is not None
        }
        return Snapshot(at_s=at_s, objects=objects)

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        since_s: int | None = None,
        tail: int | None = None,
        previous: bool = False,
    ) -> str:
        """Log text of a container, each line beginning with its RFC 3339 time."""
        query = {
            "container": container,
            "sinceSeconds": "" if since_s is None else str(since_s),
            "tailLines": "" if tail is None else str(tail),
            "previous": "true" if previous else "",
            "timestamps": "true",
        }
        path = (await self.resource_type("pods")).path(namespace, pod, "log")
        return await self.request_text("GET", path, query=query)

    async def server_version(self) -> str:
        """The server's version, such as ``v1.32.0``."""
        return str((await self.request("GET", "/version")).get("gitVersion", ""))

    async def serves(self, api_version: str) -> bool:
        """Whether the cluster serves a group and version such as ``chaos-mesh.org/v1alpha1``."""
        try:
            await self._served_types(*split_api_version(api_version))
        except KubeError as error:
            if error.not_found:
                return False
            raise
        return True

    # -- writing

    async def create(self, resource: str, namespace: str, obj: Obj) -> Obj:
        """Create; KubeError with reason ``AlreadyExists`` when the name is taken."""
        path = (await self.resource_type(resource)).path(namespace)
        return await self.request("POST", path, query={"fieldManager": FIELD_MANAGER}, body=obj)

    async def replace(self, resource: str, namespace: str, name: str, obj: Obj) -> Obj:
        """Replace the whole object; reason ``Conflict`` when its resourceVersion is old."""
        path = (await self.resource_type(resource)).path(namespace, name)
        return await self.request("PUT", path, query={"fieldManager": FIELD_MANAGER}, body=obj)

    async def patch(
        self, resource: str, namespace: str, name: str, patch: Any, *, type: PatchType = "merge"
    ) -> Obj:
        """Patch; ``patch`` is a list of operations for ``json``, else an object."""
        path = (await self.resource_type(resource)).path(namespace, name)
        query = {"fieldManager": FIELD_MANAGER}
        return await self.request("PATCH", path, query=query, body=patch, content_type=_PATCH_TYPES[type])

    async def apply(self, manifest: Obj) -> Obj:
        """Server-side apply, taking over fields that others own."""
        kind = await self._type_of(manifest)
        metadata = manifest["metadata"]
        path = kind.path(metadata.get("namespace", ""), metadata["name"])
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self.request("PATCH", path, query=query, body=manifest, content_type=_PATCH_TYPES["apply"])

    async def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> bool:
        """Delete; False when it did not exist. Does not wait until it is gone."""
        path = (await self.resource_type(resource)).path(namespace, name)
        return await self._delete(path, propagation, grace_s)

    async def delete_manifest(self, manifest: Obj) -> bool:
        """Delete the object that a manifest names; False when it (or its kind) did not exist."""
        try:
            kind = await self._type_of(manifest)
        except KubeError as error:
            if error.not_found:
                return False
            raise
        metadata = manifest["metadata"]
        return await self._delete(kind.path(metadata.get("namespace", ""), metadata["name"]), "Background", None)

    async def token(self, namespace: str, account: str, lifetime_s: int) -> str:
        """A bearer token of a ServiceAccount."""
        path = (await self.resource_type("serviceaccounts")).path(namespace, account, "token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": lifetime_s, "audiences": []},
        }
        return str((await self.request("POST", path, body=body))["status"]["token"])

    # -- discovery and transport

    async def resource_type(self, resource: str) -> ResourceType:
        """What the cluster knows about a resource string; KubeError 404 when it does not serve it."""
        group, plural = split_resource(resource)
        found = await self._served_types(group, await self._preferred_version(group))
        if plural not in found:
            raise KubeError(404, "NotFound", f"the server does not have the resource {resource!r}")
        return found[plural]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Obj:
        """One request with a JSON answer. Empty query values are left out."""
        text = await self.request_text(method, path, query=query, body=body, content_type=content_type)
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            raise KubeError(0, "BadAnswer", f"not JSON: {text[:200]!r}", f"{method} {path}") from None
        return answer if isinstance(answer, dict) else {"items": answer}

    async def request_text(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> str:
        """One request with its answer as text."""
        if self._api is None:
            raise RuntimeError("Kube is an async context manager: use `async with Kube(kubeconfig) as kube`")
        shown = f"{method} {path}"
        wanted = {key: value for key, value in (query or {}).items() if value}
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            call = await self._api.param_serialize(
                method,
                f"{path}?{urlencode(wanted)}" if wanted else path,
                header_params=headers,
                auth_settings=["BearerToken"],
            )
            _, url, sent_headers, _, _ = call
            answer = await self._api.rest_client.request(
                method, url, headers=sent_headers, body=body, _request_timeout=REQUEST_TIMEOUT_WALL_S
            )
            data = await answer.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            message = f"the API server of {self.kubeconfig} does not answer: {error or type(error).__name__}"
            raise KubeError(0, UNREACHABLE, message, shown) from error
        text: str = data.decode("utf-8", "replace")
        if answer.status >= 400:
            raise error_from(answer.status, _parsed(text), shown)
        return text

    async def _delete(self, path: str, propagation: str, grace_s: int | None) -> bool:
        options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self.request("DELETE", path, body=options)
        except KubeError as error:
            if error.not_found:
                return False
            raise
        return True

    async def _list_served(self, resource: str, namespace: str) -> Objs | None:
        try:
            return await self.list(resource, namespace)
        except KubeError as error:
            if error.not_found:
                return None
            raise

    async def _type_of(self, manifest: Obj) -> ResourceType:
        group, version = split_api_version(manifest["apiVersion"])
        for found in (await self._served_types(group, version)).values():
            if found.kind == manifest["kind"]:
                return found
        message = f"no matches for kind {manifest['kind']!r} in version {manifest['apiVersion']!r}"
        raise KubeError(404, "NotFound", message)

    async def _preferred_version(self, group: str) -> str:
        known = [version for known_group, version in self._types if known_group == group]
        if known:
            return known[0]
        if not group:
            return "v1"
        answer = await self.request("GET", f"/apis/{group}")
        return str(answer["preferredVersion"]["version"])

    async def _served_types(self, group: str, version: str) -> dict[str, ResourceType]:
        if (group, version) not in self._types:
            answer = await self.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
            rows = [row for row in answer.get("resources") or [] if "/" not in row["name"]]
            types = [ResourceType(group, version, row["name"], row["kind"], row["namespaced"]) for row in rows]
            self._types[group, version] = {found.plural: found for found in types}
        return self._types[group, version]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _cleaned(obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    cleaned = {**obj, "metadata": metadata}
    if obj.get("kind") == "Secret":
        for name in ("data", "stringData"):
            if name in cleaned:
                cleaned[name] = {key: _digest(value) for key, value in sorted((obj[name] or {}).items())}
    return cleaned


def _digest(value: str) -> str:
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()
