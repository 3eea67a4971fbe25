#!/bin/sh
# Repairs otel-email-leak. Needs NAMESPACE, FLAG, CONFIG_MAP and DEPLOYMENT in the environment.
# Paragraphs are run one by one, as separate commands.
set -eu

# Only the default variant of this one flag changes.
kubectl get configmap "$CONFIG_MAP" -n "$NAMESPACE" -o yaml \
  | sed "/\"$FLAG\": {/,/\"defaultVariant\"/ s/\"defaultVariant\": \"[^\"]*\"/\"defaultVariant\": \"off\"/" \
  | kubectl replace -f -

# The flag service reads a copy that is made when its pod starts.
kubectl rollout restart deployment "$DEPLOYMENT" -n "$NAMESPACE"
kubectl rollout status deployment "$DEPLOYMENT" -n "$NAMESPACE" --timeout=120s
