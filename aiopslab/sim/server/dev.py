"""A cluster on the wall clock in the foreground, for trying clients:

``python -m aiopslab.sim.server.dev --bare --port 8443 --kubeconfig FILE``
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from pathlib import Path

from aiopslab.sim.assemble import assemble
from aiopslab.sim.server.app import build_app, serve
from aiopslab.sim.server.auth import ADMIN
from aiopslab.sim.server.kubeconfig import kubeconfig, write_private
from aiopslab.sim.server.tls import make_tls

TICK_S = 0.05


async def run(bare: bool, port: int, path: Path, seed: int) -> None:
    """Serve until cancelled; virtual time follows the machine's clock."""
    tls = make_tls()
    cluster = assemble(seed, time.time(), bare=bare, root_ca=tls.ca_pem)
    token = cluster.kernel.ids.hex(40, "admin-token")
    app = build_app(cluster.api, cluster.world, {token: ADMIN})
    runner, bound = await serve(app, tls.context, port)
    url = f"https://127.0.0.1:{bound}"
    write_private(path, kubeconfig(url, tls.ca_pem, token))
    print(f"serving {url}, kubeconfig {path}", flush=True)
    try:
        while True:
            await asyncio.sleep(TICK_S)
            cluster.kernel.advance(time.time())
    finally:
        await runner.cleanup()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="An embedded cluster on the wall clock.")
    parser.add_argument("--bare", action="store_true", help="three plain nodes, no add-ons")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="file to write")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(options.bare, options.port, options.kubeconfig, options.seed))


if __name__ == "__main__":
    main()
