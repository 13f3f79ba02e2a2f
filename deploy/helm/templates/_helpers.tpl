{{- define "muster.name" -}}
{{- if eq .Release.Name .Chart.Name }}{{ .Chart.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* Where the models come from: claim, image or source. Exactly one is set. */ -}}
{{- define "muster.models" -}}
{{- $given := list -}}
{{- range $key := list "claim" "image" "source" }}{{ if index $.Values.models $key }}{{ $given = append $given $key }}{{ end }}{{ end -}}
{{- if ne (len $given) 1 }}{{ fail (printf "models: set one of claim, image and source, and the others to \"\"; given: %s" (join ", " $given)) }}{{ end -}}
{{- first $given -}}
{{- end -}}
