"""In-cluster services: what CoreDNS answers by its Corefile, and where kube-proxy lets connections go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiopslab.sim.core.store import Key
from aiopslab.sim.world.corefile import CorefileError, parse

PLAIN = """\
.:53 {
    errors
    kubernetes cluster.local in-addr.arpa {
        pods insecure
    }
    forward . /etc/resolv.conf
}
"""
FULL = "cartservice.shop.svc.cluster.local"


def lookup(lab: Any, host: str, pod: str = "frontend") -> tuple[str, str]:
    run = lab.world.runs.find(lab.refs[lab.pods(pod)[0]])
    found = lab.world.resolve(run, host)
    return found.rcode, " ".join(found.addresses)


def dial(lab: Any, host: str, port: int, pod: str = "frontend") -> str:
    run = lab.world.runs.find(lab.refs[lab.pods(pod)[0]])
    found = lab.world.dial(run, host, port)
    return found.condition or found.backend.ref.pod


@pytest.fixture
def town(make_lab: Any) -> Any:
    lab = make_lab()
    lab.shop(2)
    return lab


LOOKUPS = [
    ("cartservice", ("NOERROR", "10.96.7.13")),
    ("cartservice.shop", ("NOERROR", "10.96.7.13")),
    ("cartservice.shop.svc", ("NOERROR", "10.96.7.13")),
    (FULL, ("NOERROR", "10.96.7.13")),
    (FULL + ".", ("NOERROR", "10.96.7.13")),
    ("cartservice.", ("NXDOMAIN", "")),
    ("cartservice.elsewhere", ("NXDOMAIN", "")),
    ("nothing", ("NXDOMAIN", "")),
    ("10-244-1-9.shop.pod.cluster.local", ("NOERROR", "10.244.1.9")),
    ("www.google.com", ("SERVFAIL", "")),
    ("10.1.2.3", ("NOERROR", "10.1.2.3")),
    ("localhost", ("NOERROR", "127.0.0.1")),
]


@pytest.mark.parametrize(("host", "answer"), LOOKUPS)
def test_names(town: Any, host: str, answer: tuple[str, str]) -> None:
    assert lookup(town, host) == answer


COREFILES = [
    (PLAIN.replace("cluster.local in-addr.arpa", "other.zone"), FULL, ("NXDOMAIN", "")),
    (PLAIN.replace("    errors", "    rewrite name exact shop.example cartservice.shop.svc.cluster.local"),
     "shop.example", ("NOERROR", "10.96.7.13")),
    (PLAIN.replace("    errors", f"    rewrite name {FULL} adservice.shop.svc.cluster.local"),
     "cartservice", ("NOERROR", "10.96.7.12")),
    (PLAIN.replace("    errors", "    hosts {\n        10.9.9.9 legacy.example\n        fallthrough\n    }"),
     "legacy.example", ("NOERROR", "10.9.9.9")),
    (PLAIN.replace("    errors", "    template ANY ANY shop.svc.cluster.local {\n        rcode NXDOMAIN\n    }"),
     "cartservice", ("NXDOMAIN", "")),
    (PLAIN.replace("    errors", "    template IN A svc.cluster.local {\n    match cart\n    rcode SERVFAIL\n    }"),
     "cartservice", ("SERVFAIL", "")),
    ("example.org:53 {\n    forward . 1.1.1.1\n}\n", "cartservice", ("REFUSED", "")),
    (PLAIN.replace("kubernetes", "kubernets"), "cartservice", ("TIMEOUT", "")),
]  # fmt: skip


@pytest.mark.parametrize(("corefile", "host", "answer"), COREFILES)
def test_the_corefile_decides(town: Any, corefile: str, host: str, answer: tuple[str, str]) -> None:
    town.world.refresh_files(town.refs["coredns"], {"/etc/coredns/Corefile": corefile}, town.now)
    assert lookup(town, host) == answer


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (".:53 {\n  nope\n}", "Corefile:2 - Error during parsing: Unknown directive 'nope'"),
        (".:53 {\n  errors\n", "Corefile:2 - Error during parsing: Unexpected end of file"),
        ("errors\n", "Corefile:1 - Error during parsing: Unexpected token 'errors'"),
    ],
)
def test_broken_corefiles(text: str, complaint: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(text)
    assert str(caught.value) == complaint


def redialled(town: Any, break_names: Callable[[], None]) -> list[str]:
    """The frontend's logs after names broke and all pods of the currency service were replaced."""
    town.users()
    town.advance(60)
    break_names()
    before = sum(n for k, n in town.spans(service_name="frontend").items() if k[3] == "ERROR")
    town.advance(60)
    assert sum(n for k, n in town.spans(service_name="frontend").items() if k[3] == "ERROR") == before
    town.remove(town.pods("currencyservice")[0])
    town.remove(town.pods("currencyservice")[0])
    town.app("currencyservice", 1)
    town.slice("currencyservice", 7000)
    town.advance(60)
    return [line for pod in town.pods("frontend") for line in town.logs(pod, tail=400)]


