{{/* Names, labels and images. */}}
{{- define "hub.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* (list . "component") */}}
{{- define "hub.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: environments-hub
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "hub.labels" -}}
{{- $root := index . 0 -}}
{{ include "hub.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* (list . image) */}}
{{- define "hub.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ printf "%s%s@%s" $image.repository (ternary (printf ":%s" $image.tag) "" (ne "" (toString (default "" $image.tag)))) $image.digest }}
{{- else -}}
{{ printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) }}
{{- end -}}
{{- end }}

{{- define "hub.host" -}}
{{- (urlParse (required "hub.url: the address that users type, for example https://hub.example.org" .Values.hub.url)).hostname -}}
{{- end }}

{{- define "hub.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The restricted profile of Kubernetes' pod security standards: of a pod (list "pod" uid), of a container ("container"). */}}
{{- define "hub.restrictedPod" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "hub.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* (YAML of variables): each name once, as Kubernetes wants it. The last one counts: that of the values' settings. */}}
{{- define "hub.once" -}}
{{- $kept := list -}}
{{- $seen := dict -}}
{{- range reverse (fromYamlArray .) -}}
{{- if not (hasKey $seen .name) }}{{ $kept = prepend $kept . }}{{ end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end }}
