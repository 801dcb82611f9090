{{- define "svc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "svc.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "svc.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "svc.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "svc.selector" -}}
app.kubernetes.io/name: {{ include "svc.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "svc.labels" -}}
{{ include "svc.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "svc.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end }}

{{/* The setting that each secret is for, and its file. */}}
{{- define "svc.secretSettings" -}}
ledgerKey: {SVC_LEDGER_KEY: ledger.key}
storePassword: {SVC_STORE_PASSWORD_FILE: password}
storeCa: {}
issuerCa: {SVC_OIDC_CA: ca.crt}
tls: {SVC_TLS_CERT: tls.crt, SVC_TLS_KEY: tls.key}
opsTls: {SVC_OPS_TLS_CERT: tls.crt, SVC_OPS_TLS_KEY: tls.key}
clientCa: {SVC_TLS_CLIENT_CA: ca.crt}
consoleSignIn: {SVC_CONSOLE_SIGN_IN: sign-in.yaml}
opsCredentials: {SVC_OPS_CREDENTIALS: operators.json}
sessionClients: {SVC_SESSION_CLIENTS: clients.json}
sessionKey: {SVC_SESSION_KEY: session.pem}
dpopNonceKey: {SVC_DPOP_NONCE_KEY: nonce.key}
{{- end }}

{{/* Numbers of a values file are floats, which are written with an exponent from 1000000 on. */}}
{{- define "svc.settingText" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{- define "svc.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
# Secrets are mounted as root's; the group lets the service read them.
fsGroup: 65534
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "svc.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Volumes of the secrets that are given: all of them, or those that are named. */}}
{{- define "svc.secretVolumes" -}}
{{- $root := .root -}}
{{- range $name, $files := include "svc.secretSettings" $root | fromYaml }}
{{- $given := index $root.Values.secrets $name }}
{{- if and $given.secret (or (not $.only) (has $name $.only)) }}
- name: {{ kebabcase $name }}
  secret:
    secretName: {{ $given.secret }}
    # 0400: as YAML 1.1 and 1.2 read it alike.
    defaultMode: 256
    {{- if $given.key }}
    items:
      - key: {{ $given.key }}
        path: {{ if $files }}{{ values $files | first }}{{ else }}ca.crt{{ end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "svc.secretMounts" -}}
{{- $root := .root -}}
{{- range $name, $files := include "svc.secretSettings" $root | fromYaml }}
{{- if and (index $root.Values.secrets $name).secret (or (not $.only) (has $name $.only)) }}
- name: {{ kebabcase $name }}
  mountPath: /run/svc/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
