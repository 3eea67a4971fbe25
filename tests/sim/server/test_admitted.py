"""What happens to objects before they are stored: addresses of Services, quotas, limit ranges, claims, warnings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from aiopslab.sim.core.api import ApiError, WriteOptions
from aiopslab.sim.server.auth import ADMIN

Obj = dict[str, Any]
SIZES = ("200Mi", "1Gi", "2Gi")


def service(name: str = "s", **spec: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}], **spec}}  # fmt: skip


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(ApiError) as caught:
        call(*arguments)
    return caught.value.status["message"]


# What a Service has after a change of its type, by what was asked for.
MOVES = [
    ("ClusterIP", {"type": "NodePort"}, {"clusterIP": "same", "nodePort": "some", "externalTrafficPolicy": "Cluster"}),
    ("NodePort", {"type": "ClusterIP"}, {"clusterIP": "same", "nodePort": None, "externalTrafficPolicy": None}),
    ("NodePort", {"type": "LoadBalancer"}, {"nodePort": "same", "allocateLoadBalancerNodePorts": True}),
    ("LoadBalancer", {"type": "ClusterIP"}, {"nodePort": None, "allocateLoadBalancerNodePorts": None}),
    ("LoadBalancer", {"externalTrafficPolicy": "Local"}, {"nodePort": "same", "healthCheckNodePort": "some"}),
    ("NodePort", {"type": "ExternalName", "externalName": "x.y"},
     {"clusterIP": None, "clusterIPs": None, "ipFamilies": None, "nodePort": None}),
    ("ExternalName", {"type": "ClusterIP", "externalName": None},
     {"clusterIP": "some", "ipFamilyPolicy": "SingleStack"}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "patch", "after"), MOVES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_service_that_changes_its_type(api, options, before, patch, after):
    outer = {"externalName": "x.y"} if before == "ExternalName" else {}
    old = api.create("services", "default", service(type=before, **outer), options)["spec"]
    new = api.patch("services", "default", "s", "merge", {"spec": patch}, options)["spec"]
    for field, wanted in after.items():
        was, now = (s["ports"][0].get(field) if field == "nodePort" else s.get(field) for s in (old, new))
        assert (now == was) if wanted == "same" else now if wanted == "some" else now == wanted, (field, was, now)


TAKEN = [
    ({"clusterIP": "10.96.0.1"},
     'spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already '
     "allocated"),
    ({"clusterIP": "192.168.0.1"},
     'spec.clusterIPs: Invalid value: ["192.168.0.1"]: failed to allocate IP 192.168.0.1: the provided IP '
     "(192.168.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16"),
    ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
     "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
    ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
     "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports "
     "is 30000-32767"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), TAKEN)
def test_addresses_that_are_taken_or_out_of_range(api, options, spec, message):
    first = service("first", type="NodePort", ports=[{"port": 80, "nodePort": 30080}])
    api.create("services", "default", first, options)
    assert refusal(api.create, "services", "default", service(**spec), options) == f'Service "s" is invalid: {message}'


QUOTAS = """
- - {hard: {pods: "1", requests.cpu: "1", limits.memory: 1Gi}}
  - "pods \\"p\\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
  - {}
- - {hard: {pods: "0", requests.cpu: 100m, limits.memory: 1Gi}}
  - "pods \\"p\\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=200m, used: pods=0,requests.cpu=0,
    limited: pods=0,requests.cpu=100m"
  - {resources: {requests: {cpu: 200m}, limits: {cpu: 200m, memory: 1Mi}}}
- - {hard: {pods: "0"}, scopes: [BestEffort]}
  - "pods \\"p\\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
  - {}
- - {hard: {pods: "0"}, scopes: [NotBestEffort]}
  - null
  - {}
- - {hard: {count/pods: "0"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}}
  - null
  - {}
"""


@pytest.mark.parametrize(("quota", "message", "container"), yaml.safe_load(QUOTAS))
def test_quotas(api, options, make, quota, message, container):
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": quota}
    api.create("resourcequotas", "default", body, options)
    api.kernel.settle()
    pod = make.pod(containers=[{"name": "c", "image": "x", **container}])
    if message is None:
        assert api.create("pods", "default", pod, options)
    else:
        assert refusal(api.create, "pods", "default", pod, options) == message


def test_a_quota_counts_changes_too(api, options):
    hard = {"services.nodeports": "1", "services.loadbalancers": "0"}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    api.create("resourcequotas", "default", body, options)
    api.kernel.settle()
    api.create("services", "default", service(), options)
    two = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    message = refusal(
        api.patch, "services", "default", "s", "merge", {"spec": {"type": "NodePort", "ports": two}}, options
    )
    assert message == (
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, '
        "used: services.nodeports=0, limited: services.nodeports=1"
    )
    api.patch("services", "default", "s", "merge", {"spec": {"type": "NodePort"}}, options)
    api.kernel.settle()
    used = api.get("resourcequotas", "default", "q")["status"]["used"]
    assert used == {"services.nodeports": "1", "services.loadbalancers": "0"}


RANGES = [
    ({"type": "Container", "min": {"cpu": "200m"}}, "minimum cpu usage per Container is 200m, but request is 100m"),
    ({"type": "Container", "max": {"cpu": "200m"}}, "maximum cpu usage per Container is 200m, but limit is 400m"),
    ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
     "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"),
    ({"type": "Pod", "max": {"cpu": "500m"}}, "maximum cpu usage per Pod is 500m, but limit is 800m"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "message"), RANGES)
def test_limit_ranges(api, options, make, item, message):
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [item]}}
    api.create("limitranges", "default", body, options)
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "400m"}}
    containers = [{"name": name, "image": "x", "resources": resources} for name in ("a", "b")]
    found = refusal(api.create, "pods", "default", make.pod(containers=containers), options)
    assert found.startswith('pods "p" is forbidden: ') and message in found


def test_claims_grow_only_where_their_class_allows_it(api, options):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fixed", "dataSource": {"kind": "Pod", "name": "x"},
        "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    made = api.create("persistentvolumeclaims", "default", claim, options)
    assert "dataSource" not in made["spec"]  # neither a claim nor a snapshot
    found = {}
    for size in SIZES:
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        try:
            api.patch("persistentvolumeclaims", "default", "c", "merge", patch, options)
        except ApiError as error:
            found[size] = error.status["message"]
    assert sorted(found) == ["200Mi", "2Gi"]
    assert all("is forbidden" in found[size] or "Forbidden" in found[size] for size in found)


def test_warnings_about_what_is_stored(api, make):
    options = WriteOptions("test", user=ADMIN)
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = make.pod(containers=[{"name": "c", "image": "x", "env": env}])
    api.create("pods", "default", pod, options)
    text = 'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
    assert options.warnings == [text]
