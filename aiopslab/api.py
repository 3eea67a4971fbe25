"""The one module that content (``faults/``, ``problems/`` and the like) may import.

Everything here is kept compatible: a fault written against it goes on working.
"""

from __future__ import annotations

from aiopslab.errors import AIOpsLabError, InjectionError
from aiopslab.inject.protocol import Fault, Saved, Site
from aiopslab.kube.client import Kube, Obj
from aiopslab.kube.errors import KubeError

__all__ = ["AIOpsLabError", "Fault", "InjectionError", "Kube", "KubeError", "Obj", "Saved", "Site"]
