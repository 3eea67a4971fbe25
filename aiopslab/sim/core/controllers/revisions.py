"""The ReplicaSet of each revision of a Deployment: found by template, made when there is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.controllers import rollout
from aiopslab.sim.core.controllers.common import (
    annotations_of,
    condition,
    controlled_by,
    deleting,
    error_text,
    is_code,
    key_of,
    namespace_is_ending,
    owner_reference,
    with_metadata,
    with_spec,
)
from aiopslab.sim.core.ids import SUFFIX_ALPHABET
from aiopslab.sim.core.kernel import parse_time
from aiopslab.sim.core.store import Key, Obj

if TYPE_CHECKING:
    from aiopslab.sim.core.controllers.deployment import Deployments

SETS = "apps/replicasets"
DEPLOYMENTS = "apps/deployments"
HASH_LABEL = "pod-template-hash"
FNV_OFFSET, FNV_PRIME = 2166136261, 16777619
# Annotations of a Deployment that its ReplicaSets do not inherit.
OWN_ANNOTATIONS = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        rollout.REVISION,
        rollout.HISTORY,
        rollout.DESIRED,
        rollout.MAXIMUM,
    }
)


class Revisions:
    """Finds, creates and numbers the ReplicaSets of Deployments."""

    def __init__(self, controller: Deployments) -> None:
        self._controller = controller

    def find_new(self, deployment: Obj, sets: list[Obj]) -> Obj | None:
        """The oldest ReplicaSet whose template is the Deployment's; None when there is none yet."""
        wanted = deployment["spec"]["template"]
        same = [one for one in sets if not deleting(one) and _same_template(one["spec"]["template"], wanted)]
        return min(same, key=_age, default=None)

    def existing(self, deployment: Obj, sets: list[Obj]) -> Obj | None:
        """``find_new`` with its revision and annotations brought up to date."""
        new = self.find_new(deployment, sets)
        if new is None:
            return None
        highest = max((rollout.revision(one) for one in sets if one is not new), default=0)
        new = self._renumber(deployment, new, highest + 1)
        self._note(deployment, new, "FoundNewReplicaSet", "Found new replica set")
        return new

    def get_or_create(self, deployment: Obj, sets: list[Obj]) -> Obj | None:
        """The ReplicaSet of the current template. None when it could not be created; the Deployment's
        status then says why, and the reconcile is retried."""
        new = self.existing(deployment, sets)
        return new if new is not None else self._create(deployment, sets)

    def _create(self, deployment: Obj, sets: list[Obj]) -> Obj | None:
        controller, meta = self._controller, deployment["metadata"]
        key = Key(DEPLOYMENTS, meta["namespace"], meta["name"])
        body = self._body(deployment, sets)
        name = body["metadata"]["name"]
        try:
            new = controller.api.create(SETS, meta["namespace"], body, controller.options)
        except ApiError as error:
            if is_code(error, "AlreadyExists"):
                self._collided(key, deployment, name)
            elif not namespace_is_ending(error):
                self._refused(key, deployment, name, error_text(error))
            return None
        controller.forget(key)
        size = rollout.replicas(new)
        if size:
            message = f"Scaled up replica set {name} from 0 to {size}"
            controller.event(deployment, "Normal", "ScalingReplicaSet", message)
        self._number_deployment(deployment, rollout.revision(new))
        self._note(deployment, new, "NewReplicaSetCreated", "Created new replica set")
        return new

    def _body(self, deployment: Obj, sets: list[Obj]) -> Obj:
        meta, spec = deployment["metadata"], deployment["spec"]
        template = spec["template"]
        digest = template_hash(template, (deployment.get("status") or {}).get("collisionCount"))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
        selector = spec.get("selector") or {}
        highest = max((rollout.revision(one) for one in sets), default=0)
        annotations = _inherited(deployment) | {rollout.REVISION: str(highest + 1)}
        total = rollout.replicas(deployment)
        annotations[rollout.DESIRED] = str(total)
        annotations[rollout.MAXIMUM] = str(total + rollout.max_surge(deployment))
        body: Obj = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{digest}",
                "namespace": meta["namespace"],
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": rollout.initial_size(deployment, sets),
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest},
                },
                "template": {
                    **template,
                    "metadata": {**(template.get("metadata") or {}), "labels": labels},
                },
            },
        }
        if spec.get("minReadySeconds"):
            body["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        return body

    def _collided(self, key: Key, deployment: Obj, name: str) -> None:
        """The name is taken by a ReplicaSet of another template: salt the hash and try again."""
        current = self._controller.store.get(Key(SETS, key.namespace, name))
        ours = current is not None and controlled_by(current, deployment) and not deleting(current)
        if not ours:
            status = deployment.get("status") or {}
            count = (status.get("collisionCount") or 0) + 1
            self._controller.update_status(key, {**status, "collisionCount": count})
        self._controller.retry(key)

    def _refused(self, key: Key, deployment: Obj, name: str, text: str) -> None:
        message = f'Failed to create new replica set "{name}": {text}'
        if deployment["spec"].get("progressDeadlineSeconds") is not None:
            self._controller.set_progressing(key, "False", "FailedCreate", message)
        self._controller.event(deployment, "Warning", "ReplicaSetCreateError", message)
        self._controller.retry(key)

    def _renumber(self, deployment: Obj, new: Obj, number: int) -> Obj:
        old = annotations_of(new)
        annotations = {**old, **_inherited(deployment)}
        if rollout.revision(new) < number:
            annotations[rollout.REVISION] = str(number)
            if rollout.REVISION in old:
                history = [old[rollout.HISTORY]] if old.get(rollout.HISTORY) else []
                annotations[rollout.HISTORY] = ",".join([*history, old[rollout.REVISION]])
        wanted = deployment["spec"].get("minReadySeconds", 0)
        if annotations != old or new["spec"].get("minReadySeconds", 0) != wanted:
            changed = with_spec(with_metadata(new, annotations=annotations), minReadySeconds=wanted)
            if not wanted:
                changed["spec"].pop("minReadySeconds")
            new = self._controller.update(key_of(SETS, new), changed)
        self._number_deployment(deployment, rollout.revision(new))
        return new

    def _number_deployment(self, deployment: Obj, number: int) -> None:
        key = key_of(DEPLOYMENTS, deployment)
        current = self._controller.store.get(key)
        if current is None or annotations_of(current).get(rollout.REVISION) == str(number):
            return
        annotations = {**annotations_of(current), rollout.REVISION: str(number)}
        self._controller.update(key, with_metadata(current, annotations=annotations))

    def _note(self, deployment: Obj, new: Obj, reason: str, verb: str) -> None:
        """Progress: a first ReplicaSet was found, or a new one created."""
        if deployment["spec"].get("progressDeadlineSeconds") is None:
            return
        if reason == "FoundNewReplicaSet" and condition(deployment, "Progressing") is not None:
            return
        message = f'{verb} "{new["metadata"]["name"]}"'
        self._controller.set_progressing(key_of(DEPLOYMENTS, deployment), "True", reason, message)


def template_hash(template: Obj, collisions: int | None = None) -> str:
    """The ``pod-template-hash`` of a pod template: FNV-1a, 32 bits, in the alphabet of generated names."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    if collisions is not None:
        text += str(collisions)
    value = FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return "".join(SUFFIX_ALPHABET[ord(digit) % len(SUFFIX_ALPHABET)] for digit in str(value))


def _same_template(left: Obj, right: Obj) -> bool:
    return _bare(left) == _bare(right)


def _bare(template: Obj) -> Obj:
    meta = template.get("metadata") or {}
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != HASH_LABEL}
    return {**template, "metadata": {**meta, "labels": labels}}


def _inherited(deployment: Obj) -> dict[str, str]:
    return {name: value for name, value in annotations_of(deployment).items() if name not in OWN_ANNOTATIONS}


def _age(replica_set: Obj) -> tuple[float, int]:
    return parse_time(replica_set["metadata"]["creationTimestamp"]), rollout.revision(replica_set)
