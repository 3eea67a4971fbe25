"""``aiopslab cluster up|down|status|doctor``: one embedded cluster in the background, on the wall clock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from aiopslab.cli.flags import Bundles, Json, Seed, draw_seed
from aiopslab.cli.output import print_json, print_pairs, print_table
from aiopslab.cluster import ClusterOptions, background
from aiopslab.errors import UsageError

_SHOWN = ("kubeconfig", "agent_kubeconfig", "prometheus_url", "jaeger_url", "pid", "seed", "app")
NODES_MAX = 250  # their addresses are those of one /24
AGENT_KUBECONFIG = "agent.kubeconfig"  # beside the administrator's
_NO_APP_NAMESPACE = "default"  # where the agent's identity works when no app is deployed


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Size:
    """What the cluster consists of."""

    bare: Annotated[bool, Parameter(help="No add-ons: the control plane alone.", negative="")] = False
    nodes: Annotated[int, Parameter(help="Worker nodes, 1 to 250.")] = 3


def up(
    *,
    app: Annotated[str | None, Parameter(help="Deploy this app into it.")] = None,
    size: Size | None = None,
    port: Annotated[int, Parameter(help="Port of the Kubernetes API; 0 picks a free one.")] = 0,
    seed: Seed = None,
    bundle: Bundles = None,
    json: Json = False,
) -> int:
    """Start the background cluster and say how to reach it."""
    size = size or Size()
    if app and size.bare:
        raise UsageError("--app needs the add-ons: leave out --bare")
    if not 1 <= size.nodes <= NODES_MAX:
        raise UsageError(f"--nodes {size.nodes}: give a number from 1 to {NODES_MAX}")
    from aiopslab.catalog.bundles import bundle_roots

    chosen = _find_app(app, bundle) if app else None
    options = ClusterOptions(
        seed=draw_seed(seed), clock="wall", bundles=bundle_roots(bundle or []), bare=size.bare, nodes=size.nodes
    )
    state = background.up(options, port)
    try:
        state |= _prepare(state, options, chosen)
    except BaseException:
        background.down()
        raise
    if json:
        print_json(state)
        return 0
    print_pairs((name, str(state.get(name) or "")) for name in _SHOWN)
    print(f"\nexport KUBECONFIG={state['kubeconfig']}")
    return 0


def down(*, json: Json = False) -> int:
    """End the background cluster. Fine when none runs."""
    state = background.down()
    if json:
        print_json({"stopped": state is not None, "pid": state["pid"] if state else None})
    else:
        print(f"stopped (pid {state['pid']})" if state else "no cluster was running")
    return 0


def status(*, json: Json = False) -> int:
    """Say whether the background cluster runs, and where. Exit code 1 when none does."""
    state = background.status()
    if state:
        agent = Path(state["kubeconfig"]).with_name(AGENT_KUBECONFIG)
        state |= {"agent_kubeconfig": str(agent)} if agent.is_file() else {}
    if json:
        print_json({"running": state is not None, **(state or {})})
    elif state:
        print_pairs((name, str(state.get(name) or "")) for name in _SHOWN)
    else:
        print("no cluster is running; `aiopslab cluster up` starts one")
    return 0 if state else 1


def doctor(*, json: Json = False) -> int:
    """What this machine lacks for each kind of cluster, with the command that fixes it."""
    from aiopslab.cluster.doctor import doctor as examine

    findings = examine()
    if json:
        rows = [{"name": f.name, "ok": f.ok, "detail": f.detail, "fix": f.fix} for f in findings]
        print_json({"findings": rows})
    else:
        print_table(
            ("", "WHAT", "FOUND", "FIX"),
            [("ok" if f.ok else "--", f.name, f.detail, f.fix) for f in findings],
        )
    return 0 if all(finding.ok for finding in findings) else 1


def _find_app(name: str, bundle: list[Path] | None) -> Any:
    from aiopslab.catalog.catalog import Catalog

    return Catalog.load(bundle or []).app(name)


def _prepare(state: dict[str, Any], options: ClusterOptions, app: Any) -> dict[str, Any]:
    """Deploy the app, if any, and make the agent's identity. Returns what that adds to the state."""
    import asyncio

    return asyncio.run(_prepare_async(state, options, app))


async def _prepare_async(state: dict[str, Any], options: ClusterOptions, app: Any) -> dict[str, Any]:
    from aiopslab.cluster import open_cluster
    from aiopslab.cluster.identity import agent_kubeconfig
    from aiopslab.kube.client import Kube

    kubeconfig = Path(state["kubeconfig"])
    reached = ClusterOptions(
        seed=options.seed,
        clock="wall",
        kubeconfig=kubeconfig,
        prometheus_url=state["prometheus_url"],
        jaeger_url=state["jaeger_url"],
    )
    async with Kube(kubeconfig) as kube:
        if app is not None:
            from aiopslab.deploy.engine import Deployer
            from aiopslab.kube.helm import Helm
            from aiopslab.kube.tools import Tools

            cluster = await open_cluster("kubeconfig", reached).up()
            await Deployer(cluster, kube, Helm(Tools.fetch(), kubeconfig)).deploy(app)
        namespace = app.namespace if app is not None else _NO_APP_NAMESPACE
        agent = await agent_kubeconfig(kube, namespace, kubeconfig.with_name(AGENT_KUBECONFIG))
    return {"agent_kubeconfig": str(agent), "app": app.id if app is not None else None}
