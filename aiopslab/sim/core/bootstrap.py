"""What a fresh cluster contains before anybody uses it: nodes, namespaces, Services, add-ons.

``bare`` gives a cluster of plain nodes without add-ons, three unless told otherwise; otherwise as many workers
with a control-plane node, cluster DNS and metrics-server, as a kind cluster has after its creation.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.core import apiservices
from aiopslab.sim.core.api import Api, WriteOptions
from aiopslab.sim.core.controllers.volumes import LOCAL_PROVISIONER
from aiopslab.sim.core.kubelet.agent import machine_id
from aiopslab.sim.core.kubelet.heartbeat import healthy_conditions
from aiopslab.sim.core.store import Key, Obj
from aiopslab.sim.core.version import KUBERNETES_VERSION

WORKERS = 3
CLUSTER_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
SERVICE_CIDR = "10.96.0.0/16"
API_ADDRESS, DNS_ADDRESS = "10.96.0.1", "10.96.0.10"
API_PORT = 6443
CONTROL_PLANE = "control-plane"
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
PRIORITY_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if"
        " necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)
COREDNS_IMAGE = "registry.k8s.io/coredns/coredns:v1.14.2"
METRICS_IMAGE = "registry.k8s.io/metrics-server/metrics-server:v0.8.1"
COREFILE = """\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
"""
SYSTEM = WriteOptions(manager="kubeadm")


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to make. ``index`` picks its addresses: 172.18.0.<index + 2>, pods 10.244.<index>.0/24."""

    name: str
    index: int
    labels: dict[str, str]
    taints: tuple[Obj, ...] = ()
    detailed: bool = True


def bootstrap(api: Api, bare: bool = False, workers: int = WORKERS) -> None:
    """Fill an empty cluster. Call it after the controllers are registered, then ``kernel.settle()``."""
    for name in CLUSTER_NAMESPACES:
        api.create("namespaces", "", {"metadata": {"name": name}}, SYSTEM)
    for name, value, text in PRIORITY_CLASSES:
        _priority_class(api, name, value, text)
    for plan in _bare_nodes(workers) if bare else _nodes(workers):
        create_node(api, plan)
    _api_service(api)
    if not bare:
        _storage_class(api)
        _cluster_dns(api)
        _metrics_server(api)


def _bare_nodes(count: int) -> list[NodePlan]:
    return [NodePlan(f"node-{number}", number, {}, detailed=False) for number in range(1, count + 1)]


def _nodes(workers: int) -> list[NodePlan]:
    taint = {"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"}
    exclude = "node.kubernetes.io/exclude-from-external-load-balancers"
    plans = [NodePlan(CONTROL_PLANE, 0, {CONTROL_PLANE_LABEL: "", exclude: ""}, (taint,))]
    return plans + [NodePlan(f"worker-{number}", number, {}) for number in range(1, workers + 1)]


def create_node(api: Api, plan: NodePlan) -> None:
    """Add a node that a virtual kubelet serves."""
    now, ids = api.kernel.timestamp(), api.kernel.ids
    standard = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": plan.name,
        "kubernetes.io/os": "linux",
    }
    capacity = {"cpu": "4", "ephemeral-storage": "100Gi", "memory": "8Gi", "pods": "110"}
    if plan.detailed:
        capacity |= {"hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    status = {
        "addresses": [
            {"type": "InternalIP", "address": f"172.18.0.{plan.index + 2}"},
            {"type": "Hostname", "address": plan.name},
        ],
        "allocatable": capacity,
        "capacity": capacity,
        "conditions": healthy_conditions(now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": ids.uid("boot", plan.name),
            "containerRuntimeVersion": "containerd://2.2.1",
            "kernelVersion": "6.8.0-64-generic",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBERNETES_VERSION,
            "machineID": machine_id(ids, plan.name),
            "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 13 (trixie)",
            "systemUUID": ids.uid("system", plan.name),
        },
    }
    cidr = f"10.244.{plan.index}.0/24"
    spec: Obj = {"podCIDR": cidr, "podCIDRs": [cidr]}
    if plan.taints:
        spec["taints"] = list(plan.taints)
    metadata = {"name": plan.name, "labels": {**standard, **plan.labels}}
    api.put(Key("nodes", "", plan.name), {"metadata": metadata, "spec": spec, "status": status}, "kubelet")


