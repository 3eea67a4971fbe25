"""The stock shop of 2025: health and faults in its reference's own terms.

The reference gives request rates per service, so the users' mix of pages follows from it: each page has its own
calls, and six rates determine the shares of six pages. Rows of the reference are rates over a minute, looked at
every few seconds; ours are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from figures import Figure, Tolerances
from shop import MILLI, NAMESPACE, SCRAPE_S, THINK_S, Calls, Shop, limits, mesh_quantile

HEALTH_S = 1800.0
BEFORE_S = 120.0
DURING_S = (60.0, 180.0)  # after the injection
RATE_S = 60.0
MIB = 2.0**20
WHOLE_MILLICORE = 1.0
# The delay is not in the data. An order makes nine calls and more one after the other and took 10 to 28 s, the home
# page makes ten currency calls and took 8.6 s: both say about 0.9 s a call.
DELAY_MS = 900
# Nor is whether it met the kubelet's probes. Where it did, the pod was restarted again and again and its CPU fell
# with its calls; where it did not, the pod went on working.
RESTARTED_CPU = 0.6  # share of its CPU that a target has left at most
LIMIT_CPU = "200m"
Reference = Mapping[str, Any]


def services(health: Reference) -> list[str]:
    """The shop's services; the other rows are nodes."""
    return [name for name, row in health.items() if "rps" in row]


def shares(health: Reference) -> dict[str, float]:
    """Shares of the pages in all requests, from the services' request rates."""
    rate = {s: health[s]["rps"]["p50"] / health["frontend"]["rps"]["p50"] for s in services(health)}
    checkout = rate["checkoutservice"]
    cart = rate["shippingservice"] - 2 * checkout  # a quote per cart page, quote and order per checkout
    product = rate["recommendationservice"] - cart - checkout
    home = rate["adservice"] - product
    add = max(rate["cartservice"] - home - product - cart - 2 * checkout, 0.01)
    found = {"home": home, "product": product, "view-cart": cart, "add-to-cart": add, "checkout": checkout}
    return {**found, "no-rpc": max(1.0 - sum(found.values()), 0.0)}


def loaded(health: Reference, seed: int) -> Shop:
    """The shop under the reference's limits and load, warmed up."""
    names = services(health)
    memory = {s: "300Mi" if s in ("adservice", "currencyservice") else "128Mi" for s in names}
    shop = Shop(seed, limits(names, LIMIT_CPU, memory), shares(health))
    front = health["frontend"]
    shop.users(round(front["rps"]["p50"] * (THINK_S + front["p50latency"]["p50"] / MILLI)))
    return shop


def by_service(node: Any, _: Any) -> str:
    """Groups calls by the program that serves them."""
    return str(node.program.name)


def health_figures(reference: Reference, tolerances: Tolerances, seed: int) -> list[Figure]:
    """Per service: rates, CPU, throttling, memory, packets and mesh latencies."""
    health = reference["online_boutique_2025"]["health"]
    shop = loaded(health, seed)
    since = shop.now
    shop.advance(HEALTH_S)
    calls = shop.served(since, by_service)
    found: list[Figure] = []
    for name in services(health):
        found += _usage(shop, name, health[name], since, tolerances)
        if health[name]["rps"]["p50"] > 0:
            found += _traffic(shop, name, health[name], calls[name], tolerances)
    return found