def test_a_dns_that_refuses_misbehaves_to_programs(town: Any) -> None:
    corefile = "example.org:53 {\n    forward . 1.1.1.1\n}\n"

    def break_names() -> None:
        town.world.refresh_files(town.refs["coredns"], {"/etc/coredns/Corefile": corefile}, town.now)

    logs = redialled(town, break_names)
    expected = "dns: A record lookup error: lookup currencyservice on 10.96.0.10:53: server misbehaving"
    assert any(expected in line for line in logs)


def test_without_coredns_names_time_out_but_open_channels_go_on(town: Any) -> None:
    def break_names() -> None:
        town.world.ended(town.refs["coredns"], town.now)
        assert lookup(town, "cartservice") == ("TIMEOUT", "")

    logs = redialled(town, break_names)
    assert any("dns: A record lookup error: lookup currencyservice on 10.96.0.10:53: read udp" in x for x in logs)


def test_the_dns_service_decides_too(town: Any) -> None:
    key = Key("discovery.k8s.io/endpointslices", "kube-system", "kube-dns-abcde")
    slice_ = town.store.get(key)
    town.put("discovery.k8s.io/endpointslices", "kube-system", "kube-dns-abcde", {**slice_, "endpoints": []})
    assert lookup(town, "cartservice") == ("UNREACHED", "")
    town.store.remove(Key("services", "kube-system", "kube-dns"))
    assert lookup(town, "cartservice") == ("TIMEOUT", "")


