"""Roles and bindings that a fresh cluster has."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
DISCOVERY_PATHS = [
    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
    "/version", "/version/", "/.well-known", "/.well-known/*",
]  # fmt: skip
PUBLIC_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_CORE = [
    "configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods",
    "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services", "services/status",
]  # fmt: skip
_CORE_VIEW = [
    "bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status",
    "replicationcontrollers/status", "resourcequotas", "resourcequotas/status", "namespaces",
]  # fmt: skip
_APPS = [
    "daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets",
    "statefulsets/scale",
]  # fmt: skip
_APPS_VIEW = [
    "controllerrevisions",
    "daemonsets/status",
    "deployments/status",
    "replicasets/status",
    "statefulsets/status",
]


def bootstrap_objects() -> list[tuple[str, Obj]]:
    """``(resource, object)`` of the default ClusterRoles and ClusterRoleBindings."""
    roles = {
        "cluster-admin": [_rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "system:discovery": [{"verbs": ["get"], "nonResourceURLs": DISCOVERY_PATHS}],
        "system:public-info-viewer": [{"verbs": ["get"], "nonResourceURLs": PUBLIC_PATHS}],
        "system:basic-user": [
            _rule(["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
            _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
        ],
        "view": _view(),
        "edit": _edit(),
        "admin": _admin(),
        "system:monitoring": [
            {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/metrics/slis", "/livez", "/livez/*", "/readyz",
                                                   "/readyz/*", "/healthz", "/healthz/*"]},
        ],
    }  # fmt: skip
    bindings = {
        "cluster-admin": ["system:masters"],
        "system:discovery": ["system:authenticated"],
        "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
        "system:basic-user": ["system:authenticated"],
        "system:monitoring": ["system:monitoring"],
    }
    group = "rbac.authorization.k8s.io"
    found = [(f"{group}/clusterroles", _role(name, rules)) for name, rules in roles.items()]
    return found + [(f"{group}/clusterrolebindings", _binding(name, groups)) for name, groups in bindings.items()]


def _view() -> list[Obj]:
    return [
        _rule([""], [*_CORE, *_CORE_VIEW], READ),
        _rule(["discovery.k8s.io"], ["endpointslices"], READ),
        _rule(["apps"], [*_APPS, *_APPS_VIEW], READ),
        _rule(["autoscaling"], ["horizontalpodautoscalers", "horizontalpodautoscalers/status"], READ),
        _rule(["batch"], ["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
        _rule(["policy"], ["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
        _rule(["networking.k8s.io"], ["ingresses", "ingresses/status", "networkpolicies"], READ),
    ]


def _edit() -> list[Obj]:
    return [
        *_view(),
        _rule(
            [""], ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"], READ
        ),
        _rule([""], ["serviceaccounts"], ["impersonate"]),
        _rule([""], ["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], WRITE),
        _rule([""], ["pods/eviction"], ["create"]),
        _rule([""], [r for r in [*_CORE, "events", "secrets", "services/proxy"] if r != "pods"], WRITE),
        _rule([""], ["serviceaccounts/token"], ["create"]),
        _rule(["apps"], [*_APPS, "deployments/rollback"], WRITE),
        _rule(["autoscaling"], ["horizontalpodautoscalers"], WRITE),
        _rule(["batch"], ["cronjobs", "jobs"], WRITE),
        _rule(["policy"], ["poddisruptionbudgets"], WRITE),
        _rule(["networking.k8s.io"], ["ingresses", "networkpolicies"], WRITE),
        _rule(["coordination.k8s.io"], ["leases"], [*READ, *WRITE]),
    ]


def _admin() -> list[Obj]:
    return [
        *_edit(),
        _rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
        _rule(["rbac.authorization.k8s.io"], ["rolebindings", "roles"], [*READ, *WRITE]),
    ]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Obj:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _role(name: str, rules: list[Obj]) -> Obj:
    return {"metadata": _meta(name), "rules": rules}


def _binding(name: str, groups: list[str]) -> Obj:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": _meta(name),
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "Group", "apiGroup": group, "name": g} for g in groups],
    }


def _meta(name: str) -> Obj:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
