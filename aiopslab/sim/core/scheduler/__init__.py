"""The scheduler: filters, scores, preemption, and the messages that explain why a pod stays Pending."""

from aiopslab.sim.core.scheduler.controller import Scheduler

__all__ = ["Scheduler"]
