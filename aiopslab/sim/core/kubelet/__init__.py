"""The virtual kubelet: one per node, without containers; what containers do comes from ``ports.World``."""

from aiopslab.sim.core.kubelet.agent import Kubelets
from aiopslab.sim.core.kubelet.bare import BareWorld

__all__ = ["BareWorld", "Kubelets"]