def _usage(shop: Shop, name: str, row: Reference, since: float, tolerances: Tolerances) -> list[Figure]:
    def rows(column: str) -> Any:
        times, values = shop.samples.rate(name, column, RATE_S)
        return values[times > since + RATE_S]

    group = "stock 2025, health: resources"
    cpu_m = np.round(rows("cpu_s") * MILLI)  # as exported: whole millicores
    each_s = round(2 * RATE_S / SCRAPE_S)
    windows = np.array([np.median(cpu_m[i : i + each_s]) for i in range(0, len(cpu_m) - each_s + 1, each_s)])
    times = np.array(shop.samples.times)
    memory = shop.samples.series(name, "memory")[times > since] / MIB
    found = [
        Figure(group, f"{name} CPU p50 (m)", MILLI * row["cpu"]["p50"], float(np.median(cpu_m)),
               tolerances.of("metric cpu_m p50", floor=WHOLE_MILLICORE)),
        Figure(group, f"{name} CPU p95 (m)", MILLI * row["cpu"]["p95"], float(np.quantile(cpu_m, 0.95)),
               tolerances.of("metric cpu_m p95", floor=WHOLE_MILLICORE)),
        Figure(group, f"{name} CPU CV between windows", row["cpu"]["window_cv"], windows.std() / windows.mean(),
               tolerances.of("metric cpu_m cv", floor=max(0.02, WHOLE_MILLICORE / MILLI / row["cpu"]["p50"] / 2))),
        Figure(group, f"{name} throttled (s/s)", row["cpu_cfs"]["p50"], float(np.median(rows("throttled_s"))),
               tolerances.spread(row["cpu_cfs"]["window_cv"], floor=0.005)),
        Figure(group, f"{name} memory p50 (MiB)", row["mem"]["p50"] / MIB, float(np.median(memory)),
               tolerances.of("metric mem_mib mean")),
    ]  # fmt: skip
    for theirs, ours, kind in (
        ("network_receive", "rx_packets", "metric rx_Bps mean"),
        ("network_transmit", "tx_packets", "metric tx_Bps mean"),
    ):
        value = float(np.median(rows(ours)))
        found.append(Figure(group, f"{name} {theirs} (packets/s)", row[theirs]["p50"], value, tolerances.of(kind)))
    if row["rps"]["p50"] > 0:
        per_call = row["cpu"]["p50"] / row["rps"]["p50"]
        calls = shop.served(since, lambda node, _: name if node.program.name == name else None)[name]
        ours = float(np.median(cpu_m)) / (len(calls.start) / HEALTH_S)
        kind = tolerances.of("metric cpu_m mean", floor=WHOLE_MILLICORE / row["rps"]["p50"])
        found.append(Figure(group, f"{name} CPU per request (ms)", MILLI * per_call, ours, kind))
    return found


def _traffic(shop: Shop, name: str, row: Reference, calls: Calls, tolerances: Tolerances) -> list[Figure]:
    group = "stock 2025, health: traffic"
    return [
        Figure(group, f"{name} requests/s", row["rps"]["p50"], len(calls.start) / HEALTH_S,
               tolerances.of("metric rps p95")),
        Figure(group, f"{name} p50 (ms)", row["p50latency"]["p50"], rows_quantile(shop, calls, 0.5),
               tolerances.of("op p50 (n>=1000)")),
        Figure(group, f"{name} p95 (ms)", row["p95latency"]["p50"], rows_quantile(shop, calls, 0.95),
               tolerances.of("metric srv_p95_ms p50")),
    ]  # fmt: skip


def rows_quantile(shop: Shop, calls: Calls, level: float) -> float:
    """Median over scrapes of the mesh quantile of the last minute, at the callee."""
    first = float(calls.start.min())
    ends = [t for t in shop.samples.times if t > first + RATE_S]
    values = [mesh_quantile(calls.within(end - RATE_S, end).served, level) for end in ends]
    return float(np.median(values))


def fault_figures(reference: Reference, tolerances: Tolerances, seed: int) -> list[Figure]:
    """Per case: what the fault does to its target and to the front door."""
    part = reference["online_boutique_2025"]
    found: list[Figure] = []
    for number, case in enumerate(part["fault_cases"]):
        shop = loaded(part["health"], seed + number)
        found += _case(shop, case, tolerances)
    return found


def inject(shop: Shop, kind: str, service: str, probed: bool) -> None:
    """The fault of a case: a busy process in the pod's containers, or netem on its interface."""
    if kind == "pod_cpu_overload":
        shop.chaos("StressChaos", service, stressors={"cpu": {"workers": 1, "load": 100}})
    else:
        spec: dict[str, Any] = {"action": "delay", "direction": "to", "delay": {"latency": f"{DELAY_MS}ms"}}
        if not probed:
            spec["target"] = {"mode": "all", "selector": {"namespaces": [NAMESPACE]}}
        shop.chaos("NetworkChaos", service, **spec)


def _case(shop: Shop, case: Reference, tolerances: Tolerances) -> list[Figure]:
    service, kind = case["object"].partition("/")[2], case["root_cause"]
    began = shop.now
    shop.advance(BEFORE_S)
    at = shop.now
    inject(shop, kind, service, case["target"]["cpu"]["ratio"] < RESTARTED_CPU)
    shop.advance(DURING_S[1])
    windows = {"before": (began, at), "during": (at + DURING_S[0], at + DURING_S[1])}
    calls = shop.served(began - 60, by_service)
    figures = _Case(shop, case, windows, calls, tolerances)
    return figures.usage(service) + figures.traffic(service) + figures.front(service)


