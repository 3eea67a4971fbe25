"""``python -m aiopslab.sim``: the embedded cluster as a process of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Parse the command line and run until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m aiopslab.sim", description=__doc__)
    parser.add_argument(
        "--dir", type=Path, required=True, help="folder for kubeconfig, state file and control socket"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", choices=("stepped", "wall"), default="stepped")
    parser.add_argument("--bundle", type=Path, action="append", default=[], help="folder with apps/*/sim.toml")
    parser.add_argument("--bare", action="store_true", help="plain nodes and nothing else")
    parser.add_argument("--nodes", type=int, default=3, help="worker nodes, or plain ones of a bare cluster")
    parser.add_argument("--port", type=int, default=0, help="of the Kubernetes API; 0 takes a free one")
    parser.add_argument("--noise", choices=("off", "light", "full"), default="off", help="of a healthy cluster")
    parser.add_argument("--detached", action="store_true", help="do not end when standard input closes")
    arguments = parser.parse_args()
    from aiopslab.sim.process import Settings, run

    return run(Settings(**vars(arguments)))


if __name__ == "__main__":
    sys.exit(main())
