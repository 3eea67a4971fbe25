"""Pod Security admission: what the labels of a namespace allow the pods in it to ask for.

``checks`` holds the Pod Security Standards, ``levels`` reads the labels, ``admit`` judges writes.
"""

from aiopslab.sim.core.podsecurity.admit import check

__all__ = ["check"]
