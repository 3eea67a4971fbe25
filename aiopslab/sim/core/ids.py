"""Names, uids and addresses that depend on what they name, not on the order of requests.

Helm and kubectl create objects concurrently, so a counter would make two runs of one seed differ.
Everything here is a hash of the seed and of the identity of the thing named.
"""

from __future__ import annotations

import hashlib

# Kubernetes' own alphabet for generated suffixes: no vowels, no look-alikes.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Ids:
    """Seeded source of identifiers. Equal arguments give equal results within one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def digest(self, *parts: object) -> bytes:
        """20 bytes that depend on the seed and on ``parts``."""
        text = "\x1f".join([str(self._seed), *map(str, parts)])
        return hashlib.sha1(text.encode(), usedforsecurity=False).digest()

    def number(self, below: int, *parts: object) -> int:
        """An integer in ``[0, below)``."""
        return int.from_bytes(self.digest(*parts)[:8], "big") % below

    def unit(self, *parts: object) -> float:
        """A float in ``[0, 1)``: the core's replacement for a random draw."""
        return int.from_bytes(self.digest(*parts)[:7], "big") / float(1 << 56)

    def uid(self, *parts: object) -> str:
        """A version-4-shaped UUID."""
        raw = bytearray(self.digest("uid", *parts)[:16])
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def suffix(self, length: int, *parts: object) -> str:
        """``length`` characters of Kubernetes' suffix alphabet, such as ``x7k2p``."""
        value = int.from_bytes(self.digest("suffix", *parts), "big")
        chars = []
        for _ in range(length):
            value, index = divmod(value, len(SUFFIX_ALPHABET))
            chars.append(SUFFIX_ALPHABET[index])
        return "".join(chars)

    def hex(self, length: int, *parts: object) -> str:
        """``length`` lower-case hexadecimal digits (at most 40)."""
        return self.digest("hex", *parts).hex()[:length]
