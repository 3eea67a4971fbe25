"""Pod Security admission: what namespace labels refuse, warn of and leave alone."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/shut/pods"
PREFIX = "pod-security.kubernetes.io/"
GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
MERGE = {"Content_Type": "application/merge-patch+json"}


async def namespace(client: Any, name: str = "shut", **labels: str) -> tuple[int, Any, Any]:
    """Make a namespace whose labels are ``enforce="baseline"``, ``enforce_version="v1.22"`` and so on."""
    named = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
    answer = await client("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": named}})
    account = {"metadata": {"name": "default"}}
    if answer[0] == 201:
        await client("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    return answer


def container(name: str = "c", ports: Any = None, probe: Any = None, **context: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "image": "nginx:1.25", "securityContext": context}
    if ports:
        found["ports"] = ports
    if probe:
        found["livenessProbe"] = probe
    return found


NEEDS = (
    'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)
PRIVILEGED = 'privileged (container "c" must not set securityContext.privileged=true)'
BASELINE = [
    ({"containers": [container(privileged=True)]}, PRIVILEGED),
    ({"containers": [container(privileged=True)], "hostPID": True, "hostNetwork": True},
     f"host namespaces (hostNetwork=true, hostPID=true), {PRIVILEGED}"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}, 'hostPath volumes (volume "v")'),
    ({"containers": [container(capabilities={"add": ["SYS_ADMIN", "KILL", "NET_RAW"]})]},
     'non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
     "securityContext.capabilities.add)"),
    ({"containers": [container("a", [{"containerPort": 80, "hostPort": 80}]),
                     container("b", [{"containerPort": 81, "hostPort": 81}])]},
     'hostPort (containers "a", "b" use hostPorts 80, 81)'),
    ({"containers": [container(probe={"tcpSocket": {"port": 80, "host": "10.0.0.1"}})]},
     'probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")'),
    ({"containers": [container(seccompProfile={"type": "Unconfined"})],
      "securityContext": {"seccompProfile": {"type": "Unconfined"}}},
     'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")'),
    ({"containers": [container(appArmorProfile={"type": "Unconfined"})]},
     'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")'),
    ({"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}}},
     'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)'),
    ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "forbidden sysctls (kernel.msgmax)"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "detail"), BASELINE)
async def test_baseline_refuses(client, make, spec, detail):
    await namespace(client, enforce="baseline")
    code, status, _ = await client("POST", PODS, make.pod(**spec))
    assert (code, status["message"]) == (
        403, f'pods "p" is forbidden: violates PodSecurity "baseline:latest": {detail}',
    )  # fmt: skip
    assert (await client("GET", f"{PODS}/p"))[0] == 404


async def test_restricted_names_all_that_is_missing(client, make):
    await namespace(client, enforce="restricted", enforce_version="v1.30")
    code, status, _ = await client("POST", PODS, make.pod())
    assert code == 403
    assert status["message"] == f'pods "p" is forbidden: violates PodSecurity "restricted:v1.30": {NEEDS}'
    mounted = make.pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}], containers=[container(**GOOD)])
    code, status, _ = await client("POST", PODS, mounted)
    assert status["message"].endswith('restricted volume types (volume "v" uses restricted volume type "hostPath")')
    root = make.pod(containers=[container(**GOOD)], securityContext={"runAsUser": 0})
    assert (await client("POST", PODS, root))[1]["message"].endswith("runAsUser=0 (pod must not set runAsUser=0)")
    assert (await client("POST", PODS, make.pod(containers=[container(**GOOD)])))[0] == 201


async def test_a_version_knows_only_its_controls(client, make):
    await namespace(client, enforce="baseline", enforce_version="v1.33")
    spec = {"containers": [container(probe={"tcpSocket": {"port": 80, "host": "10.0.0.1"}})]}
    assert (await client("POST", PODS, make.pod(**spec)))[0] == 201


async def test_warnings_for_pods_and_for_what_makes_them(client, make):
    await namespace(client, warn="restricted")
    code, _, headers = await client("POST", PODS, make.pod())
    warning = NEEDS.replace('"', '\\"')
    text = f'299 - "would violate PodSecurity \\"restricted:latest\\": {warning}"'
    assert (code, headers.getall("Warning")) == (201, [text])
    code, _, headers = await client("POST", "/apis/apps/v1/namespaces/shut/deployments", make.deployment())
    assert (code, headers.getall("Warning")) == (201, [text])


async def test_a_controller_meets_the_refusal(client, make, cluster):
    await namespace(client, enforce="restricted")
    code, _, headers = await client("POST", "/apis/apps/v1/namespaces/shut/deployments", make.deployment())
    assert (code, "Warning" in headers) == (201, False)
    cluster.kernel.advance(cluster.kernel.now + 5)
    (found,) = (await client("GET", "/apis/apps/v1/namespaces/shut/replicasets"))[1]["items"]
    (failure,) = found["status"]["conditions"]
    assert (failure["type"], failure["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert 'is forbidden: violates PodSecurity "restricted:latest": allow' in failure["message"]


async def test_a_stricter_label_names_the_pods_that_are_there(client, make):
    await namespace(client)
    for name in ("b", "a"):
        assert (await client("POST", PODS, make.pod(name)))[0] == 201
    assert (await client("POST", PODS, make.pod("x", hostNetwork=True)))[0] == 201
    patch = {"metadata": {"labels": {f"{PREFIX}enforce": "restricted"}}}
    _, _, headers = await client("PATCH", "/api/v1/namespaces/shut?dryRun=All", patch, **MERGE)
    reasons = "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"
    existing = 'existing pods in namespace \\"shut\\" violate the new PodSecurity enforce level \\"restricted:latest\\"'
    assert headers.getall("Warning") == [
        f'299 - "{existing}"',
        f'299 - "a (and 1 other pod): {reasons}"',
        f'299 - "x: host namespaces, {reasons}"',
    ]
    await client("PATCH", "/api/v1/namespaces/shut", patch, **MERGE)
    code, _, headers = await client("PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}, **MERGE)
    assert (code, "Warning" in headers) == (200, False)
    image = {"spec": {"containers": [{"name": "c", "image": "nginx:1.26"}]}}
    code, status, _ = await client("PATCH", f"{PODS}/a", image, Content_Type="application/strategic-merge-patch+json")
    assert (code, "violates PodSecurity" in status["message"]) == (403, True)


async def test_labels_are_checked(client):
    code, status, _ = await namespace(client, enforce="strict", warn_version="1.30")
    label = f"metadata.labels[{PREFIX}enforce]"
    levels = "must be one of privileged, baseline, restricted"
    assert (code, status["message"]) == (
        422,
        f'Namespace "shut" is invalid: [{label}: Invalid value: "strict": {levels}, '
        f'metadata.labels[{PREFIX}warn-version]: Invalid value: "1.30": must be "latest" or "v1.x"]',
    )
    assert (await client("GET", "/api/v1/namespaces/shut"))[0] == 404
