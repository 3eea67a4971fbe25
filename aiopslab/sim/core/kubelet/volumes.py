"""Volumes of a pod as files: ConfigMaps, Secrets, projected tokens, the downward API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiopslab.sim.core.controllers.pods import quantity
from aiopslab.sim.core.kubelet.env import Lookup, data_of, field_value, resource_value
from aiopslab.sim.core.store import Key, Obj

_TEXTS = {"configmaps": ("configmap", "config"), "secrets": ("secret", "secret")}


@dataclass(frozen=True, slots=True)
class MountError:
    """Why a volume cannot be set up; ``text`` is what follows the colon in the event."""

    volume: str
    text: str


class VolumeSource:
    """Resolves the volumes of pods. ``token`` makes the text of a ServiceAccount token."""

    def __init__(self, lookup: Lookup, token: Callable[[Obj, Obj], str]) -> None:
        self._lookup, self._token = lookup, token

    def problems(self, pod: Obj) -> list[MountError]:
        """What is missing, in the order of the volumes."""
        found = []
        for volume in pod["spec"].get("volumes") or ():
            _, error = self._content(pod, volume, {})
            if error:
                found.append(MountError(volume["name"], error))
        return found

    def files(self, pod: Obj, container: Obj, node: Obj) -> dict[str, str]:
        """Absolute path to text for everything that the container mounts."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        files: dict[str, str] = {}
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"])
            if volume is None:
                continue
            content, _ = self._content(pod, volume, node)
            path, sub_path = mount["mountPath"].rstrip("/"), mount.get("subPath", "").strip("/")
            for name, text in content.items():
                if not sub_path:
                    files[f"{path}/{name}"] = text
                elif name == sub_path:
                    files[path] = text
                elif name.startswith(f"{sub_path}/"):
                    files[f"{path}/{name[len(sub_path) + 1 :]}"] = text
        return files

    def _content(self, pod: Obj, volume: Obj, node: Obj) -> tuple[dict[str, str], str]:
        """(relative path to text, error text) of one volume."""
        if "configMap" in volume:
            return self._keyed(pod, "configmaps", volume["configMap"].get("name", ""), volume["configMap"])
        if "secret" in volume:
            return self._keyed(pod, "secrets", volume["secret"].get("secretName", ""), volume["secret"])
        if "downwardAPI" in volume:
            return self._downward(pod, volume["downwardAPI"], node), ""
        if "projected" in volume:
            return self._projected(pod, volume["projected"], node)
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = self._lookup(Key("persistentvolumeclaims", pod["metadata"]["namespace"], name))
            return {}, "" if claim is not None else f'persistentvolumeclaim "{name}" not found'
        return {}, ""

    def _projected(self, pod: Obj, projected: Obj, node: Obj) -> tuple[dict[str, str], str]:
        content: dict[str, str] = {}
        for source in projected.get("sources") or ():
            more: dict[str, str] = {}
            error = ""
            if "serviceAccountToken" in source:
                token = source["serviceAccountToken"]
                more = {token["path"]: self._token(pod, token)}
            elif "configMap" in source:
                more, error = self._keyed(
                    pod, "configmaps", source["configMap"].get("name", ""), source["configMap"]
                )
            elif "secret" in source:
                more, error = self._keyed(pod, "secrets", source["secret"].get("name", ""), source["secret"])
            elif "downwardAPI" in source:
                more = self._downward(pod, source["downwardAPI"], node)
            if error:
                return {}, error
            content |= more
        return content, ""

    def _keyed(self, pod: Obj, resource: str, name: str, source: Obj) -> tuple[dict[str, str], str]:
        optional = bool(source.get("optional"))
        found = self._lookup(Key(resource, pod["metadata"]["namespace"], name))
        if found is None:
            return {}, "" if optional else f'{_TEXTS[resource][0]} "{name}" not found'
        data = data_of(found)
        items = source.get("items")
        if not items:
            return data, ""
        content = {}
        for item in items:
            if item["key"] in data:
                content[item["path"]] = data[item["key"]]
            elif not optional:
                return {}, f"references non-existent {_TEXTS[resource][1]} key: {item['key']}"
        return content, ""

    def _downward(self, pod: Obj, source: Obj, node: Obj) -> dict[str, str]:
        content = {}
        for item in source.get("items") or ():
            if "fieldRef" in item:
                content[item["path"]] = field_value(pod, item["fieldRef"]["fieldPath"])
            else:
                container = pod["spec"]["containers"][0]
                content[item["path"]] = resource_value(pod, container, node, item["resourceFieldRef"])
        return content


def shared_mounts(pod: Obj, container: Obj) -> dict[str, str]:
    """Where a container mounts its pod's emptyDir volumes: path to volume name."""
    shared = {volume["name"] for volume in pod["spec"].get("volumes") or () if "emptyDir" in volume}
    mounts = container.get("volumeMounts") or ()
    return {m["mountPath"].rstrip("/"): m["name"] for m in mounts if m["name"] in shared and not m.get("subPath")}


def tmpfs_sizes(pod: Obj, container: Obj, node: Obj) -> dict[str, int]:
    """Volumes of a container that are kept in memory, with their sizes: the least of the volume's limit, the pod's
    memory limits and the node's memory."""
    mounted = set(shared_mounts(pod, container).values())
    memory = [((c.get("resources") or {}).get("limits") or {}).get("memory") for c in pod["spec"]["containers"]]
    most = quantity(((node.get("status") or {}).get("allocatable") or {}).get("memory"))
    if all(memory):
        most = min(most, sum(quantity(limit) for limit in memory))
    sizes = {}
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("emptyDir") or {}
        if source.get("medium") == "Memory" and volume["name"] in mounted:
            own = quantity(source.get("sizeLimit"))
            sizes[volume["name"]] = int(min(most, own) if own else most)
    return sizes


def uses(pod: Obj, resource: str, name: str) -> bool:
    """Whether a pod mounts this ConfigMap or Secret as a volume."""
    field, key = ("configMap", "name") if resource == "configmaps" else ("secret", "secretName")
    for volume in pod["spec"].get("volumes") or ():
        if (volume.get(field) or {}).get(key) == name:
            return True
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (source.get(field) or {}).get("name") == name:
                return True
    return False
