"""Talking to clusters: the Kubernetes API, Helm, and the programs that the lab needs.

Import from the modules: ``kube.client`` (Kube, KubeError), ``kube.helm`` (Helm), ``kube.tools`` (Tools),
``kube.process`` (run). This file stays empty of imports, since the client library is slow to import.
"""
