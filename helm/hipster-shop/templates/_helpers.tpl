{{/* Pod-level security context: every pod runs as user 1000. */}}
{{- define "hipster-shop.podSecurity" -}}
{{- if .Values.securityContext.enable }}
securityContext:
  fsGroup: 1000
  runAsGroup: 1000
  runAsNonRoot: true
  runAsUser: 1000
  {{- if .Values.seccompProfile.enable }}
  seccompProfile:
    type: {{ .Values.seccompProfile.type }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Container-level security context: no capabilities, nothing writable. */}}
{{- define "hipster-shop.containerSecurity" -}}
{{- if .Values.securityContext.enable }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop:
      - ALL
  privileged: false
  readOnlyRootFilesystem: true
{{- end }}
{{- end }}

{{/* One gRPC or HTTP probe. Takes dict "service" "containerPort" "kind" (readiness or liveness). */}}
{{- define "hipster-shop.probe" -}}
{{- $probe := .service.probe | default dict }}
{{- with $probe.initialDelaySeconds }}
initialDelaySeconds: {{ . }}
{{- end }}
{{- $period := index .service (printf "%sPeriodSeconds" .kind) | default $probe.periodSeconds }}
{{- with $period }}
periodSeconds: {{ . }}
{{- end }}
{{- if $probe.httpGet }}
httpGet:
  path: {{ $probe.httpGet | quote }}
  port: {{ .containerPort }}
  httpHeaders:
    - name: Cookie
      value: shop_session-id=x-{{ .kind }}-probe
{{- else }}
grpc:
  port: {{ .containerPort }}
{{- end }}
{{- end }}
