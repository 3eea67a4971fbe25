"""The official Python client, synchronous and asynchronous: typed models, watch, exec, apply, port-forward."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kubernetes.aio as aio
import pytest
from kubernetes import client as k8s
from kubernetes import config, dynamic, stream, watch
from kubernetes.aio.stream import WsApiClient

# The client's WebSockets are left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)

APP = "hipster-shop"
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "backups.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "backups", "singular": "backup", "kind": "Backup"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
CORE = """
    list_config_map_for_all_namespaces list_endpoints_for_all_namespaces list_event_for_all_namespaces
    list_limit_range_for_all_namespaces list_namespace list_node list_persistent_volume
    list_persistent_volume_claim_for_all_namespaces list_pod_for_all_namespaces
    list_pod_template_for_all_namespaces list_replication_controller_for_all_namespaces
    list_resource_quota_for_all_namespaces list_secret_for_all_namespaces
    list_service_account_for_all_namespaces list_service_for_all_namespaces
"""
TYPED_LISTS = [("CoreV1Api", name) for name in CORE.split()] + [
    ("AppsV1Api", "list_deployment_for_all_namespaces"),
    ("AppsV1Api", "list_replica_set_for_all_namespaces"),
    ("AppsV1Api", "list_stateful_set_for_all_namespaces"),
    ("AppsV1Api", "list_daemon_set_for_all_namespaces"),
    ("AppsV1Api", "list_controller_revision_for_all_namespaces"),
    ("BatchV1Api", "list_job_for_all_namespaces"),
    ("BatchV1Api", "list_cron_job_for_all_namespaces"),
    ("AutoscalingV2Api", "list_horizontal_pod_autoscaler_for_all_namespaces"),
    ("PolicyV1Api", "list_pod_disruption_budget_for_all_namespaces"),
    ("NetworkingV1Api", "list_network_policy_for_all_namespaces"),
    ("NetworkingV1Api", "list_ingress_for_all_namespaces"),
    ("NetworkingV1Api", "list_ingress_class"),
    ("DiscoveryV1Api", "list_endpoint_slice_for_all_namespaces"),
    ("EventsV1Api", "list_event_for_all_namespaces"),
    ("RbacAuthorizationV1Api", "list_cluster_role"),
    ("RbacAuthorizationV1Api", "list_cluster_role_binding"),
    ("RbacAuthorizationV1Api", "list_role_for_all_namespaces"),
    ("RbacAuthorizationV1Api", "list_role_binding_for_all_namespaces"),
    ("StorageV1Api", "list_storage_class"),
    ("StorageV1Api", "list_csi_node"),
    ("StorageV1Api", "list_csi_driver"),
    ("StorageV1Api", "list_volume_attachment"),
    ("SchedulingV1Api", "list_priority_class"),
    ("CoordinationV1Api", "list_lease_for_all_namespaces"),
    ("AdmissionregistrationV1Api", "list_validating_webhook_configuration"),
    ("AdmissionregistrationV1Api", "list_mutating_webhook_configuration"),
    ("ApiextensionsV1Api", "list_custom_resource_definition"),
]


@contextmanager
def connected(lab: Any) -> Iterator[k8s.ApiClient]:
    with config.new_client_from_config(str(lab.kubeconfig)) as client:
        yield client
        client.rest_client.pool_manager.clear()


def pod_spec(**more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "command": ["sleep", "3600"]}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **more}


def some_of_everything(lab: Any, namespace: str) -> None:
    """Objects of the kinds that the application does not have."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()}
    job = {"template": {"spec": pod_spec(restartPolicy="Never")}}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    metrics[0]["resource"]["target"]["averageUtilization"] = 50  # type: ignore[index]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    backend = {"service": {"name": "x", "port": {"number": 80}}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        ("batch/v1", "Job", job),
        ("batch/v1", "CronJob", {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job}}),
        ("apps/v1", "DaemonSet", {"selector": {"matchLabels": {"a": "b"}}, "template": template}),
        ("policy/v1", "PodDisruptionBudget", {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}),
        ("networking.k8s.io/v1", "NetworkPolicy", {"podSelector": {}, "ingress": [{}]}),
        ("networking.k8s.io/v1", "Ingress", {"defaultBackend": backend}),
        ("v1", "PersistentVolumeClaim", claim),
        ("v1", "ResourceQuota", {"hard": {"pods": "10"}}),
        ("v1", "LimitRange", {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"maxReplicas": 3, "scaleTargetRef": target, "metrics": metrics},
        ),
    ]
    objects = [{"apiVersion": v, "kind": k, "metadata": {"name": "x"}, "spec": s} for v, k, s in kinds]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    done = lab.kubectl("apply", "-n", namespace, "-f", "-", stdin=body)
    assert done.code == 0, done.err


