"""Volumes of a pod, and the sources that they share with PersistentVolumes."""

from __future__ import annotations

from typing import Any

from aiopslab.sim.core.validate import values
from aiopslab.sim.core.validate.claims import check_claim_spec
from aiopslab.sim.core.validate.containers import check_pull_policy
from aiopslab.sim.core.validate.environment import check_field_ref, check_resource_ref
from aiopslab.sim.core.validate.errors import Errors
from aiopslab.sim.core.validate.meta import check_annotations, check_labels

Obj = dict[str, Any]
FILE_MODE_MAX = 0o777
MODE_DETAIL = "must be a number between 0 and 0777 (octal), both inclusive"
FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
CSI_NAME_MAX = 63
TOKEN_LEAST_S, TOKEN_MOST_S = 600, 1 << 32
# What each source cannot do without.
REQUIRED = {
    "persistentVolumeClaim": ("claimName",), "secret": ("secretName",), "configMap": ("name",),
    "hostPath": ("path",), "nfs": ("server", "path"), "csi": ("driver",), "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",), "awsElasticBlockStore": ("volumeID",), "glusterfs": ("endpoints", "path"),
    "iscsi": ("targetPortal", "iqn"), "rbd": ("monitors", "image"), "cephfs": ("monitors",),
    "cinder": ("volumeID",), "flexVolume": ("driver",), "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"), "vsphereVolume": ("volumePath",), "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",), "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",), "quobyte": ("registry", "volume"), "local": ("path",),
}  # fmt: skip
# Sources of a PersistentVolume, in the order in which they are looked at.
VOLUME_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
# Sources of a pod's volume, likewise.
POD_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip


def check_volumes(errors: Errors, volumes: list[Obj], path: str, pod: str | None = None) -> dict[str, str]:
    """Check volumes; returns the sources of those that mounts may use. ``pod`` is the pod's name, if it has one;
    None for a template."""
    found: dict[str, str] = {}
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name", "")
        before = len(errors)
        source = _check_sources(errors, volume, where, pod)
        if not name:
            errors.required(f"{where}.name")
        else:
            errors.invalid_each(f"{where}.name", name, values.dns_label(name))
        if name in found:
            errors.duplicate(f"{where}.name", name)
        if len(errors) == before:
            found[name] = source
    return found


def _check_sources(errors: Errors, volume: Obj, path: str, pod: str | None) -> str:
    sources = [name for name in POD_SOURCES if volume.get(name) is not None]
    if not sources:
        errors.required(path, "must specify a volume type")
        return ""
    name = sources[0]
    check_volume_source(errors, name, volume[name], path)
    if name == "ephemeral" and pod and volume.get("name"):
        claim = f"{pod}-{volume['name']}"
        for problem in values.dns_subdomain(claim):
            errors.invalid(f"{path}.name", volume["name"], f'PVC name "{claim}": {problem}')
    if name == "image" and pod is not None and not volume["image"].get("reference"):
        errors.required(f"{path}.image.reference")
    for extra in sources[1:]:
        errors.forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    return name


