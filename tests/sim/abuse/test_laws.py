"""Laws of the API under random use: no lost update, versions only rise, a refusal changes nothing, and a watch from
any moment on leads to the state that there is."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aiopslab.sim.assemble import assemble
from aiopslab.sim.core.api import Api, DeleteOptions
from aiopslab.sim.core.apierrors import ApiError
from aiopslab.sim.core.options import WriteOptions
from aiopslab.sim.core.store import Key
from aiopslab.sim.server.auth import ADMIN

MAPS = "configmaps"
names = st.sampled_from(["a", "b", "c"])
fields = st.sampled_from(["x", "y"])
values = st.text("01", min_size=1, max_size=2)
PATCH_TYPES = ("merge", "strategic", "json", "apply")


def patch_of(kind: str, name: str, data: dict[str, str]) -> Any:
    """A patch that sets ``data`` (which has one entry)."""
    (field, value), *_ = data.items()
    if kind == "json":
        return [{"op": "add", "path": f"/data/{field}", "value": value}]
    body: dict[str, Any] = {"data": data}
    if kind == "apply":
        body |= {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return body


class Laws(RuleBasedStateMachine):
    """ConfigMaps in one namespace against a dictionary of what each should hold."""

    api: Api

    @initialize()
    def begin(self) -> None:
        """A fresh cluster."""
        self.api = assemble(7, 1748854800.0, bare=True).api
        self.model: dict[str, dict[str, str]] = {}
        self.stale: dict[str, dict[str, Any]] = {}
        self.start = self.api.store.revision
        self.replayed = self._stored()
        self.last = self.start

    def _stored(self) -> dict[str, dict[str, Any]]:
        return {o["metadata"]["name"]: o for o in self.api.list(MAPS, "default") if o["metadata"]["name"] in "abc"}

    def _options(self, dry: bool = False, manager: str = "m") -> WriteOptions:
        return WriteOptions(manager, dry_run=dry, force=True, user=ADMIN)

    def _refused(self, call: Any, *codes: int) -> None:
        before = self.api.store.revision
        try:
            call()
        except ApiError as error:
            assert error.code in codes, error.status
            assert self.api.store.revision == before
        else:
            raise AssertionError("it was accepted")

    @rule(name=names, field=fields, value=values, dry=st.booleans())
    def create(self, name: str, field: str, value: str, dry: bool) -> None:
        """A new object appears unless there is one already."""
        body = {"metadata": {"name": name}, "data": {field: value}}

        def call() -> Any:
            return self.api.create(MAPS, "default", body, self._options(dry))

        if name in self.model:
            self._refused(call, 409)
            return
        before = self.api.store.revision
        call()
        if dry:
            assert self.api.store.revision == before
        else:
            self.model[name] = {field: value}

    @rule(name=names)
    def read(self, name: str) -> None:
        """A client reads an object to write it back later."""
        if name in self.model:
            self.stale[name] = self.api.get(MAPS, "default", name)

    @rule(name=names, field=fields, value=values)
    def write_back(self, name: str, field: str, value: str) -> None:
        """An update from an outdated copy is refused: nobody's change is lost."""
        copy = self.stale.get(name)
        if copy is None:
            return
        current = self.api.store.get(Key(MAPS, "default", name))
        body = {**copy, "data": {**copy["data"], field: value}}

        def call() -> Any:
            return self.api.update(MAPS, "default", name, body, self._options())

        if current is None:
            self._refused(call, 404, 409)
        elif current["metadata"]["resourceVersion"] != copy["metadata"]["resourceVersion"]:
            self._refused(call, 409)
        else:
            call()
            self.model[name] = body["data"]

    @rule(name=names, field=fields, value=values, kind=st.sampled_from(PATCH_TYPES), who=st.sampled_from("pq"))
    def patch(self, name: str, field: str, value: str, kind: str, who: str) -> None:
        """A patch changes what it names; an apply also takes away what its manager no longer names."""
        body = patch_of(kind, name, {field: value})
        if kind == "apply":
            self._apply(name, body, who)
            return

        def call() -> Any:
            return self.api.patch(MAPS, "default", name, kind, body, self._options(manager=who))

        if name not in self.model:
            self._refused(call, 404)
            return
        stored = call()
        self.model[name] = {**self.model[name], field: value}
        assert stored["data"] == self.model[name]

    def _apply(self, name: str, body: Any, who: str) -> None:
        stored = self.api.patch(MAPS, "default", name, "apply", body, self._options(manager=who))
        (field, value), *_ = body["data"].items()
        assert stored["data"][field] == value
        kept = {k: v for k, v in stored["data"].items() if k != field}
        assert kept.items() <= self.model.get(name, {}).items()
        self.model[name] = stored["data"]

    @rule(name=names, body=st.sampled_from([{"data": 5}, {"data": {"x": 1}}, {"data": {"no such/key": "1"}}]))
    def nonsense(self, name: str, body: Any) -> None:
        """What does not fit the schema is refused."""
        if name in self.model:
            call = lambda: self.api.patch(MAPS, "default", name, "merge", body, self._options())  # noqa: E731
            self._refused(call, 400, 422)

    @rule(name=names)
    def delete(self, name: str) -> None:
        """An object goes once."""
        call = lambda: self.api.delete(MAPS, "default", name, DeleteOptions())  # noqa: E731
        if name not in self.model:
            self._refused(call, 404)
            return
        call()
        del self.model[name]

    @invariant()
    def holds_what_the_model_says(self) -> None:
        """State equals model, versions only rise, replay equals state."""
        if not hasattr(self, "model"):
            return
        stored = self._stored()
        assert {name: o["data"] for name, o in stored.items()} == self.model
        versions = [c.revision for c in self.api.store.since(self.last)]
        assert versions == sorted(set(versions))
        for change in self.api.store.since(self.last):
            assert change.obj["metadata"]["resourceVersion"] == str(change.revision)
            if change.key.resource != MAPS or change.key.name not in "abc":
                continue
            assert (change.type == "ADDED") == (change.key.name not in self.replayed)
            if change.type == "DELETED":
                del self.replayed[change.key.name]
            else:
                self.replayed[change.key.name] = change.obj
        self.last = self.api.store.revision
        assert self.replayed == stored


TestLaws = Laws.TestCase
TestLaws.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
