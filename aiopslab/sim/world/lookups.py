"""DNS questions that programs ask while they dial."""

from __future__ import annotations

import ipaddress

SEARCH_DOMAINS = 3  # namespace.svc.cluster.local, svc.cluster.local, cluster.local
RECORD_TYPES = ("A", "AAAA")


class Lookups:
    """DNS questions by (record type, response code), as a resolver with ``ndots:5`` asks them."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}

    def note(self, host: str, found: bool) -> None:
        """A program resolves ``host``: each search domain in turn, for both address families, until one has it.

        ``name`` is found in the first domain, ``name.namespace`` in the second, ``name.namespace.svc`` in the third
        and a full name only as it stands.
        """
        if _is_address(host):
            return
        full = host.endswith(".")
        depth = 0 if full else min(host.count("."), SEARCH_DOMAINS)
        misses = depth if found else 0 if full else SEARCH_DOMAINS + 1
        for kind in RECORD_TYPES:
            self._add((kind, "NXDOMAIN"), misses)
            self._add((kind, "NOERROR" if found else "NXDOMAIN"), int(found or full))

    def _add(self, key: tuple[str, str], count: int) -> None:
        if count:
            self.counts[key] = self.counts.get(key, 0) + count


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
