"""Agents: the protocol, the loader, and those that need no model."""

from aiopslab.agents.loader import BUILTIN, load_agent
from aiopslab.agents.protocol import Agent

__all__ = ["BUILTIN", "Agent", "load_agent"]
