{{/* What every container of the hub has in common: web, sweeper, migrations, garbage. */}}
{{- define "hub.env" -}}
{{- $name := include "hub.name" . -}}
{{- $secret := required "hub.secret: the name of a Secret with HUB_SECRET_KEY, HUB_DATABASE_URL, ..." .Values.hub.secret -}}
{{- $hosts := list (printf "%s-web" $name) (printf "%s-web.%s" $name .Release.Namespace) (printf "%s-web.%s.svc" $name .Release.Namespace) "$(POD_IP)" -}}
- name: POD_IP  # kubelet and Prometheus call the hub by it
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- {name: HUB_BASE_URL, value: {{ .Values.hub.url | quote }}}
- {name: HUB_ALLOWED_HOSTS, value: {{ concat $hosts .Values.hub.allowedHosts | toJson | quote }}}
- {name: HUB_DATA, value: /data}
- {name: HUB_STORAGE, value: s3}
- {name: HUB_S3_BUCKET, value: {{ required "storage.bucket" .Values.storage.bucket | quote }}}
{{- $s3 := ternary (printf "http://%s-s3:9000" $name) "" .Values.trial.s3.enabled }}
- {name: HUB_S3_ENDPOINT_URL, value: {{ default $s3 .Values.storage.endpointUrl | quote }}}
- {name: HUB_S3_PUBLIC_ENDPOINT_URL, value: {{ required "storage.publicEndpointUrl: the object storage as users and workers reach it" .Values.storage.publicEndpointUrl | quote }}}
- {name: HUB_S3_REGION, value: {{ .Values.storage.region | quote }}}
- {name: HUB_OUTBOUND_ALLOW_LOOPBACK, value: "false"}
- {name: HUB_DATABASE_POOL, value: {{ .Values.hub.databasePool | quote }}}
- {name: FORWARDED_ALLOW_IPS, value: {{ .Values.hub.forwardedAllowIps | quote }}}
{{- if .Values.trial.postgres.enabled }}
- name: POSTGRES_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: POSTGRES_PASSWORD}}
- {name: HUB_DATABASE_URL, value: "postgresql://hub:$(POSTGRES_PASSWORD)@{{ $name }}-postgres:5432/hub"}
{{- end }}
{{- if .Values.trial.redis.enabled }}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: REDIS_PASSWORD}}
- {name: HUB_BROKER_URL, value: "redis://:$(REDIS_PASSWORD)@{{ $name }}-redis:6379/0"}
{{- end }}
{{- $needed := list "HUB_SECRET_KEY" "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
{{- if not .Values.trial.postgres.enabled }}{{ $needed = append $needed "HUB_DATABASE_URL" }}{{ end }}
{{- if not .Values.trial.redis.enabled }}{{ $needed = append $needed "HUB_BROKER_URL" }}{{ end }}
{{- range $needed }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}
{{- end }}
{{- $optional := list "HUB_SECRETS_KEYS" "HUB_METRICS_TOKEN" "HUB_HUGGINGFACE_TOKEN" "HUB_WORKER_BROKER_URL" "HUB_MAIL_URL" "HUB_OIDC_CLIENT_SECRET" "HUB_BACKUP_S3_ACCESS_KEY_ID" "HUB_BACKUP_S3_SECRET_ACCESS_KEY" }}
{{- range $optional }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}, optional: true}}
{{- end }}
{{- $elsewhere := concat $needed $optional (list "HUB_DATABASE_URL" "HUB_BROKER_URL") }}
{{- range $key, $value := .Values.hub.settings }}
{{- if has $key $elsewhere }}{{ fail (printf "hub.settings.%s: a secret belongs into the Secret that hub.secret names" $key) }}{{ end }}
- {name: {{ $key }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- include "certificates.env" . }}
{{- include "proxy.env" . }}
{{- include "traces.env" . }}
{{- end }}

{{/* (dict "root" . "name" "web" "command" (list ...) "resources" {...}): a container without its probes. */}}
{{- define "hub.container" -}}
name: {{ .name }}
image: {{ include "hub.image" (list .root .root.Values.hub.image) }}
imagePullPolicy: {{ .root.Values.hub.image.pullPolicy }}
command:
  {{- toYaml .command | nindent 2 }}
env:
  {{- include "hub.env" .root | include "hub.once" | nindent 2 }}
securityContext:
  {{- include "hub.restrictedContainer" . | nindent 2 }}
resources:
  {{- toYaml .resources | nindent 2 }}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
  {{- include "certificates.mount" .root | nindent 2 }}
{{- end }}

{{/* What its pods have in common. */}}
{{- define "hub.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "hub.restrictedPod" 10001 | nindent 2 }}
{{- include "hub.pullSecrets" . }}
{{- with .Values.hub.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hub.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - {name: data, emptyDir: {}}
  - {name: tmp, emptyDir: {}}
  {{- include "certificates.volume" . | nindent 2 }}
{{- end }}
