"""What the subresources of the API do: scale, eviction, binding, token, ephemeral containers."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.apierrors import Cause, bad_request, conflict, invalid, not_found, too_many_requests
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.options import DeleteOptions, WriteOptions
from aiopslab.sim.core.patch import clone
from aiopslab.sim.core.patching import patched
from aiopslab.sim.core.selectors import from_label_selector, selector_text
from aiopslab.sim.core.store import Key
from aiopslab.sim.core.tokens import DEFAULT_LIFETIME_S, ISSUER

Obj = dict[str, Any]

SCALE = Kind("autoscaling", "v1", "Scale", "scales", "scale")
TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", "tokenrequest")
TOKEN_LIFETIME_LEAST_S = 600
TOKEN_LIFETIME_MOST_S = 1 << 32
PDBS = "policy/poddisruptionbudgets"


# Scale ---------------------------------------------------------------------------------------------------


def scale_of(kind: Kind, obj: Obj) -> Obj:
    """The autoscaling/v1 Scale of an object that has the subresource."""
    spec_path, status_path, selector_path = _scale_paths(kind)
    meta = obj["metadata"]
    shown = {k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if k in meta}
    replicas = _at(obj, spec_path)
    scale: Obj = {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": _at(obj, status_path) or 0},
    }  # fmt: skip
    if kind.crd is None:
        selector = obj["spec"].get("selector")
        text = selector_text(selector if kind.group else {"matchLabels": selector or {}})
    else:
        text = str(_at(obj, selector_path) or "")
    if text:
        scale["status"]["selector"] = text
    return scale


def update_scale(api: Api, kind: Kind, obj: Obj, scale: Obj, opts: WriteOptions) -> Obj:
    """Carry a changed Scale over to the object; returns the new Scale."""
    name = obj["metadata"]["name"]
    own = (scale.get("metadata") or {}).get("name") or name
    if own != name:
        raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if wanted < 0:
        message = f"Invalid value: {wanted}: must be greater than or equal to 0"
        raise invalid(("Scale", "autoscaling"), name, [Cause("FieldValueInvalid", message, "spec.replicas")])
    version = (scale.get("metadata") or {}).get("resourceVersion", "")
    if version and version != obj["metadata"]["resourceVersion"]:
        raise conflict(kind, name)
    new = clone(obj)
    _put_at(new, _scale_paths(kind)[0], wanted)
    return scale_of(kind, api.update(kind.resource, obj["metadata"].get("namespace", ""), name, new, opts, "scale"))


def patch_scale(api: Api, kind: Kind, obj: Obj, patch: tuple[str, Any], opts: WriteOptions) -> Obj:
    """Patch the Scale of an object: ``patch`` is ``(type, body)``."""
    current = scale_of(kind, obj)
    current["spec"].setdefault("replicas", 0)
    patch_type, body = patch
    if patch_type == "apply":
        patch_type = "merge"
    new = patched(SCALE, current, "merge" if patch_type == "strategic" else patch_type, body)
    return update_scale(api, kind, obj, new, opts)


def _scale_paths(kind: Kind) -> tuple[str, str, str]:
    if kind.crd is None:
        return ".spec.replicas", ".status.replicas", ""
    paths = kind.crd["subresources"]["scale"]
    return paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath", "")


def _at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put_at(obj: Obj, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value


# Pods ----------------------------------------------------------------------------------------------------


def bind(api: Api, namespace: str, name: str, binding: Obj, opts: WriteOptions) -> None:
    """Put a pod on a node. Raises Conflict when it already is on one."""
    kind = api.kind("pods")
    pod = api.get("pods", namespace, name)
    target = (binding.get("target") or {}).get("name", "")
    if not target:
        cause = Cause("FieldValueRequired", "Required value", "target.name")
        raise invalid(("Binding", ""), name, [cause])
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(kind, name, f"pod {name} is being deleted, cannot be assigned to a host")
    current = pod["spec"].get("nodeName")
    if current:
        raise conflict(kind, name, f'pod {name} is already assigned to node "{current}"')
    condition = {
        "type": "PodScheduled", "status": "True", "lastProbeTime": None,
        "lastTransitionTime": api.kernel.timestamp(), "observedGeneration": pod["metadata"].get("generation", 1),
    }  # fmt: skip
    status = pod.get("status") or {}
    others = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
    new = {
        **pod,
        "spec": {**pod["spec"], "nodeName": target},
        "status": {**status, "conditions": [*others, condition]},
    }
    if not opts.dry_run:
        api.store.put(Key("pods", namespace, name), new)


def evict(api: Api, namespace: str, name: str, opts: DeleteOptions) -> None:
    """Delete a pod unless a PodDisruptionBudget forbids it (429)."""
    pod = api.get("pods", namespace, name)
    status = pod.get("status") or {}
    finished = status.get("phase") in ("Succeeded", "Failed", "Pending")
    if not finished and not pod["metadata"].get("deletionTimestamp"):
        budgets = _budgets(api, pod)
        if len(budgets) > 1:
            raise too_many_requests(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        for budget in budgets:
            _use_budget(api, budget, name, opts.dry_run)
    api.delete("pods", namespace, name, opts)


def _budgets(api: Api, pod: Obj) -> list[Obj]:
    labels = pod["metadata"].get("labels")
    found = []
    for budget in api.list(PDBS, pod["metadata"]["namespace"]):
        selector = from_label_selector((budget.get("spec") or {}).get("selector"))
        if selector is not None and selector.matches(labels):
            found.append(budget)
    return found


def _use_budget(api: Api, budget: Obj, pod: str, dry_run: bool) -> None:
    status, meta = budget.get("status") or {}, budget["metadata"]
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        cause = Cause(
            "DisruptionBudget", f"The disruption budget {meta['name']} is still being processed by the server.", ""
        )
        raise _refused([cause])
    if status.get("disruptionsAllowed", 0) <= 0:
        text = (
            f"The disruption budget {meta['name']} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
        raise _refused([Cause("DisruptionBudget", text, "")])
    if dry_run:
        return
    disrupted = {**(status.get("disruptedPods") or {}), pod: api.kernel.timestamp()}
    new = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
    api.put_status(Key(PDBS, meta["namespace"], meta["name"]), new, "kube-apiserver")


def _refused(causes: list[Cause]) -> Exception:
    error = too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.")
    error.status["details"]["causes"] = [{"reason": c.reason, "message": c.message} for c in causes]
    return error


# ServiceAccount tokens -----------------------------------------------------------------------------------


def request_token(api: Api, namespace: str, name: str, request: Obj) -> Obj:
    """Answer a TokenRequest. Raises NotFound or 422."""
    account = api.store.get(Key("serviceaccounts", namespace, name))
    if account is None:
        raise not_found(api.kind("serviceaccounts"), name)
    spec = dict(request.get("spec") or {})
    lifetime_s = spec.get("expirationSeconds") or DEFAULT_LIFETIME_S
    if not TOKEN_LIFETIME_LEAST_S <= lifetime_s <= TOKEN_LIFETIME_MOST_S:
        short = lifetime_s < TOKEN_LIFETIME_LEAST_S
        why = (
            "may not specify a duration less than 10 minutes"
            if short
            else "may not specify a duration larger than 2^32 seconds"
        )
        cause = Cause("FieldValueInvalid", f"Invalid value: {lifetime_s}: {why}", "spec.expirationSeconds")
        raise invalid(("TokenRequest", "authentication.k8s.io"), "", [cause])
    audiences = list(spec.get("audiences") or [ISSUER])
    token, expires = api.tokens.issue(account, lifetime_s, audiences)
    answer: Obj = {
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": api.kernel.timestamp()},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": lifetime_s},
        "status": {"token": token, "expirationTimestamp": expires},
    }  # fmt: skip
    answer["spec"].setdefault("boundObjectRef", None)
    return answer
