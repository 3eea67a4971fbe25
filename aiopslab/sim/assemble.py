"""Puts the parts of an embedded cluster together, without any socket."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.core.api import Api, DeleteOptions
from aiopslab.sim.core.bootstrap import WORKERS, bootstrap
from aiopslab.sim.core.control_plane import register
from aiopslab.sim.core.crd import DefinitionCleaner
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.kinds import Kinds, metrics_kinds
from aiopslab.sim.core.kubelet import BareWorld
from aiopslab.sim.core.ports import World
from aiopslab.sim.core.rbacroles import bootstrap_objects
from aiopslab.sim.core.store import Key

SERVER_MANAGER = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class Assembly:
    """One cluster: its clock and store, its API, its kinds, and what its containers do."""

    kernel: Kernel
    api: Api
    kinds: Kinds
    world: World


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fresh cluster is to be. ``bare``: plain nodes, no add-ons, no metrics API. ``root_ca`` is the PEM text
    for ``kube-root-ca.crt``."""

    bare: bool = False
    workers: int = WORKERS
    root_ca: str = ""


def assemble(
    seed: int, start: float, world: World | None = None, bare: bool = False, root_ca: str = ""
) -> Assembly:
    """A fresh, settled cluster whose clock stands at ``start`` (Unix seconds). ``world`` None: containers only run or
    exit (``BareWorld``)."""
    kernel, api = make_core(seed, start)
    return equip(kernel, api, world if world is not None else BareWorld(), Plan(bare, root_ca=root_ca))


def equip(kernel: Kernel, api: Api, world: World, plan: Plan = Plan()) -> Assembly:
    """Give an empty cluster its kinds, controllers and nodes; for a world that needs kernel and store first."""
    if not plan.bare:
        for kind in metrics_kinds():
            api.kinds.add(kind)
    for resource, obj in bootstrap_objects():
        api.put(Key(resource, "", obj["metadata"]["name"]), obj, SERVER_MANAGER)

    def delete(resource: str, namespace: str, name: str) -> None:
        api.delete(resource, namespace, name, DeleteOptions())

    kernel.add(DefinitionCleaner(kernel, delete))
    register(kernel, api, world, root_ca=plan.root_ca)
    bootstrap(api, bare=plan.bare, workers=plan.workers)
    kernel.settle()
    return Assembly(kernel, api, api.kinds, world)


def make_core(seed: int, start: float) -> tuple[Kernel, Api]:
    """An empty cluster: kernel and API, nothing in it, no controllers."""
    kernel = Kernel(seed, start)
    return kernel, Api(kernel, Kinds())
