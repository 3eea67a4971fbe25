"""The closed room that an agent's commands run in."""
