"""Laws of kinds with a spec and a status: the generation counts changes of what is asked and of nothing else, status
and spec do not reach into each other, finalizers hold an object until the last one goes, and appliers own fields."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aiopslab.sim.assemble import assemble
from aiopslab.sim.core.api import Api, DeleteOptions
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.server.auth import ADMIN

DEPLOYMENTS, WIDGETS = "apps/deployments", "example.org/widgets"
FINALIZER = "example.org/hold"
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
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
                            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                            "status": {"type": "object", "properties": {"observedGeneration": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}
kinds = st.sampled_from([DEPLOYMENTS, WIDGETS])
names = st.sampled_from(["a", "b"])
counts = st.integers(0, 3)


def manifest(resource: str, name: str, replicas: int) -> dict[str, Any]:
    """An object that asks for ``replicas``; a Deployment is paused by its missing controllers, not by its spec."""
    meta: dict[str, Any] = {"name": name, "finalizers": [FINALIZER]}
    if resource == WIDGETS:
        return {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": meta, "spec": {"replicas": replicas}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


class Expected:
    """What the model knows of one object."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.generation = 1
        self.seen: int | None = None
        self.ending = False
        self.owners: set[str] = {"m"}  # managers of spec.replicas


class WorkloadLaws(RuleBasedStateMachine):
    """Deployments and custom resources against a model; the controllers are held, so that only clients write."""

    api: Api

    @initialize()
    def begin(self) -> None:
        """A fresh cluster that knows the custom resource."""
        assembly = assemble(7, 1748854800.0, bare=True)
        self.api = assembly.api
        self.api.create("apiextensions.k8s.io/customresourcedefinitions", "", DEFINITION, self._options())
        assembly.kernel.settle()
        assembly.kernel.advance(assembly.kernel.now + 1)
        assembly.kernel.hold()
        self.model: dict[tuple[str, str], Expected] = {}

    def _options(self, manager: str = "m", force: bool = False) -> WriteOptions:
        return WriteOptions(manager, force=force, user=ADMIN)

    def _patch(self, resource: str, name: str, body: Any, subresource: str = "", who: str = "m") -> Any:
        return self.api.patch(resource, "default", name, "merge", body, self._options(who), subresource=subresource)

    def _refused(self, call: Any, *codes: int) -> None:
        before = self.api.store.revision
        try:
            call()
        except ApiError as error:
            assert error.code in codes, error.status
            assert self.api.store.revision == before
        else:
            raise AssertionError("it was accepted")

    @rule(resource=kinds, name=names, replicas=counts)
    def create(self, resource: str, name: str, replicas: int) -> None:
        """A new object is of generation 1, whatever it claims; what exists, or is ending, is in the way."""
        body = manifest(resource, name, replicas)
        body["metadata"]["generation"] = 9
        body["status"] = {"observedGeneration": 9}
        call = lambda: self.api.create(resource, "default", body, self._options())  # noqa: E731
        if (resource, name) in self.model:
            self._refused(call, 409)
            return
        call()
        self.model[resource, name] = Expected(replicas)

    @rule(resource=kinds, name=names, replicas=counts, who=st.sampled_from("mn"))
    def ask(self, resource: str, name: str, replicas: int, who: str) -> None:
        """A change of the spec counts once; a status sent along does not; asking for the same changes nothing."""
        body = {"spec": {"replicas": replicas}, "status": {"observedGeneration": 7}}
        expected = self.model.get((resource, name))
        if expected is None:
            self._refused(lambda: self._patch(resource, name, body, who=who), 404)
            return
        self._patch(resource, name, body, who=who)
        if replicas != expected.replicas:
            expected.generation += 1
            expected.replicas = replicas
            expected.owners = {who}

    @rule(resource=kinds, name=names, seen=counts)
    def report(self, resource: str, name: str, seen: int) -> None:
        """A status is no change of what is asked; a spec sent along is not looked at."""
        expected = self.model.get((resource, name))
        if expected is None:
            return
        seen = max(seen, expected.seen or 0)  # a Deployment's may not go back
        body = {"status": {"observedGeneration": seen}, "spec": {"replicas": 3}}
        self._patch(resource, name, body, subresource="status")
        expected.seen = seen

    @rule(resource=kinds, name=names, label=st.sampled_from("xy"))
    def label(self, resource: str, name: str, label: str) -> None:
        """Labels are no change of what is asked."""
        if (resource, name) in self.model:
            self._patch(resource, name, {"metadata": {"labels": {"l": label}}})

    @rule(resource=kinds, name=names, replicas=counts, who=st.sampled_from("pq"), force=st.booleans())
    def apply(self, resource: str, name: str, replicas: int, who: str, force: bool) -> None:
        """Another manager's field is taken with force only; the same value is shared."""
        expected = self.model.get((resource, name))
        if expected is None or expected.ending:
            return
        body = manifest(resource, name, replicas)

        def call() -> Any:
            return self.api.patch(resource, "default", name, "apply", body, self._options(who, force))

        others = expected.owners - {who}
        if replicas != expected.replicas and others and not force:
            self._refused(call, 409)
            return
        call()
        if replicas != expected.replicas:
            expected.generation += 1
            expected.replicas = replicas
            expected.owners = {who}
        else:
            expected.owners.add(who)

    @rule(resource=kinds, name=names)
    def delete(self, resource: str, name: str) -> None:
        """A finalizer keeps the object; the deletion is asked for once and counts as a change of what is asked."""
        expected = self.model.get((resource, name))
        call = lambda: self.api.delete(resource, "default", name, DeleteOptions())  # noqa: E731
        if expected is None:
            self._refused(call, 404)
            return
        _, gone = call()
        assert not gone
        if not expected.ending:
            expected.ending = True
            expected.generation += 1

    @rule(resource=kinds, name=names)
    def let_go(self, resource: str, name: str) -> None:
        """The last finalizer of an ending object takes the object along."""
        expected = self.model.get((resource, name))
        if expected is not None and expected.ending:
            self._patch(resource, name, {"metadata": {"finalizers": None}})
            del self.model[resource, name]

    @invariant()
    def holds_what_the_model_says(self) -> None:
        """State equals model."""
        if not hasattr(self, "model"):
            return
        stored = {(r, o["metadata"]["name"]): o for r in (DEPLOYMENTS, WIDGETS) for o in self.api.list(r, "default")}
        assert stored.keys() == self.model.keys()
        for key, expected in self.model.items():
            found = stored[key]
            assert found["spec"]["replicas"] == expected.replicas
            assert found["metadata"]["generation"] == expected.generation
            assert (found.get("status", {}).get("observedGeneration") or None) == (expected.seen or None)
            assert ("deletionTimestamp" in found["metadata"]) == expected.ending
            owners = {
                m["manager"]
                for m in found["metadata"]["managedFields"]
                if not m.get("subresource") and "f:replicas" in m["fieldsV1"].get("f:spec", {})
            }
            assert owners == expected.owners


TestWorkloadLaws = WorkloadLaws.TestCase
TestWorkloadLaws.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
