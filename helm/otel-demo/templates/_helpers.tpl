{{/* Labels of a component. Takes dict "name" "version". */}}
{{- define "otel-demo.labels" -}}
opentelemetry.io/name: {{ .name }}
app.kubernetes.io/component: {{ .name }}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/version: {{ .version | quote }}
{{- end }}

{{/* Image of a component: its own, or the demo's with the component as suffix. Takes dict "root" "name" "image". */}}
{{- define "otel-demo.image" -}}
{{- .image | default (printf "%s:%s-%s" .root.Values.images.repository .root.Values.images.tag .name) -}}
{{- end }}

{{/* Where a component sends its telemetry; ports: 4317 is OTLP over gRPC, 4318 over HTTP. Takes dict "root" "component". */}}
{{- define "otel-demo.telemetryEnv" -}}
- name: OTEL_SERVICE_NAME
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: metadata.labels['app.kubernetes.io/component']
- name: OTEL_COLLECTOR_NAME
  value: {{ .root.Values.collector.host | quote }}
- name: OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE
  value: cumulative
{{- with .component.otlpPort }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: http://$(OTEL_COLLECTOR_NAME):{{ . }}
{{- end }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: service.version={{ .root.Values.images.tag }}{{ with .component.criticality }},service.criticality={{ . }}{{ end }}
{{- end }}

{{/* Plain variables, in the given order: later ones may use earlier ones. */}}
{{- define "otel-demo.env" -}}
{{- range . }}
- name: {{ .name }}
  value: {{ .value | quote }}
{{- end }}
{{- end }}

{{/* One init container that waits until a port is open. Takes dict "root" "host" "port". */}}
{{- define "otel-demo.waitFor" -}}
- name: wait-for-{{ .host }}
  image: {{ .root.Values.images.busybox }}
  command:
    - sh
    - -c
    - until nc -z -v -w30 {{ .host }} {{ .port }}; do echo waiting for {{ .host }}; sleep 2; done
{{- end }}
