#!/bin/sh
# Repairs otel-scale-zero. Needs NAMESPACE and SERVICE in the environment.
# Paragraphs are run one by one, as separate commands.
set -eu

kubectl scale deployment "$SERVICE" -n "$NAMESPACE" --replicas=1

kubectl rollout status deployment "$SERVICE" -n "$NAMESPACE" --timeout=60s
