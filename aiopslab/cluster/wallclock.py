"""The clock of clusters that live in real time."""

from __future__ import annotations

import asyncio
import time
from typing import Literal


class WallClock:
    """Cluster time is the machine's time."""

    mode: Literal["stepped", "wall"] = "wall"

    async def now(self) -> float:
        """Unix seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> float:
        """Wait ``seconds`` for real."""
        await asyncio.sleep(max(0.0, seconds))
        return time.time()
