{{/* Parts of the Ray cluster. Its pods hold no boxes, so Kubernetes' restricted profile is enough for them. */}}
{{- define "ray.name" -}}
{{ include "hub.name" . }}-ray
{{- end }}

{{/* The head's Service, as KubeRay names it. */}}
{{- define "ray.address" -}}
{{ include "ray.name" . }}-head-svc.{{ .Release.Namespace }}:6379
{{- end }}

{{/* Ray's token, for every process of the cluster and for the worker that uses it. */}}
{{- define "ray.token" -}}
- {name: RAY_AUTH_MODE, value: token}
- name: RAY_AUTH_TOKEN
  valueFrom: {secretKeyRef: {name: {{ required "ray.token.secret: the name of a Secret with a token for Ray" .Values.ray.token.secret }}, key: {{ .Values.ray.token.key }}}}
- {name: RAY_USAGE_STATS_ENABLED, value: "0"}
{{- end }}

{{/* What a worker has to be to use the cluster: its own pod is a node of it. (list . "name" pool) */}}
{{- define "ray.worker" -}}
{{- $root := index . 0 -}}
{{- $pool := index . 2 -}}
{{- if or $pool.scaling.enabled (ne (int $pool.replicas) 1) }}{{ fail (printf "ray.pool: pools.%s must have one replica and no scaling: one worker gives out a cluster" (index . 1)) }}{{ end -}}
- {name: WORKER_RAY_ADDRESS, value: {{ include "ray.address" $root | quote }}}
- {name: WORKER_RAY_NODE, value: "true"}
- name: WORKER_RAY_HOST
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{ include "ray.token" $root }}
{{- end }}

{{/* (list . "component" part port): a pod of the cluster. */}}
{{- define "ray.pod" -}}
{{- $root := index . 0 -}}
{{- $part := index . 2 -}}
{{- $ray := $root.Values.ray -}}
metadata:
  labels:
    {{- include "hub.labels" (list $root (index . 1)) | nindent 4 }}
    environments-hub/ray: {{ include "ray.name" $root }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext: {{- include "hub.restrictedPod" 10002 | nindent 4 }}
  {{- include "hub.pullSecrets" $root | nindent 2 }}
  {{- with $ray.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $part.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $part.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: ray
      image: {{ include "hub.image" (list $root $ray.image) }}
      imagePullPolicy: {{ $ray.image.pullPolicy }}
      env:
        {{- include "ray.token" $root | nindent 8 }}
        - {name: HOME, value: /tmp}
        - {name: WORKER_DATA, value: /tmp/worker}
        - {name: WORKER_RAY_ROLLOUTS, value: "false"}
        {{- include "certificates.env" $root | nindent 8 }}
        {{- include "proxy.env" $root | nindent 8 }}
      {{- $alive := printf "{port: %d}" (int (index . 3)) }}
      startupProbe: {tcpSocket: {{ $alive }}, periodSeconds: 5, failureThreshold: 60}
      livenessProbe: {tcpSocket: {{ $alive }}, periodSeconds: 20, failureThreshold: 3}
      readinessProbe: {tcpSocket: {{ $alive }}, periodSeconds: 10}
      securityContext: {{- include "hub.restrictedContainer" $root | nindent 8 }}
      {{- $resources := deepCopy $part.resources }}
      {{- if gt (int (default 0 $part.gpus)) 0 }}
      {{- $_ := set $resources "limits" (set (default dict $resources.limits) $ray.gpuResource (int $part.gpus)) }}
      {{- end }}
      resources: {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
        {{- include "certificates.mount" $root | nindent 8 }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: {{ $ray.disk }}}}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $ray.shm }}}}
    {{- include "certificates.volume" $root | nindent 4 }}
{{- end }}
