"""Default values that the API server fills in, per kind.

``default`` first passes the object through its Go types (``schema.typed``), so that unknown fields, nulls and
non-canonical quantities never reach the store. It is idempotent.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from aiopslab.sim.core import schema
from aiopslab.sim.core.defaults_pod import default_pod, default_template
from aiopslab.sim.core.schema import KindLike

Obj = dict[str, Any]
RBAC_GROUP = "rbac.authorization.k8s.io"
STICKY_TIMEOUT_S = 10800
BACKOFF_LIMIT_MAX = 2147483647
HPA_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
HPA_SCALE_DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def default(obj: Obj, kind: KindLike) -> Obj:
    """A copy of ``obj`` with everything the API server defaults for its kind; CRs come back unchanged."""
    if getattr(kind, "crd", None) is not None or schema.node_for(kind) is None:
        return obj
    made = schema.typed(obj, kind)
    fill = _FILLERS.get((kind.group, kind.kind))
    if fill is not None:
        fill(made)
    return made


def job_selector(job: Obj, uid: str) -> Obj:
    """A Job as its create strategy leaves it: selector and template labels from the Job's own uid.

    ``job`` is returned unchanged when it says ``manualSelector: true``.
    """
    spec = job.get("spec", {})
    if spec.get("manualSelector"):
        return job
    meta = spec.get("template", {}).get("metadata", {})
    name = job["metadata"]["name"]
    labels = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        **(meta.get("labels") or {}),
    }
    template = {**spec.get("template", {}), "metadata": {**meta, "labels": labels}}
    selector = spec.get("selector") or {}
    match = {**(selector.get("matchLabels") or {}), "batch.kubernetes.io/controller-uid": uid}
    return {**job, "spec": {**spec, "template": template, "selector": {**selector, "matchLabels": match}}}


def _pod(obj: Obj) -> None:
    default_pod(obj["spec"])


def _pod_template(obj: Obj) -> None:
    default_template(obj["template"])


def _deployment(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec["template"])
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _replica_set(obj: Obj) -> None:
    default_template(obj["spec"]["template"])
    obj["spec"].setdefault("replicas", 1)


def _replication_controller(obj: Obj) -> None:
    template = obj["spec"].get("template")
    if template is not None:
        default_template(template)
        labels = template.get("metadata", {}).get("labels")
        if labels:
            obj["spec"].setdefault("selector", dict(labels))
            obj["metadata"].setdefault("labels", dict(labels))
    obj["spec"].setdefault("replicas", 1)


def _stateful_set(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec["template"])
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        _claim(claim)
        claim["status"].setdefault("phase", "Pending")


def _daemon_set(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec["template"])
    strategy = spec["updateStrategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _job(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec["template"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", BACKOFF_LIMIT_MAX if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition.setdefault("status", "True")
    labels = spec["template"].get("metadata", {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _cron_job(obj: Obj) -> None:
    spec = obj["spec"]
    default_template(spec["jobTemplate"]["spec"]["template"])
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _service(obj: Obj) -> None:
    spec = obj["spec"]
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", STICKY_TIMEOUT_S)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _horizontal_pod_autoscaler(obj: Obj) -> None:
    spec = obj["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is None:
        return
    for name, rules in (("scaleUp", HPA_SCALE_UP), ("scaleDown", HPA_SCALE_DOWN)):
        filled = behavior.setdefault(name, {})
        for field, value in rules.items():
            if not filled.get(field) and field not in filled:
                filled[field] = [dict(item) for item in value] if isinstance(value, list) else value


def _persistent_volume_claim(obj: Obj) -> None:
    _claim(obj)
    obj["status"].setdefault("phase", "Pending")


def _claim(claim: Obj) -> None:
    claim["spec"].setdefault("volumeMode", "Filesystem")


def _persistent_volume(obj: Obj) -> None:
    spec = obj["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    obj["status"].setdefault("phase", "Pending")


def _storage_class(obj: Obj) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _priority_class(obj: Obj) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _ingress_class(obj: Obj) -> None:
    parameters = obj.get("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _network_policy(obj: Obj) -> None:
    spec = obj["spec"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _binding(obj: Obj) -> None:
    if not obj["roleRef"].get("apiGroup"):
        obj["roleRef"]["apiGroup"] = RBAC_GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC_GROUP)


def _secret(obj: Obj) -> None:
    obj.setdefault("type", "Opaque")
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _node(obj: Obj) -> None:
    status = obj["status"]
    if status.get("capacity"):
        status.setdefault("allocatable", dict(status["capacity"]))


def _endpoints(obj: Obj) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _limit_range(obj: Obj) -> None:
    for item in obj["spec"].get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def _webhook_configuration(obj: Obj) -> None:
    for hook in obj.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if obj["kind"] == "MutatingWebhookConfiguration":
            hook.setdefault("reinvocationPolicy", "Never")
        _rule_scopes(hook.get("rules"))
        if (service := hook.get("clientConfig", {}).get("service")) is not None:
            service.setdefault("port", 443)


def _rule_scopes(rules: list[Obj] | None) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _match_resources(constraints: Obj | None) -> None:
    if constraints is None:
        return
    constraints.setdefault("matchPolicy", "Equivalent")
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        _rule_scopes(constraints.get(field))


def _admission_policy(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _match_resources(spec.get("matchConstraints"))


def _admission_policy_binding(obj: Obj) -> None:
    _match_resources(obj.get("spec", {}).get("matchResources"))


def _api_service(obj: Obj) -> None:
    if (service := obj.get("spec", {}).get("service")) is not None:
        service.setdefault("port", 443)


_ADMISSION, _NETWORKING, _STORAGE = "admissionregistration.k8s.io", "networking.k8s.io", "storage.k8s.io"
_FILLERS: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("", "Pod"): _pod,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): _replication_controller,
    ("", "Service"): _service,
    ("", "Secret"): _secret,
    ("", "Node"): _node,
    ("", "Endpoints"): _endpoints,
    ("", "LimitRange"): _limit_range,
    ("", "PersistentVolume"): _persistent_volume,
    ("", "PersistentVolumeClaim"): _persistent_volume_claim,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): _horizontal_pod_autoscaler,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    (RBAC_GROUP, "RoleBinding"): _binding,
    (RBAC_GROUP, "ClusterRoleBinding"): _binding,
    (_STORAGE, "StorageClass"): _storage_class,
    (_NETWORKING, "IngressClass"): _ingress_class,
    (_NETWORKING, "NetworkPolicy"): _network_policy,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    (_ADMISSION, "MutatingWebhookConfiguration"): _webhook_configuration,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _webhook_configuration,
    (_ADMISSION, "ValidatingAdmissionPolicy"): _admission_policy,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _admission_policy_binding,
}
