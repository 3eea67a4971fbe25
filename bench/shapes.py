"""Shapes that the modified shop of 2022 shares with the stock one: calls, noise, what a fault leaves alone; logs.

That shop reads its catalogue and ads from SQL, logs each step and has extra spans, so its latencies, span counts
and log volumes are its own. The calls between services, the stock users, the way samples scatter from minute to
minute and which signals a fault moves are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from figures import Figure, Tolerances
from shop import ENDPOINTS, MILLI, SCRAPE_S, Calls, Shop
from stock import by_service

USERS = 33  # the stock users that make the reference's 8.65 requests per second
MINUTES = 150
WARM_UP_S = 1200.0  # the reference's health begins as long after the last disturbance
MIB = 2.0**20
DELAY_MS = 240
FAULT_S = 180.0
ONSET_BIN_S = 5.0
START_UP_S = 100.0
START_UP_USERS = 10
# Wrapper span of the modified checkout -> the call that it wraps.
WRAPPED = {"CheckoutService/ConvertCurrency": "CurrencyService/Convert"}
# Lines per call that the stock services write in health, as the reference's text gives them.
LINES_PER_CALL = {"adservice": 1.0, "shippingservice": 2.0, "cartservice": 1.0, "productcatalogservice": 0.0,
                  "paymentservice": 2.0, "emailservice": 1.0, "recommendationservice": 1.0}  # fmt: skip
CONVERSIONS_SHARE = 0.70  # of the currency service's lines, of the 2025 mix of pages
STARTUP_FAULTS = {
    "service/service_port_mapping_mismatch": "Service port",
    "scheduling/node_selector_mismatch": "no node",
    "service/service_selector_mismatch": "Service selector",
}
Reference = Mapping[str, Any]


def shape_figures(reference: Reference, tolerances: Tolerances, seed: int) -> list[Figure]:
    """Endpoints, calls, arrivals and noise under the stock users."""
    part = reference["online_boutique_2022"]
    shop = Shop(seed, {})
    shop.users(USERS, WARM_UP_S)
    since = shop.now
    shop.advance(60.0 * MINUTES)
    traces = part["traces_health"]
    found = _endpoints(shop, since, traces, tolerances)
    found += _calls(shop, since, traces, tolerances)
    found += _arrivals(shop, since, part, tolerances)
    return found + _noise(shop, since, part["metrics_health"]["services"], tolerances)


def _roots(shop: Shop, since: float) -> dict[str, Calls]:
    return shop.served(since, lambda node, caller: ENDPOINTS.get(node.op.name) if caller is None else None)


def _endpoints(shop: Shop, since: float, theirs: Reference, tolerances: Tolerances) -> list[Figure]:
    roots = _roots(shop, since)
    total = sum(len(calls.start) for calls in roots.values())
    names = {name.partition(" ")[0]: row["share"] for name, row in theirs["endpoints"].items()}
    return [
        Figure("2022, calls: pages", f"{name} share", share, len(roots[name].start) / total,
               tolerances.sampled("endpoint share", share, theirs["spans_per_trace"]["n"]))
        for name, share in names.items()
    ]  # fmt: skip


def _calls(shop: Shop, since: float, traces: Reference, tolerances: Tolerances) -> list[Figure]:
    counts: dict[tuple[str, str, str], int] = {}
    pages: dict[str, int] = {}
    edges: dict[str, int] = {}
    makers: dict[str, set[str]] = {}
    for blocks in shop.world._pieces.all():
        for block in blocks:
            page = ENDPOINTS[block.route.name]
            late = block.start >= since
            pages[page] = pages.get(page, 0) + int(late.sum())
            for node in block.route.nodes[1:]:
                made = int((late & block.happened(node.index)).sum())
                caller = block.route.nodes[node.parent].program.name
                key = (page, caller, node.op.name)
                counts[key] = counts.get(key, 0) + made
                edge = f"{caller}>{node.program.name}"
                edges[edge] = edges.get(edge, 0) + made
                makers.setdefault(edge, set()).add(page)
    found = []
    for name, row in traces["fanout"].items():
        page, _, rest = name.partition(": ")
        caller, _, op = rest.partition(" ")
        key = (page.partition(" ")[0], caller, WRAPPED.get(op, op))
        if caller == key[2].partition("/")[0].lower():
            continue  # a span inside the modified service
        ours = counts.get(key, 0) / pages[key[0]]
        found.append(Figure("2022, calls: fan-out", name, row["mean"], ours, tolerances.of("fanout mean")))
    total = sum(pages.values())
    requests = traces["spans_per_trace"]["n"]
    for name, row in traces["edges"].items():
        share = sum(pages[page] for page in makers[name]) / total
        found.append(Figure("2022, calls: per request", name, row["per_trace"], edges.get(name, 0) / total,
                            tolerances.sampled("calls per trace by edge", share, requests)))  # fmt: skip
    return found


def _arrivals(shop: Shop, since: float, part: Reference, tolerances: Tolerances) -> list[Figure]:
    starts = np.sort(np.concatenate([calls.start for calls in _roots(shop, since).values()]))
    counts = np.histogram(starts, np.arange(since, shop.now, 5.0))[0]
    gaps = np.diff(starts)
    sampling = tolerances.exact(0.15)
    return [
        Figure("2022, arrivals", "Fano factor in 5-s bins", part["traces_health"]["arrivals_5s"]["fano"],
               float(counts.var() / counts.mean()), sampling),
        Figure("2022, arrivals", "CV of inter-arrival times", part["burstiness"]["inter_arrival_s"]["cv"],
               float(gaps.std() / gaps.mean()), sampling),
    ]  # fmt: skip


def _noise(shop: Shop, since: float, theirs: Reference, tolerances: Tolerances) -> list[Figure]:
    """Scatter from minute to minute of a 15-s look once a minute."""
    found = []
    each = round(60.0 / SCRAPE_S)
    calls = shop.served(since, by_service)
    for name in sorted(set(theirs) & set(calls)):
        row = theirs[name]
        times, cpu = shop.samples.rate(name, "cpu_s", SCRAPE_S)
        looks = times[times > since][::each]
        used = MILLI * cpu[times > since][::each]
        ends = np.concatenate([looks - SCRAPE_S, looks]).reshape(2, -1).T.ravel()
        rates = np.histogram(calls[name].start, ends)[0][::2] / SCRAPE_S
        memory = shop.samples.series(name, "memory")[np.isin(shop.samples.times, looks)] / MIB
        group = "2022, noise from minute to minute"
        found += [
            Figure(group, f"{name} CPU CV", row["cpu_m"]["cv"], variation(used), tolerances.of("metric cpu_m cv")),
            Figure(group, f"{name} CPU AC1", row["cpu_m"]["ac1"], autocorrelation(used), tolerances.of("abs ac1")),
            Figure(group, f"{name} rate CV", row["rps"]["cv"], variation(rates), tolerances.of("metric rps cv")),
            Figure(group, f"{name} rate AC1", row["rps"]["ac1"], autocorrelation(rates), tolerances.of("abs ac1")),
        ]
        if row["mem_mib"]["ac1"] is not None:
            found.append(Figure(group, f"{name} memory AC1", row["mem_mib"]["ac1"], autocorrelation(memory),
                                tolerances.of("abs ac1")))  # fmt: skip
    return found


def variation(values: Any) -> float:
    """Standard deviation over mean."""
    return float(np.std(values) / np.mean(values))


def autocorrelation(values: Any) -> float:
    """At a lag of one sample; 0 for a constant."""
    centred = np.asarray(values) - np.mean(values)
    power = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / power if power else 0.0


def fault_shape_figures(reference: Reference, tolerances: Tolerances, seed: int) -> list[Figure]:
    """What contention and delay move and what they leave alone: medians over targets."""
    part = reference["online_boutique_2022"]["faults_by_type"]
    found = []
    for name in ("network_delay", "cpu_contention"):
        rows = [_broken(name, service, seed + i) for i, service in enumerate(part[name]["services"])]
        ours = {key: float(np.nanmedian([row[key] for row in rows])) for key in rows[0]}
        found += _fault_rows(name, part[name], ours, tolerances)
    return found


def _broken(fault: str, service: str, seed: int) -> dict[str, float]:
    shop = Shop(seed, {})
    shop.users(USERS)
    began = shop.now
    shop.advance(FAULT_S)
    at = shop.now
    if fault == "network_delay":
        shop.chaos("NetworkChaos", service, action="delay", direction="to", delay={"latency": f"{DELAY_MS}ms"})
    else:
        shop.chaos("StressChaos", service, stressors={"cpu": {"workers": 1, "load": 100}})
    shop.advance(FAULT_S)
    calls = shop.served(began, by_service)
    before, during = calls[service].within(began, at), calls[service].within(at + 20.0, shop.now)
    front = calls["frontend"]
    cpu, memory = _usage(shop, service, began, at)
    limit = 0.3 if service in ("adservice", "cartservice") else 0.2
    return {
        "cpu": cpu[1] / max(cpu[0], 1e-9),
        "limit_share": cpu[1] / limit,
        "memory": memory[1] - memory[0],
        "served_p50": float(np.median(during.served) / np.median(before.served)),
        "success": 100.0 * (1.0 - float(front.within(at + 20.0, shop.now).failed.mean())),
        "front_rate": len(front.within(at + 20.0, shop.now).start) / (shop.now - at - 20.0)
        / (len(front.within(began, at).start) / FAULT_S),
        "onset": onset_s(calls[service], at),
    }  # fmt: skip


def _usage(shop: Shop, service: str, began: float, at: float) -> tuple[list[float], list[float]]:
    times, cpu = shop.samples.rate(service, "cpu_s", SCRAPE_S)
    marks = [(times > began) & (times <= at), times > at + 2 * SCRAPE_S]
    memory = shop.samples.series(service, "memory")[1:] / MIB
    return [float(np.median(cpu[m])) for m in marks], [float(np.median(memory[m])) for m in marks]


def onset_s(calls: Calls, at: float) -> float:
    """Start of the first of two 5-s bins in a row after ``at`` whose upper quartile at the caller is above 1.5
    times the one before; NaN when there is none."""
    usual = float(np.quantile(calls.within(at - 100.0, at).took, 0.75))
    high = []
    for low in np.arange(at, at + FAULT_S, ONSET_BIN_S):
        took = calls.took[(calls.start >= low) & (calls.start < low + ONSET_BIN_S)]
        high.append(len(took) > 0 and float(np.quantile(took, 0.75)) > 1.5 * usual)
    return next((i * ONSET_BIN_S for i in range(len(high) - 1) if high[i] and high[i + 1]), float("nan"))


def _fault_rows(name: str, theirs: Reference, ours: dict[str, float], tolerances: Tolerances) -> list[Figure]:
    def figure(text: str, key: str, mine: str, kind: str, floor: float = 0.0) -> Figure:
        value = theirs[key]["median"]
        return Figure(f"2022, faults: {name}", text, value, ours[mine], tolerances.of(kind, floor=floor))

    first = [t for signal in (theirs["trace_onset"] or {}).values() for t in _onsets(signal)]
    found = [
        figure("target CPU, share of limit", "target_cpu_share_of_limit_during", "limit_share",
               "fault target cpu during", 0.05),
        figure("target memory added (MiB)", "target_mem_added_mib", "memory", "fault target cpu during", 1.0),
        figure("success of the front door (%)", "front_success_pct_during", "success",
               "metric success_pct mean", 0.5),
        figure("requests/s of the front door x", "frontend_requests_per_s_ratio_vs_health", "front_rate",
               "fault target rps ratio"),
    ]  # fmt: skip
    if name == "network_delay":
        found += [
            figure("target CPU x", "target_cpu_ratio_vs_health", "cpu", "fault target cpu ratio_vs_health"),
            figure("target server span p50 x", "trace_target_server_p50_ratio", "served_p50",
                   "fault target server p90 ratio"),
        ]  # fmt: skip
    if first:
        group = f"2022, faults: {name}"
        at_most = Tolerances.exact(0.0, floor=2 * ONSET_BIN_S)
        text = "first slow calls at the caller (s)"
        found.append(Figure(group, text, float(np.median(first)), ours["onset"], at_most))
    return found


def _onsets(signal: Any) -> list[float]:
    if isinstance(signal, Mapping):
        return [t for key, value in signal.items() if "first" in key or "onset" in key or "start" in key
                for t in _onsets(value)]  # fmt: skip
    return [float(t) for t in signal if t is not None] if isinstance(signal, list) else []


def log_figures(reference: Reference, tolerances: Tolerances, seed: int) -> list[Figure]:
    """Lines per call in health, and the frontend's error and warning lines per request while a part is missing."""
    return _health_lines(seed, tolerances) + [
        figure
        for kind in STARTUP_FAULTS
        for figure in _startup(kind, reference["online_boutique_2025"]["frontend_error_lines"], tolerances, seed)
    ]


