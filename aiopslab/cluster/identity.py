"""The agent's own identity: what an on-call engineer of one application may do, and no more.

Made over the Kubernetes API, so it is the same on every cluster: a ServiceAccount in the lab's namespace, a
Role in the application's, a small ClusterRole, and a kubeconfig with a requested token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from aiopslab.kube.client import Kube

LAB_NAMESPACE = "lab-system"
ACCOUNT = "oncall"
TOKEN_LIFETIME_S = 12 * 3600

READ = ["get", "list", "watch"]
WRITE = [*READ, "create", "update", "patch", "delete", "deletecollection"]

# An engineer on call for one application: reads everything in its namespace, changes workloads and their
# configuration, opens a shell in its pods. No RBAC writes: the role must not be able to grow.
NAMESPACE_RULES: list[dict[str, Any]] = [
    {
        "apiGroups": [""],
        "resources": [
            "configmaps",
            "secrets",
            "services",
            "pods",
            "persistentvolumeclaims",
            "serviceaccounts",
            "endpoints",
        ],
        "verbs": WRITE,
    },
    {
        "apiGroups": [""],
        "resources": [
            "events",
            "limitranges",
            "resourcequotas",
            "replicationcontrollers",
            "pods/log",
            "pods/status",
        ],
        "verbs": READ,
    },
    {"apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward"], "verbs": ["get", "create"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["get", "update", "patch"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"],
        "verbs": WRITE,
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments/scale", "replicasets/scale", "statefulsets/scale"],
        "verbs": ["get", "update", "patch"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": WRITE},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": WRITE},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": WRITE},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies", "ingresses"], "verbs": WRITE},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": READ},
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": READ},
    {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": READ},
]


# A command without a namespace goes to ``default``, which is empty but for the API server's own Service.
ELSEWHERE = "default"
ELSEWHERE_RULES: list[dict[str, Any]] = [
    {
        "apiGroups": [""],
        "resources": [
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
            "replicationcontrollers",
            "services",
        ],
        "verbs": READ,
    },
    {
        "apiGroups": ["apps"],
        "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"],
        "verbs": READ,
    },
    {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"], "verbs": READ},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": READ},
]


def cluster_rules(namespace: str) -> list[dict[str, Any]]:
    """What the agent may see outside its namespace: nodes and storage, and that its namespace exists."""
    return [
        {"apiGroups": [""], "resources": ["nodes", "persistentvolumes"], "verbs": READ},
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [namespace], "verbs": ["get"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": READ},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": READ},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": READ},
    ]


def manifests(namespace: str) -> list[dict[str, Any]]:
    """The objects that make up the identity for one application namespace, in order of creation.

    The account and both bindings carry the application namespace in their names, so that several
    applications on one cluster do not share an identity.
    """
    name = f"{ACCOUNT}-{namespace}"
    group = "rbac.authorization.k8s.io"
    places = [(namespace, ACCOUNT, NAMESPACE_RULES)]
    if namespace != ELSEWHERE:
        places.append((ELSEWHERE, name, ELSEWHERE_RULES))
    subject = {"kind": "ServiceAccount", "name": name, "namespace": LAB_NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LAB_NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": LAB_NAMESPACE}},
        *(one for place in places for one in _role(group, *place, subject)),
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": cluster_rules(namespace),
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]


def _role(
    group: str, namespace: str, name: str, rules: list[dict[str, Any]], subject: dict[str, Any]
) -> list[dict[str, Any]]:
    """A Role and the binding that gives it to ``subject``, both called ``name``."""
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": name, "namespace": namespace}}
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    return [
        {**about, "kind": "Role", "rules": rules},
        {**about, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


async def agent_kubeconfig(kube: Kube, namespace: str, path: Path) -> Path:
    """Create the identity for ``namespace`` (which must exist) and write its kubeconfig to ``path``. Its context
    has no namespace: commands say which one they mean.

    The server address and CA are those of the lab's own kubeconfig. Safe to call again.
    """
    for manifest in manifests(namespace):
        await kube.apply(manifest)
    name = f"{ACCOUNT}-{namespace}"
    token = await kube.token(LAB_NAMESPACE, name, TOKEN_LIFETIME_S)
    cluster = _cluster_entry(kube.kubeconfig)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": ACCOUNT, "context": {"cluster": "cluster", "user": ACCOUNT}}],
        "current-context": ACCOUNT,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


async def remove_identity(kube: Kube, namespace: str) -> None:
    """Delete what ``agent_kubeconfig`` made for ``namespace``; absent objects are fine."""
    for manifest in reversed(manifests(namespace)):
        if manifest["kind"] != "Namespace":
            await kube.delete_manifest(manifest)


def _cluster_entry(kubeconfig: Path) -> dict[str, Any]:
    config = yaml.safe_load(kubeconfig.read_text())
    contexts = {c["name"]: c["context"] for c in config["contexts"]}
    clusters = {c["name"]: c["cluster"] for c in config["clusters"]}
    entry: dict[str, Any] = clusters[contexts[config["current-context"]]["cluster"]]
    return entry