def _priority_class(api: Api, name: str, value: int, description: str) -> None:
    key = Key("scheduling.k8s.io/priorityclasses", "", name)
    body = {
        "metadata": {"name": name, "generation": 1},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    api.put(key, body, "kube-apiserver")


def _api_service(api: Api) -> None:
    """``default/kubernetes`` with hand-made endpoints: it selects no pods."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    spec = {
        "clusterIP": API_ADDRESS,
        "clusterIPs": [API_ADDRESS],
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": API_PORT}],
        "type": "ClusterIP",
    }
    service = {"metadata": {"name": "kubernetes", "labels": labels}, "spec": spec}
    server = WriteOptions(manager="kube-apiserver")
    api.create("services", "default", service, server)
    address, port = "172.18.0.2", {"name": "https", "port": API_PORT, "protocol": "TCP"}
    mirror = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    endpoints = {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": mirror},
        "subsets": [{"addresses": [{"ip": address}], "ports": [port]}],
    }
    api.put(Key("endpoints", "default", "kubernetes"), endpoints, "kube-apiserver")
    slice_ = {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
            "generation": 1,
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [port],
    }
    api.put(Key("discovery.k8s.io/endpointslices", "default", "kubernetes"), slice_, "kube-apiserver")


def _storage_class(api: Api) -> None:
    """The default class: directories on the node that the first consumer runs on."""
    body = {
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": LOCAL_PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    api.create("storage.k8s.io/storageclasses", "", body, SYSTEM)


def _account(api: Api, name: str) -> None:
    api.create("serviceaccounts", "kube-system", {"metadata": {"name": name}}, SYSTEM)


def _cluster_dns(api: Api) -> None:
    labels = {"k8s-app": "kube-dns"}
    _account(api, "coredns")
    config = {"metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}}
    api.create("configmaps", "kube-system", config, SYSTEM)
    container = {
        "name": "coredns",
        "image": COREDNS_IMAGE,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
        ],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080},
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    config_map = {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]}
    pod = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "tolerations": _tolerations(),
        "containers": [container],
        "volumes": [{"name": "config-volume", "configMap": config_map}],
    }
    _deployment(api, "coredns", labels, pod, 2)
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
        {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153},
    ]
    meta = {
        "name": "kube-dns",
        "labels": {**labels, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
        "annotations": {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
    }
    spec = {"clusterIP": DNS_ADDRESS, "clusterIPs": [DNS_ADDRESS], "selector": labels, "ports": ports}
    api.create("services", "kube-system", {"metadata": meta, "spec": spec}, SYSTEM)


def _metrics_server(api: Api) -> None:
    labels = {"k8s-app": "metrics-server"}
    _account(api, "metrics-server")
    container = {
        "name": "metrics-server",
        "image": METRICS_IMAGE,
        "args": [
            "--cert-dir=/tmp",
            "--secure-port=10250",
            "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
            "--kubelet-use-node-status-port",
            "--metric-resolution=15s",
            "--kubelet-insecure-tls",
        ],
        "ports": [{"name": "https", "containerPort": 10250, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}},
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "https", "scheme": "HTTPS"}},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"},
            "initialDelaySeconds": 20,
        },
        "volumeMounts": [{"name": "tmp-dir", "mountPath": "/tmp"}],
    }
    pod = {
        "serviceAccountName": "metrics-server",
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "tmp-dir", "emptyDir": {}}],
    }
    _deployment(api, "metrics-server", labels, pod, 1)
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}]
    service = {
        "metadata": {"name": "metrics-server", "labels": labels},
        "spec": {"selector": labels, "ports": ports},
    }
    api.create("services", "kube-system", service, SYSTEM)
    api.create(apiservices.RESOURCE, "", apiservices.metrics_service(), SYSTEM)


def _tolerations() -> list[Obj]:
    return [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"},
    ]


def _deployment(api: Api, name: str, labels: dict[str, str], pod: Obj, replicas: int) -> None:
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    api.create("apps/deployments", "kube-system", body, SYSTEM)