def _health_lines(seed: int, tolerances: Tolerances) -> list[Figure]:
    shop = Shop(seed, {})
    shop.users(USERS)
    since = shop.now
    shop.advance(FAULT_S)
    calls = shop.served(since, by_service)
    group = "stock, logs in health"
    found = []
    for name, expected in LINES_PER_CALL.items():
        lines = [line for line in shop.log_lines(name, since) if not re.search("Health|healthz", line)]
        ours = len(lines) / len(calls[name].start)
        found.append(Figure(group, f"{name} lines per call", expected, ours, tolerances.exact(0.05, floor=0.02)))
    lines = shop.log_lines("frontend", since)
    bad = sum(bool(re.search('"severity":"(error|warning)"', line)) for line in lines)
    found.append(Figure(group, "frontend error and warning lines", 0.0, float(bad), tolerances.exact(0.0)))
    return found


def _startup(kind: str, theirs: Reference, tolerances: Tolerances, seed: int) -> list[Figure]:
    """The app comes up with one part wrong, in turn each service but the frontend, and users are there at once."""
    errors = warnings = requests = 0
    for number, service in enumerate((*LINES_PER_CALL, "currencyservice", "checkoutservice", "redis-cart")):
        shop = Shop(seed + number, {}, edit=partial(_misconfigure, kind, service), settle_s=0.0)
        since = shop.now
        shop.users(START_UP_USERS, START_UP_S)
        for line in shop.log_lines("frontend", since):
            errors += '"severity":"error"' in line and "metadata" not in line
            warnings += '"severity":"warning"' in line
            requests += '"message":"request started"' in line and "/_healthz" not in line
    group = "stock, frontend logs while a part is missing"
    of = tolerances.of("fault failing share (100-success)")
    label = STARTUP_FAULTS[kind]
    return [
        Figure(group, f"{label}: error lines per request", theirs[kind]["error_lines_per_request"],
               errors / requests, of),
        Figure(group, f"{label}: warning lines per request", theirs[kind]["warning_lines_per_request"],
               warnings / requests, of),
    ]  # fmt: skip


def _misconfigure(kind: str, service: str, obj: dict[str, Any]) -> None:
    if obj["metadata"]["name"] != service:
        return
    if obj["kind"] == "Service" and kind == "service/service_port_mapping_mismatch":
        obj["spec"]["ports"][0]["targetPort"] = 9999
    elif obj["kind"] == "Service" and kind == "service/service_selector_mismatch":
        obj["spec"]["selector"] = {"app": f"{service}-old"}
    elif obj["kind"] == "Deployment" and kind == "scheduling/node_selector_mismatch":
        obj["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
