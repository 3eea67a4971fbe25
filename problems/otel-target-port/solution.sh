#!/bin/sh
# Repairs otel-target-port. Needs NAMESPACE, SERVICE and PORT_INDEX in the environment.
# Paragraphs are run one by one, as separate commands.
set -eu

# The port that the container really opens is the one that the Service must forward to.
port=$(kubectl get deployment "$SERVICE" -n "$NAMESPACE" \
  -o jsonpath='{.spec.template.spec.containers[0].ports[0].containerPort}')
kubectl patch service "$SERVICE" -n "$NAMESPACE" --type json \
  -p "[{\"op\": \"replace\", \"path\": \"/spec/ports/$PORT_INDEX/targetPort\", \"value\": $port}]"

# Every endpoint has the port now; callers redial by themselves.
kubectl get endpointslices -n "$NAMESPACE" -l "kubernetes.io/service-name=$SERVICE"
