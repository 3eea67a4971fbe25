"""wrk2, in its own form and in DeathStarBench's: arguments, Lua scripts, load and report."""

from aiopslab.sim.world.wrk2.load import Wrk2Load
from aiopslab.sim.world.wrk2.options import is_wrk2, parse
from aiopslab.sim.world.wrk2.routing import match_route
from aiopslab.sim.world.wrk2.runs import Load, Wrk2Runs

__all__ = ["Load", "Wrk2Load", "Wrk2Runs", "is_wrk2", "match_route", "parse"]
