{{/* The authorities that hub and workers trust: certificates.configMap instead of the image's. */}}
{{- define "certificates.env" -}}
{{- if .Values.certificates.configMap }}
- {name: SSL_CERT_FILE, value: /certificates/bundle.pem}
- {name: AWS_CA_BUNDLE, value: /certificates/bundle.pem}  # boto3 knows only this one
{{- end }}
{{- end }}

{{- define "certificates.mount" -}}
{{- if .Values.certificates.configMap }}
- {name: certificates, mountPath: /certificates, readOnly: true}
{{- end }}
{{- end }}

{{- define "certificates.volume" -}}
{{- with .Values.certificates }}
{{- if .configMap }}
- name: certificates
  configMap: {name: {{ .configMap }}, items: [{key: {{ .key }}, path: bundle.pem}]}
{{- end }}
{{- end }}
{{- end }}
