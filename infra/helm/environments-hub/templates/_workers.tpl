{{/* (list . "name"): a pool's values over those of all pools; a Secret's name and slots it must have. */}}
{{- define "workers.pool" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $pool := mergeOverwrite (deepCopy $root.Values.worker) (deepCopy (get $root.Values.pools $name)) -}}
{{- $_ := required (printf "pools.%s.token.secret: the name of a Secret with this pool's worker token" $name) $pool.token.secret -}}
{{- $_ := required (printf "pools.%s.slots: runs at once by queue, for example {eval: 1}" $name) $pool.slots -}}
{{- $default := ternary (printf "http://%s-web.%s:8000" (include "hub.name" $root) $root.Release.Namespace) "" $root.Values.hub.enabled -}}
{{- $_ := set $pool "hubUrl" (required "worker.hubUrl: the hub's address, in a release without it" (default $default $pool.hubUrl)) -}}
{{- $_ := set $pool "serves" (gt (add (int $pool.serveRuns) (int $pool.sandboxRuns)) 0) -}}
{{- toJson $pool -}}
{{- end }}

{{/* The names of the pools that are enabled, as JSON. */}}
{{- define "workers.enabled" -}}
{{- $names := list -}}
{{- range $name, $pool := .Values.pools -}}
{{- if and $pool $pool.enabled }}{{ $names = append $names $name }}{{ end -}}
{{- end -}}
{{- dict "names" $names | toJson -}}
{{- end }}

{{/* (pool): why each line is needed, infra/kubernetes.md. */}}
{{- define "workers.containerSecurity" -}}
{{- if eq .security.mode "userns" -}}
runAsNonRoot: true
runAsUser: 10002
runAsGroup: 10002
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
procMount: Unmasked
{{- else -}}
runAsUser: 0
runAsGroup: 0
privileged: true
readOnlyRootFilesystem: true
{{- end }}
seccompProfile: {{- toYaml .security.seccompProfile | nindent 2 }}
{{- with .security.appArmorProfile }}
appArmorProfile: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* (list . "name" pool): its environment. */}}
{{- define "workers.env" -}}
{{- $pool := index . 2 -}}
- {name: WORKER_HUB_URL, value: {{ $pool.hubUrl | quote }}}
- name: WORKER_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $pool.token.secret }}, key: {{ $pool.token.key }}}}
- {name: WORKER_DATA, value: /data/worker}
- {name: WORKER_SLOTS, value: {{ $pool.slots | toJson | quote }}}
- {name: WORKER_SERVE_RUNS, value: {{ $pool.serveRuns | quote }}}
- {name: WORKER_SANDBOX_RUNS, value: {{ $pool.sandboxRuns | quote }}}
- {name: WORKER_SERVE_HOST, value: {{ ternary "0.0.0.0" "127.0.0.1" $pool.serves }}}
- name: WORKER_SERVE_ADDRESS
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- {name: WORKER_STOP_GRACE_S, value: {{ $pool.stopGraceSeconds | quote }}}
- {name: WORKER_GPUS, value: {{ ternary "all" "none" (gt (int $pool.gpus) 0) }}}
{{- if and (index . 0).Values.ray.enabled (eq (index . 1) (index . 0).Values.ray.pool) }}
{{ include "ray.worker" . }}
{{- end }}
- {name: HOME, value: /tmp}
- {name: USER, value: worker}
{{- range $key, $value := $pool.settings }}
{{- if eq $key "WORKER_TOKEN" }}{{ fail "WORKER_TOKEN: a secret belongs into the Secret that the pool's token.secret names" }}{{ end }}
- {name: {{ $key }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- include "certificates.env" (index . 0) }}
{{- include "proxy.env" (index . 0) }}
{{- include "traces.env" (index . 0) }}
{{- end }}

{{/* (list . "name" pool): where it writes. */}}
{{- define "workers.mounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- if (index . 2).shm }}
- {name: shm, mountPath: /dev/shm}
{{- end }}
{{- include "certificates.mount" (index . 0) }}
{{- end }}
