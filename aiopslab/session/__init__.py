"""Sessions: one agent, one incident, one record. ``run.run_problem`` runs it, ``orchestrator`` is AIOpsLab's
interface.
"""
