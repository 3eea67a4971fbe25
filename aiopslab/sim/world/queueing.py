"""Waiting: what a pod's CPU limit and worker pool do to the calls that reach it.

Three effects, each from demand and limit only:

* CFS throttling. Within each 100 ms period a container may use ``limit * 100 ms`` of CPU; work is bursty, so some
  periods run out. Demand of a period is taken as normal with the mean and variance of a compound Poisson sum;
  a call that arrives in the exhausted part waits for the rest of the period.
* Queueing for workers and cores: the M/M/c waiting time in Sakasegawa's approximation; near the limit also for
  the work that throttled periods leave to the next one.
* Overload: demand above the limit grows a backlog of work that later calls wait behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PERIOD_S = 0.1
# Share of a throttled period that lies behind the exhausted quota when the container only just ran out.
SPREAD = 0.35
# Chance that a thread which wakes in the part of a period without quota sleeps until the period ends. One thread
# finds its CPU's slice of quota used up; several wake on several CPUs, and some still hold a slice.
CAUGHT_SINGLE, CAUGHT_SEVERAL = 0.4, 0.17
BACKLOG_MAX_S = 600.0


@dataclass(frozen=True, slots=True)
class Load:
    """Demand on one container. CPU in cores, times in seconds."""

    demand: float  # of requests, probes and idling
    calls_per_s: float
    cpu_per_call_s: float
    service_s: float  # mean time a call occupies a worker
    stress: float  # cores that a stressor wants
    limit: float  # NaN when there is none
    workers: int
    cores: float  # that the program can use at one time
    wakes_per_s: float = 0.0  # calls that arrive and answers that come back


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a call meets: with ``hit`` probability a throttled stretch of up to ``stretch_ms``; a queue wait
    of mean ``queue_ms``."""

    hit: float = 0.0
    stretch_ms: float = 0.0
    queue_ms: float = 0.0
    throttled_periods: float = 0.0  # share of periods
    throttled_s: float = 0.0  # throttled seconds per second
    overload: float = 0.0  # cores of demand above the limit
    busy: float = 0.0  # cores really used
    exhausted: float = 0.0  # part of each period that a stressor leaves without quota

    @property
    def idle(self) -> bool:
        """Whether calls pass without noticing."""
        return self.hit < 2e-3 and self.queue_ms < 0.1


FREE = Waiting()


def waiting(load: Load) -> Waiting:
    """The waiting of calls under ``load``."""
    limit = load.limit if load.limit == load.limit else load.cores
    limited = load.limit == load.limit
    demand = load.demand + load.stress
    hit, share, stretch = throttling(load, limit) if limited else (0.0, 0.0, 0.0)
    exhausted, throttled_s = 0.0, 0.5 * share
    if load.stress and limited:
        # The stressor empties the quota early in every period; a waking thread is favoured over it.
        exhausted = max(0.0, 1.0 - limit / max(load.stress + load.demand, limit))
        share = max(share, exhausted)
        throttled_s = exhausted * (min(1.0, load.stress) + blocked(load, exhausted))
        hit, stretch = max(hit, caught(load.cores) * exhausted), max(stretch, 1e3 * PERIOD_S * exhausted)
    capacity = min(limit, load.cores)
    rho = min(load.demand / capacity, 0.999) if capacity > 0 else 0.999
    queue = queue_wait_s(min(load.demand / load.cores, 0.999), load.cores, load.cpu_per_call_s)
    queue += queue_wait_s(
        min(load.calls_per_s * load.service_s / load.workers, 0.999), load.workers, load.service_s
    )
    if limited:
        # Work left over from throttled periods is served first in the next one.
        queue += 0.5 * PERIOD_S * share_alone(load, limit) * rho / (1.0 - rho)
    return Waiting(
        hit=hit,
        stretch_ms=stretch,
        queue_ms=1e3 * min(queue, 5.0),
        throttled_periods=share,
        throttled_s=throttled_s,
        overload=max(0.0, load.demand - capacity),
        busy=min(demand, capacity if limited else load.cores + load.stress),
        exhausted=exhausted,
    )


def blocked(load: Load, exhausted: float) -> float:
    """Share of the part without quota during which a thread of the program sleeps beside the stressor's, which the
    kernel counts again: the first caught wake-up of Poisson ones begins it, ``1 - (1 - exp(-x)) / x`` with ``x``
    caught wake-ups per part."""
    caught_wakes = caught(load.cores) * load.wakes_per_s * exhausted * PERIOD_S
    return max(0.0, 1.0 + math.expm1(-caught_wakes) / caught_wakes) if caught_wakes > 1e-9 else 0.0


def caught(cores: float) -> float:
    """Chance that a wake-up in the part without quota sleeps, for a program that keeps ``cores`` busy."""
    return CAUGHT_SINGLE if cores <= 1.0 else CAUGHT_SEVERAL


def share_alone(load: Load, limit: float) -> float:
    """Share of periods that requests alone would exhaust."""
    return throttling(load, limit)[1]


def throttling(load: Load, limit: float) -> tuple[float, float, float]:
    """(chance that a call waits, share of throttled periods, longest wait in ms) from bursts alone."""
    quota = limit * PERIOD_S
    mean = load.demand * PERIOD_S
    variance = load.calls_per_s * PERIOD_S * 2.0 * load.cpu_per_call_s**2 + 1e-12
    z = (quota - mean) / math.sqrt(variance)
    share = 0.5 * math.erfc(z / math.sqrt(2.0))
    return share * SPREAD * min(1.0, 2.0 * mean / quota), share, 1e3 * PERIOD_S * (1.0 - min(limit, 0.9))


def queue_wait_s(rho: float, servers: float, service_s: float) -> float:
    """Mean M/M/c wait, Sakasegawa 1977: ``s * rho**(sqrt(2(c+1)) - 1) / (c (1 - rho))``."""
    if rho <= 0.0:
        return 0.0
    return service_s * rho ** (math.sqrt(2.0 * (servers + 1.0)) - 1.0) / (servers * (1.0 - rho))
