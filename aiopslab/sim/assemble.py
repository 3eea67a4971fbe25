"""Puts the parts of an embedded cluster together, without any socket."""

from __future__ import annotations

from dataclasses import dataclass

from aiopslab.sim.core.api import Api, DeleteOptions
from aiopslab.sim.core.bootstrap import bootstrap
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


def assemble(
    seed: int,
    start: float,
    world: World | None = None,
    bare: bool = False,
    root_ca: str = "",
    kernel_api: tuple[Kernel, Api] | None = None,
) -> Assembly:
    """A fresh, settled cluster whose clock stands at ``start`` (Unix seconds).

    ``world`` None: containers only run or exit (``BareWorld``). ``bare``: three plain nodes, no add-ons, no
    metrics API. ``root_ca`` is the PEM text for ``kube-root-ca.crt``. A world that needs the kernel and the
    store first is built between ``make_core`` and this call: pass ``make_core``'s result as ``kernel_api``.
    """
    kernel, api = kernel_api or make_core(seed, start)
    runtime: World = world if world is not None else BareWorld()
    if not bare:
        for kind in metrics_kinds():
            api.kinds.add(kind)
    for resource, obj in bootstrap_objects():
        api.put(Key(resource, "", obj["metadata"]["name"]), obj, SERVER_MANAGER)

    def delete(resource: str, namespace: str, name: str) -> None:
        api.delete(resource, namespace, name, DeleteOptions())

    kernel.add(DefinitionCleaner(kernel, delete))
    register(kernel, api, runtime, root_ca=root_ca)
    bootstrap(api, bare=bare)
    kernel.settle()
    return Assembly(kernel, api, api.kinds, runtime)


def make_core(seed: int, start: float) -> tuple[Kernel, Api]:
    """An empty cluster: kernel and API, nothing in it, no controllers."""
    kernel = Kernel(seed, start)
    return kernel, Api(kernel, Kinds())
