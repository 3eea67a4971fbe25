"""Pod addresses of one node: probing from a hash of the pod's identity, so that order hardly matters."""

from __future__ import annotations

from aiopslab.sim.core.ids import Ids

FIRST_HOST = 2  # .0 is the network, .1 the bridge
LAST_HOST = 254


class Addresses:
    """Free and taken addresses of a node's /24."""

    def __init__(self, ids: Ids, pod_cidr: str) -> None:
        self._ids = ids
        self._prefix = pod_cidr.rsplit(".", 1)[0]
        self._taken: dict[str, str] = {}

    def take(self, namespace: str, name: str, uid: str) -> str:
        """An address for a pod; the same pod gets the same one while the node is not crowded.

        When all are taken the pod waits: an empty string is returned.
        """
        size = LAST_HOST - FIRST_HOST + 1
        first = self._ids.number(size, "pod-ip", self._prefix, namespace, name)
        for step in range(size):
            address = f"{self._prefix}.{FIRST_HOST + (first + step) % size}"
            if address not in self._taken:
                self._taken[address] = uid
                return address
        return ""

    def release(self, address: str, uid: str) -> None:
        """Give an address back; a pod cannot free what belongs to another."""
        if self._taken.get(address) == uid:
            del self._taken[address]
