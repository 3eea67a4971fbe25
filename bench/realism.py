"""How close the embedded shop comes to public measurements of the real one: ``make realism``.

    python bench/realism.py [--reference FILE] [--seed N] [--only TEXT] [--outside] [--json]

Each figure stands beside the reference's with the difference that two real days of one cluster show by themselves
(the median is "close", the 90th percentile "inside"). ``docs/realism.md`` says what the figures are and why some
are outside.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import OUTSIDE, Figure, Tolerances, table, totals
from shapes import fault_shape_figures, log_figures, shape_figures
from stock import fault_figures, health_figures

REFERENCE = Path(__file__).resolve().parents[2] / "shared/reference/real-measurements.json"
Part = Callable[[dict[str, Any], Tolerances, int], list[Figure]]
PARTS: dict[str, Part] = {
    "health": health_figures,
    "faults": fault_figures,
    "logs": log_figures,
    "shapes": shape_figures,
    "fault-shapes": fault_shape_figures,
}


def measure(reference: dict[str, Any], seed: int, parts: list[str]) -> list[Figure]:
    """All figures of the chosen parts."""
    tolerances = Tolerances(reference)
    found = [figure for part in parts for figure in PARTS[part](reference, tolerances, seed)]
    groups = list(dict.fromkeys(figure.group for figure in found))
    return sorted(found, key=lambda figure: groups.index(figure.group))


def main() -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="real-measurements.json of a day")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="one part (repeat for more)")
    parser.add_argument("--outside", action="store_true", help="list only figures outside the tolerance")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.reference.is_file():
        raise SystemExit(f"no reference in {options.reference}; pass --reference FILE")
    reference = json.loads(options.reference.read_text())
    figures = measure(reference, options.seed, options.only or list(PARTS))
    if options.json:
        rows = [
            {"group": f.group, "figure": f.name, "theirs": f.theirs, "ours": f.ours, "kind": f.tolerance.kind,
             "allowed": f.tolerance.wide, "verdict": f.verdict}
            for f in figures
        ]  # fmt: skip
        json.dump({"day": reference.get("day"), "seed": options.seed, "figures": rows}, sys.stdout, indent=1)
        print()
        return
    shown = [f for f in figures if f.verdict == OUTSIDE] if options.outside else figures
    print("\n".join(table(shown)))
    print("\ntotals (inside includes close)")
    for name, close, inside, count in totals(figures):
        print(f"  {name:44}{close:5} close{inside:5} inside  of {count}")


if __name__ == "__main__":
    main()