PODS = [
    ({"dnsPolicy": "Default"}, "cartservice", ("NXDOMAIN", "")),
    ({"hostAliases": [{"ip": "10.8.8.8", "hostnames": ["cartservice"]}]}, "cartservice", ("NOERROR", "10.8.8.8")),
    ({"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}, "cartservice", ("NOERROR", "10.96.7.13")),
    ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.0.10"]}}, "cartservice", ("NXDOMAIN", "")),
    ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.0.10"], "searches": ["shop.svc.cluster.local"]}},
     "cartservice", ("NOERROR", "10.96.7.13")),
    ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"]}}, FULL, ("NXDOMAIN", "")),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "host", "answer"), PODS)
def test_a_pods_own_settings(town: Any, spec: dict[str, Any], host: str, answer: tuple[str, str]) -> None:
    name = town.pods("frontend")[0]
    pod = town.store.get(Key("pods", "shop", name))
    town.put("pods", "shop", name, {**pod, "metadata": {**pod["metadata"], "labels": {"app": "frontend", "x": "y"}},
                                    "spec": spec})  # fmt: skip
    assert lookup(town, host) == answer


def serve(lab: Any, **spec: Any) -> None:
    key = Key("services", "shop", "adservice")
    lab.put("services", "shop", "adservice", {"spec": {**lab.store.get(key)["spec"], **spec}})


def test_session_affinity_keeps_a_client_with_one_endpoint(town: Any) -> None:
    reached = {dial(town, "adservice", 9555) for _ in range(12)}
    serve(town, sessionAffinity="ClientIP")
    kept = {dial(town, "adservice", 9555) for _ in range(12)}
    assert len(kept) == 1 and kept <= reached | set(town.pods("adservice"))


def test_local_traffic_stays_on_the_node(town: Any) -> None:
    serve(town, internalTrafficPolicy="Local")
    here = town.world.runs.find(town.refs[town.pods("frontend")[0]]).spec.node
    key = Key("discovery.k8s.io/endpointslices", "shop", "adservice-abcde")
    slice_ = town.store.get(key)
    elsewhere = [{**e, "nodeName": "other"} for e in slice_["endpoints"]]
    town.put("discovery.k8s.io/endpointslices", "shop", "adservice-abcde", {**slice_, "endpoints": elsewhere})
    assert dial(town, "adservice", 9555) == "silent"
    mixed = [elsewhere[0], {**elsewhere[1], "nodeName": here}]
    town.put("discovery.k8s.io/endpointslices", "shop", "adservice-abcde", {**slice_, "endpoints": mixed})
    address = mixed[1]["addresses"][0]
    assert {dial(town, "adservice", 9555) for _ in range(6)} == {
        p for p in town.pods("adservice") if town.store.get(Key("pods", "shop", p))["status"]["podIP"] == address
    }


def test_node_ports_and_external_addresses(town: Any) -> None:
    node = town.store.get(Key("nodes", "", "worker-1"))
    status = {**node["status"], "addresses": [{"type": "InternalIP", "address": "172.18.0.9"}]}
    town.put("nodes", "", "worker-1", {"status": status})
    ports = [{"name": "main", "port": 9555, "targetPort": 9555, "nodePort": 30555}]
    serve(town, type="NodePort", ports=ports, externalIPs=["192.168.7.7"])
    assert dial(town, "172.18.0.9", 30555) in town.pods("adservice")
    assert dial(town, "192.168.7.7", 9555) in town.pods("adservice")
    assert dial(town, "172.18.0.9", 30556) == "silent"


def test_endpoints_that_end_serve_while_there_is_no_other(town: Any) -> None:
    key = Key("discovery.k8s.io/endpointslices", "shop", "adservice-abcde")
    slice_ = town.store.get(key)
    ending = {"ready": False, "serving": True, "terminating": True}
    first, second = slice_["endpoints"]
    town.put("discovery.k8s.io/endpointslices", "shop", "adservice-abcde",
             {**slice_, "endpoints": [{**first, "conditions": ending}, second]})  # fmt: skip
    assert len({dial(town, "adservice", 9555) for _ in range(8)}) == 1
    town.put("discovery.k8s.io/endpointslices", "shop", "adservice-abcde",
             {**slice_, "endpoints": [{**first, "conditions": ending}]})  # fmt: skip
    assert dial(town, "adservice", 9555) in town.pods("adservice")


DENIED = {"podSelector": {}, "policyTypes": ["Egress"]}
POLICIES = [
    ({**DENIED, "egress": []}, ("TIMEOUT", ""), "name-timeout"),
    ({**DENIED, "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}, ("NOERROR", "10.96.7.12"), "silent"),
    ({**DENIED, "egress": [{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 9000, "endPort": 9600}]}]},
     ("NOERROR", "10.96.7.12"), ""),
    ({**DENIED, "egress": [{"ports": [{"port": 53}]}]}, ("TIMEOUT", ""), "name-timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "name", "outcome"), POLICIES)
def test_network_policies_hold_for_lookups_too(
    town: Any, spec: dict[str, Any], name: tuple[str, str], outcome: str
) -> None:
    town.put("networking.k8s.io/networkpolicies", "shop", "p", {"spec": spec})
    assert lookup(town, "adservice") == name
    found = dial(town, "adservice", 9555)
    assert found == outcome if outcome else found in town.pods("adservice")


SEARCH = "search shop.svc.cluster.local svc.cluster.local cluster.local\n"
FILES = [
    ({}, SEARCH + "nameserver 10.96.0.10\noptions ndots:5\n"),
    ({"dnsConfig": {"options": [{"name": "ndots", "value": "1"}, {"name": "rotate"}]}},
     SEARCH + "nameserver 10.96.0.10\noptions ndots:1 rotate\n"),
    ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["a.b"]}},
     "search a.b\nnameserver 9.9.9.9\n"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "text"), FILES)
def test_a_container_sees_the_settings_that_its_lookups_follow(lab: Any, spec: dict[str, Any], text: str) -> None:
    name = lab.pod("tools", "nicolaka/netshoot:latest", None, {}, command=("sleep", "infinity"))
    aliases = [{"ip": "10.8.8.8", "hostnames": ["old-shop", "older-shop"]}]
    pod = lab.store.get(Key("pods", "shop", name))
    lab.put("pods", "shop", name, {**pod, "spec": {**spec, "hostAliases": aliases}})
    done = lab.world.exec(lab.refs[name], ["cat", "/etc/resolv.conf"], b"", lab.now)
    assert done.stdout.decode() == text
    done = lab.world.exec(lab.refs[name], ["cat", "/etc/hosts"], b"", lab.now)
    assert done.stdout.decode().endswith(f"\t{name}\n10.8.8.8\told-shop\tolder-shop\n")
