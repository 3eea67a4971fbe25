"""Role-based access control: who may do what, read from the stored roles and bindings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiopslab.sim.core.apierrors import ApiError, forbidden, status_error
from aiopslab.sim.core.kinds import Kind
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.store import Key, Store

Obj = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"{GROUP}/roles", f"{GROUP}/clusterroles"
BINDINGS, CLUSTER_BINDINGS = f"{GROUP}/rolebindings", f"{GROUP}/clusterrolebindings"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Action:
    """What is asked for: a resource request, or a path when ``path`` is set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Rbac:
    """Evaluates the roles and bindings in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def allows(self, user: Principal, action: Action) -> bool:
        """Whether any rule of the user's roles covers the action."""
        return self.why(user, action) is not None

    def why(self, user: Principal, action: Action) -> str | None:
        """The sentence that names the binding which allows it (``""`` for masters), or None."""
        if MASTERS in user.groups:
            return ""
        for rule, source in self._rules(user, action.namespace):
            if covers(rule, action):
                return source
        return None

    def rules(self, user: Principal, namespace: str) -> list[Obj]:
        """All rules that hold for the user in a namespace, cluster-wide ones first."""
        if MASTERS in user.groups:
            return [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
                *(rule for rule, _ in self._rules(user, namespace)),
            ]
        return [rule for rule, _ in self._rules(user, namespace)]

    def role_rules(self, role: Obj, namespace: str) -> list[Obj] | None:
        """Rules behind a ``roleRef``; None when the role does not exist."""
        cluster = role.get("kind") == "ClusterRole"
        key = Key(CLUSTER_ROLES, "", role["name"]) if cluster else Key(ROLES, namespace, role["name"])
        found = self._store.get(key)
        if found is None:
            return None
        if cluster and found.get("aggregationRule"):
            return self._aggregated(found)
        return found.get("rules") or []

    def _aggregated(self, role: Obj) -> list[Obj]:
        rules: list[Obj] = []
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or []:
            wanted = (selector.get("matchLabels") or {}).items()
            for other in self._store.list(CLUSTER_ROLES):
                if wanted <= (other["metadata"].get("labels") or {}).items() and other is not role:
                    rules += other.get("rules") or []
        return rules

    def _rules(self, user: Principal, namespace: str) -> Iterator[tuple[Obj, str]]:
        for binding in self._store.list(CLUSTER_BINDINGS):
            if subject := _subject_of(user, binding, ""):
                for rule in self.role_rules(binding["roleRef"], "") or []:
                    yield rule, _reason("ClusterRoleBinding", binding, subject, "")
        if not namespace:
            return
        for binding in self._store.list(BINDINGS, namespace):
            if subject := _subject_of(user, binding, namespace):
                for rule in self.role_rules(binding["roleRef"], namespace) or []:
                    yield rule, _reason("RoleBinding", binding, subject, namespace)

    # Escalation -----------------------------------------------------------------------------------------

    def check_escalation(self, kind: Kind, new: Obj, old: Obj | None, user: Principal | None) -> None:
        """Refuse roles and bindings that grant what ``user`` does not hold. Raises 403."""
        if user is None or kind.group != GROUP or MASTERS in user.groups:
            return
        namespace = new["metadata"].get("namespace", "")
        name = new["metadata"].get("name", "")
        if kind.plural in ("roles", "clusterroles"):
            if old is not None and old.get("rules") == new.get("rules"):
                return
            if self.allows(user, Action("escalate", GROUP, kind.plural, "", namespace, name)):
                return
            rules = new.get("rules") or []
        else:
            role = new.get("roleRef") or {}
            plural = "clusterroles" if role.get("kind") == "ClusterRole" else "roles"
            if self.allows(user, Action("bind", GROUP, plural, "", namespace, role.get("name", ""))):
                return
            found = self.role_rules(role, namespace)
            if found is None:
                group = f"{plural}.{GROUP}"
                raise status_error("NotFound", f'{group} "{role.get("name", "")}" not found',
                                   {"name": role.get("name", ""), "group": GROUP, "kind": plural})  # fmt: skip
            rules = found
        held = self.rules(user, namespace)
        missing = [r for r in rules if not all(_held(piece, held) for piece in _pieces(r))]
        if missing:
            raise _escalation(kind, name, user, missing)


