"""Registration of everything that makes the cluster move, in the order in which it works."""

from __future__ import annotations

from aiopslab.sim.core.api import Api
from aiopslab.sim.core.controllers.apiservices import ApiServices
from aiopslab.sim.core.controllers.cronjob import CronJobs
from aiopslab.sim.core.controllers.daemonset import DaemonSets
from aiopslab.sim.core.controllers.deployment import Deployments
from aiopslab.sim.core.controllers.disruption import DisruptionBudgets
from aiopslab.sim.core.controllers.endpoints import EndpointMirroring, EndpointSlices, LegacyEndpoints
from aiopslab.sim.core.controllers.garbage import GarbageCollector, PodGarbage
from aiopslab.sim.core.controllers.hpa import Autoscalers
from aiopslab.sim.core.controllers.index import Index
from aiopslab.sim.core.controllers.jobs import Jobs
from aiopslab.sim.core.controllers.namespaces import NamespaceDefaults, Namespaces
from aiopslab.sim.core.controllers.nodes import NodeLifecycle, NodeTaints
from aiopslab.sim.core.controllers.quota import ResourceQuotas
from aiopslab.sim.core.controllers.replicaset import ReplicaSets
from aiopslab.sim.core.controllers.statefulset import StatefulSets
from aiopslab.sim.core.controllers.volumes import VolumeClaims, VolumeProtection
from aiopslab.sim.core.kernel import Kernel
from aiopslab.sim.core.kubelet import Kubelets
from aiopslab.sim.core.kubelet.heartbeat import Heartbeats
from aiopslab.sim.core.ports import World
from aiopslab.sim.core.scheduler import Scheduler


def register(kernel: Kernel, api: Api, world: World, root_ca: str = "") -> Kubelets:
    """Add all controllers to ``kernel``. ``root_ca`` (PEM) goes into every namespace's CA bundle.

    Workload controllers come before the scheduler, so that pods that appear in one instant are placed by
    name and not by the order of their creation. Returns the kubelets.
    """
    index = Index(kernel.store)
    kernel.add(NamespaceDefaults(kernel, api, index, root_ca=root_ca))
    kernel.add(Autoscalers(kernel, api, index, world))
    for controller in (
        GarbageCollector,
        Namespaces,
        NodeTaints,
        Deployments,
        StatefulSets,
        DaemonSets,
        CronJobs,
        Jobs,
        ReplicaSets,
        VolumeClaims,
        VolumeProtection,
        Scheduler,
    ):
        kernel.add(controller(kernel, api, index))
    kubelets = Kubelets(kernel, api, index, world)
    kernel.add(kubelets)
    for late in (
        EndpointSlices,
        LegacyEndpoints,
        EndpointMirroring,
        DisruptionBudgets,
        ResourceQuotas,
        ApiServices,
        PodGarbage,
        NodeLifecycle,
        Heartbeats,
    ):
        kernel.add(late(kernel, api, index))
    return kubelets
