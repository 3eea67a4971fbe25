"""What a command inside a container sees and does: a small simulated userland.

``run(machine, argv, stdin)`` executes one command. Which programs exist depends on the image: a distroless
image has none but its own binary. Network tools go through ``Machine.network``, which gives the same outcome
that the application's own traffic would get.
"""

from __future__ import annotations

from aiopslab.sim.core.ports import ExecResult
from aiopslab.sim.world.userland.machine import Machine, Network, Process
from aiopslab.sim.world.userland.run import run

__all__ = ["ExecResult", "Machine", "Network", "Process", "run"]
