"""The Kubernetes version that the embedded cluster says it is."""

KUBERNETES_VERSION = "v1.36.2"
