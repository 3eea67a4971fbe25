"""PersistentVolumes and claims: binding, provisioning by a local-path storage class, protection."""

from __future__ import annotations

from collections.abc import Iterable

from aiopslab.sim.core.controllers import pods as podlib
from aiopslab.sim.core.controllers.common import (
    Base,
    annotations_of,
    deleting,
    key_of,
    labels_of,
    with_metadata,
    with_spec,
)
from aiopslab.sim.core.controllers.labels import label_selector_matches
from aiopslab.sim.core.store import Change, Key, Obj

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
CLASSES = "storage.k8s.io/storageclasses"
CLAIM_GUARD, VOLUME_GUARD = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
LOCAL_PROVISIONER = "rancher.io/local-path"
# A helper pod makes the directory on the node.
PROVISION_S = 2.5
RETRY_S = 15.0
NO_VOLUME = "no persistent volumes available for this claim and no storage class is set"
FIRST_CONSUMER = "waiting for first consumer to be created before binding"
EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{0}' or manually by the system"
    " administrator. If volume creation is delayed, please verify that the provisioner is running and"
    " correctly registered."
)


class VolumeClaims(Base):
    """The persistentvolume-controller."""

    name = "persistentvolume-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """Claims; volumes and classes wake the claims that wait."""
        key = change.key
        if key.resource in (CLAIMS, VOLUMES):
            found = [key]
        elif key.resource == CLASSES:
            found = []
        else:
            return ()
        if key.resource != CLAIMS:
            found += [
                key_of(CLAIMS, one) for one in self.store.list(CLAIMS) if not one["spec"].get("volumeName")
            ]
        elif change.type == "DELETED":
            found += [
                key_of(VOLUMES, one) for one in self.store.list(VOLUMES) if _claimed_by(one, change.obj)
            ]
        return found

    def reconcile(self, key: Key) -> None:
        """Bring one claim or one volume nearer to bound, released or gone."""
        obj = self.store.get(key)
        if obj is None:
            return
        if key.resource == VOLUMES:
            self._volume(key, obj)
        elif not deleting(obj):
            self._claim(key, obj)

    # Claims -----------------------------------------------------------------------------------------------

    def _claim(self, key: Key, claim: Obj) -> None:
        if claim["spec"].get("volumeName"):
            volume = self.store.get(Key(VOLUMES, "", claim["spec"]["volumeName"]))
            if volume is None:
                if (claim.get("status") or {}).get("phase") == "Bound":
                    self.update_status(key, {**claim["status"], "phase": "Lost"})
            elif not volume["spec"].get("claimRef") or _claimed_by(volume, claim):
                self._bind(key, claim, volume)
            return
        volume = self._match(claim)
        class_name = claim["spec"].get("storageClassName") or ""
        storage = self.store.get(Key(CLASSES, "", class_name)) if class_name else None
        waits = storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer"
        if waits and SELECTED_NODE not in annotations_of(claim):
            self._say(claim, "Normal", "WaitForFirstConsumer", FIRST_CONSUMER)
        elif volume is not None:
            self._bind(key, claim, volume)
        elif not class_name:
            self._say(claim, "Normal", "FailedBinding", NO_VOLUME)
        elif storage is None:
            text = f'storageclass.storage.k8s.io "{class_name}" not found'
            self._say(claim, "Warning", "ProvisioningFailed", text)
        else:
            self._provision(key, claim, storage)

    def _say(self, claim: Obj, type_: str, reason: str, message: str) -> None:
        """Report and look again later, as the real controller's resync does."""
        self.event(claim, type_, reason, message)
        self.requeue_after(RETRY_S, key_of(CLAIMS, claim))

    def _match(self, claim: Obj) -> Obj | None:
        """The smallest volume that suits; one reserved for the claim goes first."""
        spec = claim["spec"]
        wanted = podlib.quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage"))
        fitting = []
        for volume in self.store.list(VOLUMES):
            offered = volume["spec"]
            if _claimed_by(volume, claim):
                return volume
            free = not offered.get("claimRef") and not deleting(volume)
            same_class = (offered.get("storageClassName") or "") == (spec.get("storageClassName") or "")
            modes = set(spec.get("accessModes") or ()) <= set(offered.get("accessModes") or ())
            selector = spec.get("selector")
            chosen = selector is None or label_selector_matches(selector, labels_of(volume))
            size = podlib.quantity((offered.get("capacity") or {}).get("storage"))
            if free and same_class and modes and chosen and size >= wanted:
                fitting.append((size, volume["metadata"]["name"], volume))
        return min(fitting, key=lambda item: item[:2])[2] if fitting else None

    def _bind(self, key: Key, claim: Obj, volume: Obj) -> None:
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": key.name,
            "namespace": key.namespace,
            "resourceVersion": claim["metadata"]["resourceVersion"],
            "uid": claim["metadata"]["uid"],
        }
        volume_key = key_of(VOLUMES, volume)
        if not _claimed_by(volume, claim) or not volume["spec"]["claimRef"].get("uid"):
            marked = with_metadata(volume, annotations={**annotations_of(volume), BOUND_BY_CONTROLLER: "yes"})
            volume = self.update(volume_key, with_spec(marked, claimRef=reference))
        self.update_status(volume_key, {**(volume.get("status") or {}), "phase": "Bound"})
        if not claim["spec"].get("volumeName"):
            notes = {**annotations_of(claim), BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
            marked = with_metadata(claim, annotations=notes)
            self.update(key, with_spec(marked, volumeName=volume["metadata"]["name"]))
        offered = volume["spec"]
        status = {"phase": "Bound", "accessModes": offered["accessModes"], "capacity": offered["capacity"]}
        self.update_status(key, status)

    def _provision(self, key: Key, claim: Obj, storage: Obj) -> None:
        provisioner = storage["provisioner"]
        if annotations_of(claim).get(PROVISIONER) != provisioner:
            notes = {**annotations_of(claim), PROVISIONER: provisioner}
            claim = self.update(key, with_metadata(claim, annotations=notes))
        self._say(claim, "Normal", "ExternalProvisioning", EXTERNAL.format(provisioner))
        if provisioner == LOCAL_PROVISIONER:
            uid = claim["metadata"]["uid"]
            self.kernel.call_after(PROVISION_S, f"provision/{uid}", lambda: self._provisioned(key, uid))

    def _provisioned(self, key: Key, uid: str) -> None:
        claim = self.store.get(key)
        if claim is None or claim["metadata"]["uid"] != uid or claim["spec"].get("volumeName"):
            return
        storage = self.store.get(Key(CLASSES, "", claim["spec"].get("storageClassName") or "")) or {}
        name = f"pvc-{uid}"
        volume_key = Key(VOLUMES, "", name)
        if self.store.get(volume_key) is None:
            self.update(volume_key, self._local_volume(name, key, claim, storage))
            component = f"{LOCAL_PROVISIONER}_local-path-provisioner"
            text = f"Successfully provisioned volume {name}"
            self.api.event(claim, "Normal", "ProvisioningSucceeded", text, component)

    def _local_volume(self, name: str, key: Key, claim: Obj, storage: Obj) -> Obj:
        node = annotations_of(claim).get(SELECTED_NODE, "")
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec: Obj = {
            "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": key.name,
                "namespace": key.namespace,
                "uid": claim["metadata"]["uid"],
            },
            "hostPath": {
                "path": f"/var/local-path-provisioner/{name}_{key.namespace}_{key.name}",
                "type": "DirectoryOrCreate",
            },
            "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
            "storageClassName": claim["spec"].get("storageClassName", ""),
            "volumeMode": "Filesystem",
        }
        if node:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
        metadata = {
            "name": name,
            "annotations": {PROVISIONED_BY: LOCAL_PROVISIONER},
            "finalizers": [VOLUME_GUARD],
        }
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Pending"},
        }

    # Volumes ----------------------------------------------------------------------------------------------

    def _volume(self, key: Key, volume: Obj) -> None:
        reference = volume["spec"].get("claimRef")
        status = volume.get("status") or {}
        if reference is None:
            if status.get("phase") != "Available":
                self.update_status(key, {**status, "phase": "Available"})
            return
        claim = self.store.get(Key(CLAIMS, reference.get("namespace", ""), reference.get("name", "")))
        if claim is not None and reference.get("uid") in (None, claim["metadata"]["uid"]):
            if not claim["spec"].get("volumeName") and not deleting(claim):
                self._claim(key_of(CLAIMS, claim), claim)
            return
        if not reference.get("uid"):
            if status.get("phase") != "Available":
                self.update_status(key, {**status, "phase": "Available"})
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and not deleting(volume):
            self.delete(key)
        elif status.get("phase") != "Released":
            self.update_status(key, {**status, "phase": "Released"})


