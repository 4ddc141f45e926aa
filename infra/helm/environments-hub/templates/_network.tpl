{{/* Parts of network policies. */}}
{{- define "network.dns" -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end }}

{{/* (dict "to" [...] "port" 5432): one of networkPolicy.database, broker, storage. */}}
{{- define "network.part" -}}
- ports: [{protocol: TCP, port: {{ .port }}}]
  {{- with .to }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Public addresses only: what is private, link-local (clouds' metadata) or shared needs a line in hubEgress or workerEgress. */}}
{{- define "network.outbound" -}}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16]}
    - ipBlock: {cidr: "::/0", except: ["fc00::/7", "fe80::/10"]}
  ports:
    {{- range .Values.networkPolicy.outboundPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{/* To a trial part: (list . "postgres" port). */}}
{{- define "network.trial" -}}
- to:
    - podSelector:
        matchLabels: {{- include "hub.selector" (list (index . 0) (index . 1)) | nindent 10 }}
  ports: [{protocol: TCP, port: {{ index . 2 }}}]
{{- end }}
