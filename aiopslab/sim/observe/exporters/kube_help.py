"""What kube-state-metrics says about its metric families (type and help)."""

from __future__ import annotations

from aiopslab.sim.observe.targets import MetricMetadata

# Texts are built from what a family's name tells; ``{}`` stands for the kind of object.
_SUFFIXES = {
    "_created": "Unix creation timestamp",
    "_info": "Information about {}.",
    "_owner": "Information about the {}'s owner.",
    "_metadata_generation": "Sequence number representing a specific generation of the desired state.",
    "_status_observed_generation": "The generation observed by the {} controller.",
    "_status_condition": "The current status conditions of a {}.",
    "_status_phase": "The {}s current phase.",
    "_spec_replicas": "Number of desired pods for a {}.",
    "_status_replicas": "The number of replicas per {}.",
    "_status_replicas_ready": "The number of ready replicas per {}.",
    "_status_ready_replicas": "The number of ready replicas per {}.",
    "_status_replicas_available": "The number of available replicas per {}.",
    "_status_replicas_unavailable": "The number of unavailable replicas per {}.",
    "_status_replicas_updated": "The number of updated replicas per {}.",
    "_status_replicas_current": "The number of current replicas per {}.",
    "_status_fully_labeled_replicas": "The number of fully labeled replicas per {}.",
    "_spec_paused": "Whether the {} is paused and will not be processed by the {} controller.",
    "_spec_strategy_rollingupdate_max_surge":
        "Maximum number of replicas that can be scheduled above the desired number of replicas during a rolling "
        "update of a {}.",
    "_spec_strategy_rollingupdate_max_unavailable":
        "Maximum number of unavailable replicas during a rolling update of a {}.",
    "_status_current_revision": "Indicates the version of the {} used to generate Pods in the current sequence.",
    "_status_update_revision": "Indicates the version of the {} used to generate Pods in the update sequence.",
    "_status_desired_number_scheduled": "The number of nodes that should be running the daemon pod.",
    "_status_current_number_scheduled":
        "The number of nodes running at least one daemon pod and are supposed to.",
    "_status_number_ready":
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running "
        "and ready.",
    "_status_number_available": "The number of nodes that should be running the daemon pod and have one available.",
    "_status_number_unavailable":
        "The number of nodes that should be running the daemon pod and have none available.",
    "_status_number_misscheduled": "The number of nodes running a daemon pod but are not supposed to.",
    "_status_updated_number_scheduled": "The total number of nodes that are running updated daemon pod",
    "_spec_min_replicas": "Lower limit for the number of pods that can be set by the autoscaler, default 1.",
    "_spec_max_replicas": "Upper limit for the number of pods that can be set by the autoscaler.",
    "_status_current_replicas": "Current number of replicas of pods managed by this autoscaler.",
    "_status_desired_replicas": "Desired number of replicas of pods managed by this autoscaler.",
    "_spec_target_metric": "The metric specifications used by this autoscaler when calculating the desired count.",
    "_status_target_metric": "The current metric status used by this autoscaler.",
    "_status_active": "The number of actively running pods of a {}.",
    "_status_succeeded": "The number of pods which reached Phase Succeeded.",
    "_status_failed": "The number of pods which reached Phase Failed and the reason for failure.",
    "_status_start_time": "StartTime represents time when the {} was acknowledged by its controller.",
    "_status_completion_time": "CompletionTime represents time when the {} was completed.",
    "_status_last_schedule_time": "LastScheduleTime keeps information of when was the last time it was scheduled.",
    "_spec_suspend": "Suspend flag tells the controller to suspend subsequent executions.",
    "_complete": "The {} has completed its execution.",
    "_failed": "The {} has failed its execution.",
    "_spec_parallelism": "The maximum desired number of pods the {} should run at any given time.",
    "_spec_completions": "The desired number of successfully finished pods the {} should be run with.",
    "_capacity_bytes": "The {} capacity in bytes.",
    "_claim_ref": "Information about the claim that the {} is bound to.",
    "_resource_requests_storage_bytes": "The capacity of storage requested by the {}.",
}  # fmt: skip
_EXACT = {
    "kube_pod_info": "Information about pod.",
    "kube_pod_start_time": "Start time in unix timestamp for a pod.",
    "kube_pod_completion_time": "Completion time in unix timestamp for a pod.",
    "kube_pod_deletion_timestamp": "Unix deletion timestamp",
    "kube_pod_ips": "Pod IP addresses",
    "kube_pod_restart_policy": "Describes the restart policy in use by this pod.",
    "kube_pod_service_account": "The service account for a pod.",
    "kube_pod_tolerations": "Information about the pod tolerations",
    "kube_pod_status_ready": "Describes whether the pod is ready to serve requests.",
    "kube_pod_status_ready_time": "Readiness achieved time in unix timestamp for a pod.",
    "kube_pod_status_container_ready_time":
        "Readiness achieved time of the containers in unix timestamp for a pod.",
    "kube_pod_status_scheduled": "Describes the status of the scheduling process for the pod.",
    "kube_pod_status_scheduled_time": "Unix timestamp when pod moved into scheduled status",
    "kube_pod_status_unschedulable": "Describes the unschedulable status for the pod.",
    "kube_pod_status_reason": "The pod status reasons",
    "kube_pod_status_qos_class": "The pods current qosClass.",
    "kube_pod_container_state_started": "Start time in unix timestamp for a pod container.",
    "kube_node_role": "The role of a cluster node.",
    "kube_node_spec_taint": "The taint of a cluster node.",
    "kube_node_spec_unschedulable": "Whether a node can schedule new pods.",
    "kube_node_status_allocatable": "The allocatable for different resources of a node that are available.",
    "kube_node_status_capacity": "The total amount of resources available for a node.",
    "kube_node_status_condition": "The condition of a cluster node.",
    "kube_service_spec_type": "Type about service.",
    "kube_endpoint_address": "Information about Endpoint available and non available addresses.",
    "kube_endpointslice_endpoints": "Endpoints attached to the endpointslice.",
    "kube_endpointslice_ports": "Ports attached to the endpointslice.",
    "kube_networkpolicy_spec_ingress_rules": "Number of ingress rules on the networkpolicy",
    "kube_networkpolicy_spec_egress_rules": "Number of egress rules on the networkpolicy",
    "kube_secret_type": "Type about secret.",
    "kube_resourcequota": "Information about resource quota.",
    "kube_statefulset_replicas": "Number of desired pods for a StatefulSet.",
}  # fmt: skip
_CONTAINER = {
    "info": "Information about {} in a pod.",
    "resource_requests": "The number of requested request resource by {}.",
    "resource_limits": "The number of requested limit resource by {}.",
    "status_ready": "Describes whether the {}s readiness check succeeded.",
    "status_restarts_total": "The number of {} restarts per container.",
    "status_running": "Describes whether the {} is currently in running state.",
    "status_waiting": "Describes whether the {} is currently in waiting state.",
    "status_waiting_reason": "Describes the reason the {} is currently in waiting state.",
    "status_terminated": "Describes whether the {} is currently in terminated state.",
    "status_terminated_reason": "Describes the reason the {} is currently in terminated state.",
    "status_last_terminated_reason": "Describes the last reason the {} was in terminated state.",
    "status_last_terminated_exitcode": "Describes the exit code for the last {} in terminated state.",
    "status_last_terminated_timestamp": "Last terminated time for a pod {} in unix timestamp.",
}
_BY_LENGTH = sorted(_SUFFIXES, key=len, reverse=True)


def describe_family(metric: str) -> MetricMetadata:
    """Type and help of a family by its name."""
    kind = "counter" if metric.endswith("_total") else "gauge"
    return MetricMetadata(kind, _EXACT.get(metric) or _container(metric) or _by_suffix(metric))


def _container(metric: str) -> str:
    for prefix, name in (("kube_pod_container_", "container"), ("kube_pod_init_container_", "init container")):
        text = _CONTAINER.get(metric.removeprefix(prefix)) if metric.startswith(prefix) else None
        if text:
            return text.format(name)
    return ""


def _by_suffix(metric: str) -> str:
    for suffix in _BY_LENGTH:
        if metric.endswith(suffix):
            kind = metric.removesuffix(suffix).removeprefix("kube_")
            return _SUFFIXES[suffix].replace("{}", kind)
    return "State of the " + metric.removeprefix("kube_").partition("_")[0] + "."
