{{/* Where hub and workers send their traces. */}}
{{- define "traces.env" -}}
{{- with .Values.traces }}
{{- if .endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
{{- if .secret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: {secretKeyRef: {name: {{ .secret }}, key: OTEL_EXPORTER_OTLP_HEADERS}}
{{- end }}
{{- range $key, $value := .settings }}
{{- if hasSuffix "_HEADERS" $key }}{{ fail (printf "traces.settings.%s: a secret belongs into the Secret that traces.secret names" $key) }}{{ end }}
- {name: {{ $key }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