def test_typed_lists_of_every_kind(lab, namespace):
    some_of_everything(lab, namespace)
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(CRD))
    lab.control("POST", "/advance", {"seconds": 60})
    filled = set()
    with connected(lab) as client:
        for api, method in TYPED_LISTS:
            listed = getattr(getattr(k8s, api)(client), method)()
            filled |= {method} if listed.items else set()
            if listed.items:
                assert client.sanitize_for_serialization(listed.items[0])["metadata"]["name"], method
    lab.kubectl("delete", "crd", "backups.example.com")
    empty = {m for _, m in TYPED_LISTS} - filled
    assert empty <= {
        "list_pod_template_for_all_namespaces",
        "list_replication_controller_for_all_namespaces",
        "list_stateful_set_for_all_namespaces",
        "list_persistent_volume",
        "list_csi_driver",
        "list_csi_node",
        "list_role_for_all_namespaces",
        "list_role_binding_for_all_namespaces",
        "list_volume_attachment",
        "list_ingress_class",
        "list_validating_webhook_configuration",
        "list_mutating_webhook_configuration",
    }


async def test_the_asynchronous_client_lists_and_watches(lab, namespace):
    await aio.config.load_kube_config(str(lab.kubeconfig))
    async with aio.client.ApiClient() as client:
        core = aio.client.CoreV1Api(client)
        version = (await core.list_namespaced_config_map(namespace)).metadata.resource_version

        async def write() -> None:
            body = {"metadata": {"name": "seen"}, "data": {"a": "1"}}
            await core.create_namespaced_config_map(namespace, body)
            await core.patch_namespaced_config_map("seen", namespace, {"data": {"a": "2"}})
            await core.delete_namespaced_config_map("seen", namespace)

        events = []
        writing = asyncio.create_task(write())
        async with aio.watch.Watch() as watching:
            source = watching.stream(
                core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=10
            )
            async for event in source:
                events.append((event["type"], event["object"].data["a"]))
                if event["type"] == "DELETED":
                    break
        await writing
        assert events == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
        deployments = await aio.client.AppsV1Api(client).list_namespaced_deployment(APP)
        assert len(deployments.items) > 5


async def test_the_asynchronous_client_executes(lab):
    await aio.config.load_kube_config(str(lab.kubeconfig))
    async with WsApiClient() as client:
        core = aio.client.CoreV1Api(client)
        async with aio.client.ApiClient() as plain:
            pods = await aio.client.CoreV1Api(plain).list_namespaced_pod(APP, label_selector="app=redis-cart")
        answer = await core.connect_get_namespaced_pod_exec(
            pods.items[0].metadata.name, APP, command=["sh", "-c", "echo out; echo err >&2"],
            stdout=True, stderr=True, stdin=False, tty=False,
        )  # fmt: skip
        assert sorted(answer.split()) == ["err", "out"]


def test_watch_and_execute(lab, namespace):
    with connected(lab) as client:
        core = k8s.CoreV1Api(client)
        core.create_namespaced_pod(namespace, {"metadata": {"name": "p"}, "spec": pod_spec()})
        watching = watch.Watch()
        phases = []
        for event in watching.stream(core.list_namespaced_pod, namespace, timeout_seconds=20):
            phases.append(event["object"].status.phase)
            if phases[-1] == "Running":
                watching.stop()
        assert phases[0] == "Pending"
        with connected(lab) as streaming:
            run = k8s.CoreV1Api(streaming).connect_get_namespaced_pod_exec
            open_stream = stream.stream(
                run, "p", namespace, command=["sh", "-c", "cat; exit 3"],
                stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
            )  # fmt: skip
            open_stream.write_stdin("typed\n")
            open_stream.run_forever(timeout=10)
            assert open_stream.read_stdout(timeout=5) == "typed\n"
            assert open_stream.returncode == 3
            open_stream.close()
        assert core.delete_namespaced_pod("p", namespace).metadata.name == "p"


