"""Default values of pods and of everything that holds a pod template. Functions change their argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Obj = dict[str, Any]
FILE_MODE = 420  # 0644
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
VOLUME_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
TOKEN_EXPIRATION_S = 3600


def containers(spec: Obj) -> Iterator[Obj]:
    """Init, ordinary and ephemeral containers of a pod spec."""
    for field in CONTAINER_LISTS:
        yield from spec.get(field) or ()


def default_pod(spec: Obj) -> None:
    """Defaults of a pod's own spec: those of a template and the ones that only pods get."""
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        limits = container.get("resources", {}).get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)


def default_template(template: Obj) -> None:
    """Defaults of a pod template."""
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Obj) -> None:
    """Defaults shared by pods and templates."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for container in containers(spec):
        default_container(container, host_network=bool(spec.get("hostNetwork")))


def default_container(container: Obj, *, host_network: bool = False) -> None:
    """Defaults of one container."""
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env") or ():
        default_field_source(variable.get("valueFrom") or {})
    for name in PROBES:
        if name in container:
            default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            default_handler(handler)


def pull_policy(image: str) -> str:
    """``Always`` for images without tag or with ``latest``, ``IfNotPresent`` otherwise (also for digests)."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rsplit("/", 1)[-1].partition(":")
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def default_probe(probe: Obj) -> None:
    """Timings and handler of a probe."""
    for name, value in PROBE_DEFAULTS.items():
        if not probe.get(name):
            probe[name] = value
    default_handler(probe)


def default_handler(handler: Obj) -> None:
    """HTTP and gRPC handlers of probes and lifecycle hooks."""
    if (http := handler.get("httpGet")) is not None:
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")
    if (grpc := handler.get("grpc")) is not None:
        grpc.setdefault("service", "")


def default_field_source(source: Obj) -> None:
    """``fieldRef`` and ``resourceFieldRef`` of environment variables and downward API files."""
    if (field := source.get("fieldRef")) is not None:
        field.setdefault("apiVersion", "v1")
    if (resource := source.get("resourceFieldRef")) is not None:
        resource.setdefault("divisor", "0")


def default_volume(volume: Obj) -> None:
    """The source of a volume; one without any is an ``emptyDir``."""
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in VOLUME_SOURCES_WITH_MODE:
        if name in volume:
            volume[name].setdefault("defaultMode", FILE_MODE)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        default_field_source(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if (token := source.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", TOKEN_EXPIRATION_S)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            default_field_source(item)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    if (claim := (volume.get("ephemeral") or {}).get("volumeClaimTemplate")) is not None:
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
