{{- define "rankcast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rankcast.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rankcast.labels" -}}
{{ include "rankcast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "rankcast.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- /* Where NATS is, for the service and the gateways. */ -}}
{{- define "rankcast.natsEnv" -}}
{{- if .Values.nats.enabled }}
- name: RANKCAST_NATS
  value: nats://{{ include "rankcast.fullname" . }}-nats:4222
{{- else if .Values.nats.urlSecret.name }}
{{ include "rankcast.secretEnv" (list "RANKCAST_NATS" .Values.nats.urlSecret) | trim }}
{{- else if .Values.nats.url }}
- name: RANKCAST_NATS
  value: {{ .Values.nats.url | quote }}
{{- else if .Values.gateways.enabled }}
{{- fail "gateways need NATS: nats.enabled, nats.url or nats.urlSecret" }}
{{- end }}
{{- end -}}

{{- /* A variable whose value is in a secret, where one is named. */ -}}
{{- define "rankcast.secretEnv" -}}
{{- $secret := index . 1 -}}
{{- if $secret.name }}
- name: {{ index . 0 }}
  valueFrom: {secretKeyRef: {name: {{ $secret.name }}, key: {{ $secret.key }}}}
{{- end }}
{{- end -}}

{{- define "rankcast.settingsEnv" -}}
{{- range $name, $value := . }}
- name: RANKCAST_{{ upper $name }}
  value: {{ if kindIs "float64" $value }}{{ $value | toJson | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end -}}

{{- define "rankcast.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