def test_a_shell_that_is_typed_into(lab):
    with connected(lab) as client:
        pod = k8s.CoreV1Api(client).list_namespaced_pod(APP, label_selector="app=redis-cart").items[0]
        run = k8s.CoreV1Api(client).connect_get_namespaced_pod_exec
        shell = stream.stream(
            run, pod.metadata.name, APP, command=["/bin/sh"],
            stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
        )  # fmt: skip
        shell.update(timeout=1)
        shell.write_stdin("cd /tmp\n")
        shell.write_stdin("pwd\n")
        assert shell.readline_stdout(timeout=3) == "/tmp"
        shell.write_stdin("echo oops >&2\n")
        assert shell.readline_stderr(timeout=3) == "oops"
        shell.write_stdin("exit\n")
        shell.run_forever(timeout=3)
        assert shell.returncode == 0
        shell.close()


def test_port_forward_by_channels(lab):
    with connected(lab) as client:
        name = k8s.CoreV1Api(client).list_namespaced_pod(APP, label_selector="app=frontend").items[0].metadata.name
        connect = k8s.CoreV1Api(client).connect_get_namespaced_pod_portforward
        forward = stream.portforward(connect, name, APP, ports="8080")
        http = forward.socket(8080)
        http.setblocking(True)
        http.settimeout(10)
        http.sendall(b"GET / HTTP/1.1\r\nHost: frontend\r\nConnection: close\r\n\r\n")
        assert http.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        http.close()
        forward.close()


def test_logs_and_subresources(lab):
    with connected(lab) as client:
        core, apps = k8s.CoreV1Api(client), k8s.AppsV1Api(client)
        pod = core.list_namespaced_pod(APP, label_selector="app=frontend").items[0]
        lines = core.read_namespaced_pod_log(pod.metadata.name, APP, tail_lines=2).splitlines()
        assert 0 < len(lines) <= 2
        scale = apps.read_namespaced_deployment_scale("frontend", APP)
        assert scale.spec.replicas == scale.status.replicas == 1
        usage = k8s.CustomObjectsApi(client).list_namespaced_custom_object("metrics.k8s.io", "v1beta1", APP, "pods")
        assert usage["items"][0]["containers"][0]["usage"]["cpu"]


def test_server_side_apply_with_the_dynamic_client(lab, namespace):
    with connected(lab) as client:
        known = dynamic.DynamicClient(client)
        deployments = known.resources.get(api_version="apps/v1", kind="Deployment")
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}}
        spec["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
        made = deployments.server_side_apply(body, namespace=namespace, field_manager="one")
        assert [m.manager for m in made.metadata.managedFields] == ["one"]
        other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 5}}
        with pytest.raises(k8s.ApiException) as refused:
            deployments.server_side_apply(other, namespace=namespace, field_manager="two")
        assert refused.value.status == 409
        message = json.loads(refused.value.body)["message"]
        assert message == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
        forced = {"field_manager": "two", "force_conflicts": True}
        taken = deployments.server_side_apply(other, namespace=namespace, **forced)
        assert taken.spec.replicas == 5


def test_custom_resources_with_the_dynamic_client(lab, namespace):
    with connected(lab) as client:
        definitions = k8s.ApiextensionsV1Api(client)
        definitions.create_custom_resource_definition(CRD)
        lab.control("POST", "/advance", {"seconds": 2})
        backups = dynamic.DynamicClient(client).resources.get(api_version="example.com/v1", kind="Backup")
        body = {"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "b"}, "spec": {"n": 1}}
        backups.create(body=body, namespace=namespace)
        merge = "application/merge-patch+json"
        patched = backups.patch(body={"spec": {"n": 2}}, name="b", namespace=namespace, content_type=merge)
        assert patched.spec.n == 2
        seen = k8s.CustomObjectsApi(client).list_namespaced_custom_object("example.com", "v1", namespace, "backups")
        assert [b["spec"] for b in seen["items"]] == [{"n": 2}]
        definitions.delete_custom_resource_definition("backups.example.com")
