"""Counter-based randomness: a draw is a hash of what it is for, never of how many draws came before.

So a run with a fault and a run without one see the same users doing the same things, and it does not
matter into how many pieces virtual time was cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
GRID = 4001  # points at which a distribution function is evaluated for inversion
QUANTILES = 4096  # entries of a quantile table; the top entry is the 99.988th percentile


def text_key(*parts: object) -> int:
    """A 64-bit key of a tuple of printable things."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def mix(keys: Keys) -> Keys:
    """SplitMix64's finalizer over a new array: equal keys give equal, near keys unrelated results."""
    z = keys + np.uint64(_GAMMA)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def mix_int(key: int) -> int:
    """``mix`` of one Python integer."""
    z = (key + _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def salted(keys: Keys, salt: int) -> Keys:
    """Independent keys for another purpose of the same things."""
    return mix(keys ^ np.uint64(mix_int(salt)))


def unit(keys: Keys) -> NDArray[np.float64]:
    """Hashed keys to uniform draws in [0, 1)."""
    return (keys >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))


def unit_int(key: int) -> float:
    """One hashed integer key to a uniform draw in [0, 1)."""
    return (mix_int(key) >> 11) * (1.0 / (1 << 53))


def lognormal_table(parts: Sequence[tuple[float, float, float]]) -> Floats:
    """Quantiles of a mixture of lognormals, ``QUANTILES`` of them, at the mid-points.

    ``parts`` are ``(weight, mu, sigma)`` with ``mu`` and ``sigma`` of the logarithm; weights are normalised.
    The distribution function is inverted on a grid of the logarithm, which is exact to about 0.1 % of a sigma.
    """
    total = sum(weight for weight, _, _ in parts)
    low = min(mu - 5 * sigma for _, mu, sigma in parts)
    high = max(mu + 5 * sigma for _, mu, sigma in parts)
    grid = np.linspace(low, high + 1e-9, GRID)
    cdf = np.zeros_like(grid)
    for weight, mu, sigma in parts:
        cdf += weight / total * normal_cdf((grid - mu) / max(sigma, 1e-6))
    points = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.exp(np.interp(points, cdf, grid)).astype(np.float32)


def normal_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard normal distribution function, absolute error below 7.5e-8.

    Abramowitz and Stegun, Handbook of Mathematical Functions, formula 26.2.17.
    """
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * x * x) * 0.3989422804014327 * poly
    return np.where(x >= 0, 1.0 - tail, tail)
