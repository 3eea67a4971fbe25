"""CoreDNS and its Service in a cluster of hand-made objects, for tests and benchmarks without an API server."""

from __future__ import annotations

from collections.abc import Callable

from aiopslab.sim.core.ports import ContainerRef, ContainerSpec
from aiopslab.sim.core.store import Obj

COREFILE = ".:53 {\n    kubernetes cluster.local\n    forward . /etc/resolv.conf\n}\n"
POD_IP = "10.244.0.2"
IMAGE = "registry.k8s.io/coredns/coredns:v1.14.2"
Put = Callable[[str, str, str, Obj], object]


def coredns(put: Put, node: str, corefile: str = COREFILE) -> ContainerSpec:
    """Put its objects with ``put(resource, namespace, name, object)``; the container that is to be started."""
    ref = ContainerRef("kube-system", "coredns-1", "u-coredns", "coredns", 0)
    labels = {"k8s-app": "kube-dns"}
    put("namespaces", "", "kube-system", {})
    spec = {"clusterIP": "10.96.0.10", "ports": [{"name": "dns", "port": 53, "targetPort": 53}]}
    put("services", "kube-system", "kube-dns", {"spec": spec})
    put("pods", "kube-system", "coredns-1", {"metadata": {"labels": labels}, "status": {"podIP": POD_IP}})
    put("discovery.k8s.io/endpointslices", "kube-system", "kube-dns-abcde", {
        "metadata": {"labels": {"kubernetes.io/service-name": "kube-dns"}},
        "ports": [{"name": "dns", "port": 53}],
        "endpoints": [{"addresses": [POD_IP], "conditions": {"ready": True}}],
    })  # fmt: skip
    files = {"/etc/coredns/Corefile": corefile}
    return ContainerSpec(ref, IMAGE, (), {}, files, labels, node, POD_IP, 1.0, 170 << 20)
