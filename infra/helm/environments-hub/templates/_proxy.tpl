{{/* The proxy by which hub and workers reach the outside; what is in the cluster is reached without it. */}}
{{- define "proxy.env" -}}
{{- with .Values.proxy }}
{{- if or .url .secret }}
{{- $name := include "hub.name" $ -}}
{{- $web := printf "%s-web" $name -}}
{{- $inside := list "localhost" "127.0.0.1" "::1" ".svc" ".cluster.local" $web (printf "%s.%s" $web $.Release.Namespace) (printf "%s-s3" $name) }}
{{- range list $.Values.storage.endpointUrl $.Values.traces.endpoint }}
{{- if hasPrefix "http://" . }}{{ $inside = append $inside (get (urlParse .) "hostname") }}{{ end }}
{{- end }}
{{- if .secret }}
- name: HTTPS_PROXY
  valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
{{- else }}
- {name: HTTPS_PROXY, value: {{ .url | quote }}}
{{- end }}
- {name: HTTP_PROXY, value: $(HTTPS_PROXY)}
- {name: NO_PROXY, value: {{ concat $inside .noProxy | uniq | join "," | quote }}}
{{- end }}
{{- end }}
{{- end }}