class _Case:
    """The figures of one case."""

    def __init__(
        self,
        shop: Shop,
        case: Reference,
        windows: dict[str, tuple[float, float]],
        calls: dict[str, Calls],
        tolerances: Tolerances,
    ) -> None:
        self._shop, self._case, self._windows, self._calls = shop, case, windows, calls
        self._tolerances = tolerances
        self._group = f"stock 2025, faults: {case['root_cause']}"
        self._delayed = case["root_cause"] == "pod_network_delay"

    def usage(self, service: str) -> list[Figure]:
        """CPU and throttling of the target."""
        theirs = self._case["target"]
        cpu_m = MILLI * self._rate(service, "cpu_s", "during")
        throttled = self._rate(service, "throttled_s", "during")
        of = self._tolerances.of
        return [
            self._figure(f"{service} CPU (m)", MILLI * theirs["cpu"]["during"], cpu_m,
                         of("fault target cpu during", floor=2.0)),
            self._figure(f"{service} throttled (s/s)", theirs["cpu_cfs"]["during"], throttled,
                         of("fault target cpu during", floor=0.025)),
        ]  # fmt: skip

    def traffic(self, service: str) -> list[Figure]:
        """Rate, success and latency of the target. Waiting shows at the caller when packets are slow."""
        theirs = self._case["target"]
        if not theirs["rps"]["before"]:
            return []
        before, during = self._within(service, "before"), self._within(service, "during")
        of, tail = self._tolerances.of, _tail(theirs)
        rate = _per_s(during, self._windows["during"]) / _per_s(before, self._windows["before"])
        found = [
            self._figure(f"{service} requests/s x", theirs["rps"]["ratio"], rate,
                         of("fault target rps ratio", floor=0.1)),
            self._figure(f"{service} success", theirs["success_rate"]["during"], _success(during),
                         of("fault failing share (100-success)", floor=0.02)),
        ]  # fmt: skip
        names = [("p50latency", 0.5), tail]
        answered = during.only(during.reached)
        for name, level in names:
            # Waiting outside the server's span shows at the callee's proxy too; transport is below a millisecond.
            median_of_work = name == "p50latency" and not self._delayed
            ours = mesh_quantile(answered.served if median_of_work else answered.took, level)
            label = f"{service} {name.removesuffix('latency')} (ms)"
            tolerance = of("fault target server p90 ratio", floor=0.5)
            found.append(self._figure(label, theirs[name]["during"], ours, tolerance))
        return found

    def front(self, service: str) -> list[Figure]:
        """The front door against itself before."""
        theirs = (self._case.get("upstream") or {}).get("frontend")
        if service == "frontend" or theirs is None:
            return []
        before, during = self._within("frontend", "before"), self._within("frontend", "during")
        of, tail = self._tolerances.of, _tail(theirs)
        found = [
            self._figure(f"{service}: front success", theirs["success_rate"]["during"], _success(during),
                         of("fault failing share (100-success)", floor=0.02)),
            self._figure(f"{service}: front requests/s x", theirs["rps"]["ratio"],
                         _per_s(during, self._windows["during"]) / _per_s(before, self._windows["before"]),
                         of("fault target rps ratio")),
        ]  # fmt: skip
        kinds = ("fault front p50 ratio", "fault front p95 ratio")
        for (name, level), kind in zip((("p50latency", 0.5), tail), kinds, strict=True):
            ours = mesh_quantile(during.served, level) / mesh_quantile(before.served, level)
            label = f"{service}: front {name.removesuffix('latency')} x"
            found.append(self._figure(label, theirs[name]["ratio"], ours, of(kind)))
        return found

    def _figure(self, name: str, theirs: float, ours: float, tolerance: Any) -> Figure:
        return Figure(self._group, name, float(theirs), float(ours), tolerance)

    def _rate(self, service: str, column: str, window: str) -> float:
        times, values = self._shop.samples.rate(service, column, SCRAPE_S)
        low, high = self._windows[window]
        return float(np.median(values[(times > low) & (times <= high)]))

    def _within(self, service: str, window: str) -> Calls:
        empty = np.zeros(0)
        never = np.zeros(0, bool)
        none = Calls(empty, empty, empty, never, never)
        return self._calls.get(service, none).within(*self._windows[window])


def _tail(row: Reference) -> tuple[str, float]:
    return ("p95latency", 0.95) if "p95latency" in row else ("p90latency", 0.90)


def _per_s(calls: Calls, window: tuple[float, float]) -> float:
    return calls.reached.sum() / (window[1] - window[0])


def _success(calls: Calls) -> float:
    return float(1.0 - calls.failed.mean()) if len(calls.start) else 0.0