class VolumeProtection(Base):
    """The pvc- and pv-protection controllers: what is in use is not removed."""

    name = "pvc-protection-controller"

    def keys(self, change: Change) -> Iterable[Key]:
        """Claims and volumes that are being deleted, and those that a changed pod uses or used."""
        key = change.key
        if key.resource in (CLAIMS, VOLUMES):
            if (
                key.resource == CLAIMS
                and change.type == "DELETED"
                and (name := change.obj["spec"].get("volumeName"))
            ):
                return (Key(VOLUMES, "", name),)
            return (key,) if deleting(change.obj) and change.type != "DELETED" else ()
        if key.resource == "pods" and (change.type == "DELETED" or podlib.finished(change.obj)):
            return [Key(CLAIMS, key.namespace, name) for name in _claims_of(change.obj)]
        return ()

    def reconcile(self, key: Key) -> None:
        """Take the guard off an object that is being deleted and that nobody uses."""
        obj = self.store.get(key)
        guard = CLAIM_GUARD if key.resource == CLAIMS else VOLUME_GUARD
        if obj is None or not deleting(obj) or guard not in (obj["metadata"].get("finalizers") or ()):
            return
        used = self._claim_used(key) if key.resource == CLAIMS else self._volume_used(obj)
        if not used:
            kept = [entry for entry in obj["metadata"]["finalizers"] if entry != guard]
            self.update(key, with_metadata(obj, finalizers=kept or None))

    def _claim_used(self, key: Key) -> bool:
        return any(
            key.name in _claims_of(pod) and pod["spec"].get("nodeName") and not podlib.finished(pod)
            for pod in self.index.listed("pods", key.namespace)
        )

    def _volume_used(self, volume: Obj) -> bool:
        reference = volume["spec"].get("claimRef")
        if not reference:
            return False
        claim = self.store.get(Key(CLAIMS, reference.get("namespace", ""), reference.get("name", "")))
        return claim is not None and claim["metadata"]["uid"] == reference.get("uid")


def _claims_of(pod: Obj) -> list[str]:
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    ]


def _claimed_by(volume: Obj, claim: Obj) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    meta = claim["metadata"]
    return (
        reference.get("name") == meta["name"]
        and reference.get("namespace") == meta["namespace"]
        and reference.get("uid") in (None, meta["uid"])
    )
