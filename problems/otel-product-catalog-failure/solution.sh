#!/bin/sh
# Repairs otel-product-catalog-failure. Needs NAMESPACE, FLAG, CONFIG_MAP and DEPLOYMENT in the environment.
# Paragraphs are run one by one, as separate commands.
set -eu

# The flag has a targeting rule; its first result counts, not the default variant.
kubectl get configmap "$CONFIG_MAP" -n "$NAMESPACE" -o yaml \
  | sed "/\"$FLAG\": {/,/^ *\"off\"$/ s/^\( *\)\"on\",$/\1\"off\",/" \
  | kubectl replace -f -

# The flag service reads a copy that is made when its pod starts.
kubectl rollout restart deployment "$DEPLOYMENT" -n "$NAMESPACE"
kubectl rollout status deployment "$DEPLOYMENT" -n "$NAMESPACE" --timeout=120s
