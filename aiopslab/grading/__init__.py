"""Grading: pure functions of a run's record. ``judge.py`` has the rules, one module per task the formulas."""

from aiopslab.grading.judge import TASKS, grade, grade_record
from aiopslab.grading.recovery import check_recovered

__all__ = ["TASKS", "check_recovered", "grade", "grade_record"]