def check_volume_source(errors: Errors, name: str, source: Obj, path: str, *, persistent: bool = False) -> None:
    """One source of a pod's volume or of a PersistentVolume."""
    where = f"{path}.{'persistentDisk' if name == 'gcePersistentDisk' else name}"
    for field in REQUIRED.get(name, ()):
        if not source.get(field):
            errors.required(f"{where}.{field}")
    _check_mode(errors, source, where, "defaultMode")
    if name in ("secret", "configMap"):
        for index, item in enumerate(source.get("items") or ()):
            _check_item(errors, item, f"{where}.items[{index}]")
    elif name in ("hostPath", "local") and source.get("path"):
        _no_backsteps(errors, source["path"], f"{where}.path")
        if source.get("type", "") not in HOST_PATH_TYPES:
            errors.not_supported(f"{where}.type", source["type"], HOST_PATH_TYPES)
    elif name == "emptyDir" and source.get("sizeLimit") is not None and values.amount(source["sizeLimit"]) < 0:
        errors.forbidden(f"{where}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    elif name == "nfs" and not source.get("path", "").startswith("/"):
        errors.invalid(f"{where}.path", source.get("path", ""), "must be an absolute path")
    elif name == "csi":
        _check_csi(errors, source, where, persistent)
    elif name == "projected":
        _check_projected(errors, source.get("sources") or [], where)
    elif name == "downwardAPI":
        for item in source.get("items") or ():
            _check_file(errors, item, where)
    elif name == "ephemeral":
        _check_ephemeral(errors, source, where)
    elif name == "image":
        check_pull_policy(errors, source.get("pullPolicy", ""), f"{where}.pullPolicy")
    elif name in ("fc", "iscsi"):
        _check_fabric(errors, name, source, where)


def _check_csi(errors: Errors, source: Obj, path: str, persistent: bool) -> None:
    driver = source.get("driver", "")
    if len(driver) > CSI_NAME_MAX:
        errors.too_long(f"{path}.driver", CSI_NAME_MAX)
    errors.invalid_each(f"{path}.driver", driver, values.dns_subdomain(driver.lower()))
    if persistent and not source.get("volumeHandle"):
        errors.required(f"{path}.volumeHandle")
    if not persistent and (secret := source.get("nodePublishSecretRef")) is not None and not secret.get("name"):
        errors.required(f"{path}.nodePublishSecretRef.name")


def _check_fabric(errors: Errors, name: str, source: Obj, path: str) -> None:
    names, wwids = source.get("targetWWNs"), source.get("wwids")
    if name == "fc" and not names and not wwids:
        errors.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    elif name == "fc" and names and source.get("lun") is None:
        errors.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    if not 0 <= source.get("lun", 0) <= 255:
        errors.invalid(f"{path}.lun", source["lun"], "must be between 0 and 255, inclusive")


def _check_ephemeral(errors: Errors, source: Obj, path: str) -> None:
    claim = source.get("volumeClaimTemplate")
    if claim is None:
        errors.required(f"{path}.volumeClaimTemplate")
        return
    where, meta = f"{path}.volumeClaimTemplate", claim.get("metadata") or {}
    check_annotations(errors, meta.get("annotations"), f"{where}.metadata.annotations")
    check_labels(errors, meta.get("labels"), f"{where}.metadata.labels")
    for field in ("name", "generateName", "namespace"):
        if meta.get(field):
            errors.forbidden(f"{where}.metadata.{field}", "cannot be set")
    check_claim_spec(errors, claim.get("spec") or {}, f"{where}.spec")


def _check_mode(errors: Errors, holder: Obj, path: str, field: str) -> None:
    mode = holder.get(field)
    if isinstance(mode, int) and not 0 <= mode <= FILE_MODE_MAX:
        errors.invalid(f"{path}.{field}", mode, MODE_DETAIL)


def _check_item(errors: Errors, item: Obj, path: str) -> None:
    if not item.get("key"):
        errors.required(f"{path}.key")
    _check_file_path(errors, item.get("path", ""), f"{path}.path")
    _check_mode(errors, item, path, "mode")


def _check_file_path(errors: Errors, target: str, field: str) -> None:
    if not target:
        errors.required(field)
    values.check_descending(errors, field, target)
    if target.startswith("..") and not target.startswith("../"):
        errors.invalid(field, target, "must not start with '..'")


def _no_backsteps(errors: Errors, target: str, field: str) -> None:
    if ".." in target.split("/"):
        errors.invalid(field, target, "must not contain '..'")


def _check_file(errors: Errors, item: Obj, path: str) -> None:
    """A file of the downward API. The server's messages do not say which."""
    _check_file_path(errors, item.get("path", ""), f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        check_field_ref(errors, field, f"{path}.fieldRef", FILE_FIELDS)
        if resource is not None:
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        check_resource_ref(errors, resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    _check_mode(errors, item, path, "mode")


def _check_projected(errors: Errors, sources: list[Obj], path: str) -> None:
    taken: set[str] = set()
    for index, source in enumerate(sources):
        where = f"{path}.sources[{index}]"
        for name in ("secret", "configMap"):
            part = source.get(name)
            if part is None:
                continue
            if not part.get("name"):
                errors.required(f"{where}.{name}.name")
            for at, item in enumerate(part.get("items") or ()):
                _check_item(errors, item, f"{where}.{name}.items[{at}]")
                _check_taken(errors, item.get("path", ""), taken, path, part.get("name", ""))
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _check_file(errors, item, f"{where}.downwardAPI")
            _check_taken(errors, item.get("path", ""), taken, path, item.get("path", ""))
        if (token := source.get("serviceAccountToken")) is not None:
            _check_token(errors, token, where, path)
        if sum(1 for part in source.values() if part is not None) > 1:
            errors.forbidden(where, "may not specify more than 1 volume type per source")


def _check_taken(errors: Errors, target: str, taken: set[str], path: str, shown: str) -> None:
    if target and target in taken:
        errors.invalid(path, shown, "conflicting duplicate paths")
    taken.add(target)


def _check_token(errors: Errors, token: Obj, path: str, volume: str) -> None:
    seconds, field = token.get("expirationSeconds", 3600), f"{path}.serviceAccountToken.expirationSeconds"
    if seconds < TOKEN_LEAST_S:
        errors.invalid(field, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > TOKEN_MOST_S:
        errors.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")
    _check_file_path(errors, token.get("path", ""), f"{volume}.path")