def covers(rule: Obj, action: Action) -> bool:
    """Whether one PolicyRule allows an action."""
    verbs = rule.get("verbs") or []
    if action.verb not in verbs and "*" not in verbs:
        return False
    if action.path:
        return any(_path_matches(p, action.path) for p in rule.get("nonResourceURLs") or [])
    groups = rule.get("apiGroups") or []
    if action.group not in groups and "*" not in groups:
        return False
    resources = rule.get("resources") or []
    wanted = {"*", action.full_resource}
    if action.subresource:
        wanted.add(f"*/{action.subresource}")
    if not wanted.intersection(resources):
        return False
    names = rule.get("resourceNames") or []
    return not names or action.name in names


def forbidden_error(user: Principal, action: Action, kind: Kind | None) -> ApiError:
    """The server's 403 for an action that no rule allows."""
    who = f'User "{user.username}"'
    if action.path:
        message = f'forbidden: {who} cannot {action.verb} path "{action.path}"'
        return status_error("Forbidden", message, {})
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    why = f'{who} cannot {action.verb} resource "{action.full_resource}" in API group "{action.group}" {where}'
    shown = kind or Kind(action.group, "", "", action.resource, "")
    return forbidden(shown, action.name, why)


def _subject_of(user: Principal, binding: Obj, namespace: str) -> str:
    """The text of the first subject that is the user, or ``""``."""
    for subject in binding.get("subjects") or []:
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "User" and user.username == name:
            return f'User "{name}"'
        if kind == "Group" and name in user.groups:
            return f'Group "{name}"'
        where = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and user.username == f"system:serviceaccount:{where}:{name}":
            return f'ServiceAccount "{name}/{where}"'
    return ""


def _reason(kind: str, binding: Obj, subject: str, namespace: str) -> str:
    name = binding["metadata"]["name"]
    label = f"{name}/{namespace}" if namespace else name
    role = binding["roleRef"]
    return f'RBAC: allowed by {kind} "{label}" of {role.get("kind")} "{role.get("name")}" to {subject}'


def _path_matches(pattern: str, path: str) -> bool:
    if pattern == "*" or pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def _pieces(rule: Obj) -> Iterator[Obj]:
    """A rule as rules of one verb, group, resource and name each."""
    verbs = rule.get("verbs") or []
    for verb in verbs:
        for path in rule.get("nonResourceURLs") or []:
            yield {"verbs": [verb], "nonResourceURLs": [path]}
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                for name in rule.get("resourceNames") or [""]:
                    piece: Obj = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
                    yield piece | ({"resourceNames": [name]} if name else {})


def _held(piece: Obj, held: list[Obj]) -> bool:
    if "nonResourceURLs" in piece:
        action = Action(piece["verbs"][0], path=piece["nonResourceURLs"][0])
        return any(covers(rule, action) for rule in held)
    resource, _, subresource = piece["resources"][0].partition("/")
    name = (piece.get("resourceNames") or [""])[0]
    action = Action(piece["verbs"][0], piece["apiGroups"][0], resource, subresource, name=name)
    return any(covers(rule, action) for rule in held)


def _escalation(kind: Kind, name: str, user: Principal, missing: list[Obj]) -> ApiError:
    listed = "\n".join(_rule_text(piece) for rule in missing for piece in [_compact(rule)])
    groups = " ".join(f'"{g}"' for g in user.groups)
    why = (
        f'user "{user.username}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
        f"{listed}"
    )
    return forbidden(kind, name, why)


def _compact(rule: Obj) -> Obj:
    return {
        k: rule[k] for k in ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs") if rule.get(k)
    }


def _rule_text(rule: Obj) -> str:
    labels = {"apiGroups": "APIGroups", "resources": "Resources", "resourceNames": "ResourceNames",
              "nonResourceURLs": "NonResourceURLs", "verbs": "Verbs"}  # fmt: skip
    parts = []
    for key, values in rule.items():
        quoted = ",".join(f'"{v}"' for v in values)
        parts.append(f"{labels[key]}:[{quoted}]")
    return "{" + ", ".join(parts) + "}"
