{{/* A file of deploy/, with the annotations' domain of the configurations; call with dict root, file. */}}
{{- define "cpupoold.text" -}}
{{- $default := "workload.openshift.io" -}}
{{- $domains := list -}}
{{- $pools := list -}}
{{- $configs := list -}}
{{- range include "cpupoold.profiles" .root | fromJsonArray }}{{ $configs = append $configs .config }}{{ end -}}
{{- if .root.Values.webhook.enabled }}{{ $configs = append $configs (include "cpupoold.webhook" .root | fromJson).config }}{{ end -}}
{{- range $configs -}}
{{- $domains = append $domains (.annotationDomain | default $default) -}}
{{- $pools = append $pools (.poolDomain | default "openshift.io") -}}
{{- end -}}
{{- if gt (len (uniq $pools)) 1 -}}
{{- fail (printf "poolDomain is %s: webhook.config and all configurations of the daemon need the same" (uniq $pools | join " and ")) -}}
{{- end -}}
{{- if gt (len (uniq $domains)) 1 -}}
{{- fail (printf "annotationDomain is %s: webhook.config and all configurations of the daemon need the same" (uniq $domains | join " and ")) -}}
{{- end -}}
{{- $domain := first $domains -}}
{{- $reverse := splitList "." $domain | reverse | join "." -}}
{{- .root.Files.Get (printf "files/%s" .file) | replace $default $domain | replace "io.openshift.workload" $reverse -}}
{{- end -}}

{{/* The objects of a text, as a JSON array: the chart adds to what people read in deploy/, and repeats nothing of it. */}}
{{- define "cpupoold.objects" -}}
{{- $objects := list -}}
{{- range regexSplit "(?m)^---$" . -1 -}}
{{- $object := fromYaml . -}}
{{- if hasKey $object "Error" }}{{ fail (printf "a file of deploy/ is not YAML: %s" $object.Error) }}{{ end -}}
{{- $objects = append $objects $object -}}
{{- end -}}
{{- $objects | toJson -}}
{{- end -}}

{{/* An object as a document of its own. The namespace of the release is not part of the release: helm install --create-namespace makes it. */}}
{{- define "cpupoold.document" -}}
{{- if or (ne .object.kind "Namespace") (and .root.Values.createNamespaces (ne .object.metadata.name .root.Release.Namespace)) }}
---
{{ toYaml .object }}
{{- else }}
{{- include "cpupoold.orphan" . }}
{{- end }}
{{- end -}}

{{/* Fails if an upgrade would delete a Namespace, with all its objects, because the chart does not make it any more. */}}
{{- define "cpupoold.orphan" -}}
{{- $name := .object.metadata.name -}}
{{- $live := lookup "v1" "Namespace" "" $name | default dict -}}
{{- $annotations := ($live.metadata | default dict).annotations | default dict -}}
{{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
{{- if and (eq $owner (printf "%s/%s" .root.Release.Namespace .root.Release.Name)) (ne (get $annotations "helm.sh/resource-policy") "keep") -}}
{{- fail (printf "the namespace %s is part of this release, and helm would delete it and all its objects; to keep it, run: kubectl annotate namespace %s helm.sh/resource-policy=keep" $name $name) -}}
{{- end -}}
{{- end -}}

{{/* The profiles, as a JSON array of name, nodeSelector, text and config; without any, one with an empty name, for all nodes. text is the
     configuration as a file, config the same as an object. */}}
{{- define "cpupoold.profiles" -}}
{{- $root := . -}}
{{- $values := .Values -}}
{{- $all := $values.profiles | default list -}}
{{- if not $all -}}
{{- $all = list (dict "name" "" "config" $values.config) -}}
{{- else -}}
{{- if $values.config }}{{ fail "config is for all nodes and profiles have their own: move it into the profiles that it is for" }}{{ end -}}
{{- range $i, $a := $values.profiles -}}
{{- range $b := slice $values.profiles (add1 $i) -}}
{{- if eq $a.name $b.name }}{{ fail (printf "profiles: %s occurs twice: give each a name of its own" $a.name) }}{{ end -}}
{{- $apart := false -}}
{{- range $label, $value := $a.nodeSelector -}}
{{- if ne $value (get $b.nodeSelector $label | default $value) }}{{ $apart = true }}{{ end -}}
{{- end -}}
{{- if not $apart -}}
{{- fail (printf "profiles: a node can be of both %s and %s: give a label another value in each nodeSelector" $a.name $b.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $profiles := list -}}
{{- range $all -}}
{{- $call := dict "root" $root "file" "config.yaml" "name" "cpupoold" "namespace" "cpupoold" "kind" "CPUPoolConfiguration" "config" .config -}}
{{- $profile := include "cpupoold.configuration" $call | fromJson -}}
{{- $_ := set $profile "settings" (include "cpupoold.settings" (dict "profile" . "values" $values) | fromJson) -}}
{{- $profiles = append $profiles (merge (dict) $profile .) -}}
{{- end -}}
{{- $profiles | toJson -}}
{{- end -}}

{{/* The webhook's configuration, as JSON of text, config and changed: see cpupoold.configuration. */}}
{{- define "cpupoold.webhook" -}}
{{- $name := "cpupool-webhook" -}}
{{- include "cpupoold.configuration" (dict "root" . "file" "webhook/webhook.yaml" "name" $name "namespace" $name "kind" "CPUPoolWebhookConfiguration" "config" .Values.webhook.config) -}}
{{- end -}}

{{/* A configuration as JSON: text, the file; config, the same as an object; changed, whether it differs from the default of the chart. It is
     that of the values. Without one it is the installed one, so that an upgrade keeps it, and without an installed one the default. Call with
     dict root, file, name, namespace, kind, config. helm template finds no installed one. */}}
{{- define "cpupoold.configuration" -}}
{{- $name := .name -}}
{{- $default := "" -}}
{{- range include "cpupoold.objects" (.root.Files.Get (printf "files/%s" .file)) | fromJsonArray -}}
{{- if and (eq .kind "ConfigMap") (eq .metadata.name $name) }}{{ $default = get .data "config.yaml" }}{{ end -}}
{{- end -}}
{{- $text := "" -}}
{{- if .config -}}
{{- $text = merge (dict "apiVersion" "config.cpupoold.io/v1alpha1" "kind" .kind) .config | toYaml -}}
{{- else -}}
{{- $installed := lookup "v1" "ConfigMap" .namespace .name | default dict -}}
{{- $text = get ($installed.data | default dict) "config.yaml" | default $default -}}
{{- end -}}
{{- $config := fromYaml $text -}}
{{- if hasKey $config "Error" -}}
{{- fail (printf "config.yaml of ConfigMap %s/%s is not YAML, correct it or set the configuration in the values: %s" .namespace .name $config.Error) -}}
{{- end -}}
{{- dict "text" $text "config" $config "changed" (ne $text $default) | toJson -}}
{{- end -}}

{{/* The image as a reference: the tag is the chart's appVersion if the values have none. The tag of a release includes a digest. */}}
{{- define "cpupoold.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- with .Values.image.digest }}{{ $tag = printf "%s@%s" (splitList "@" $tag | first) . }}{{ end -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}

{{/* The pull secrets of both keys, as a JSON array of objects with a name. */}}
{{- define "cpupoold.pullSecrets" -}}
{{- $secrets := .Values.imagePullSecrets | default list -}}
{{- range .Values.image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- uniq $secrets | toJson -}}
{{- end -}}

{{/* The settings of a profile: each is that of the profile, or else that of all. */}}
{{- define "cpupoold.settings" -}}
{{- $settings := dict -}}
{{- $profile := .profile -}}
{{- $values := .values -}}
{{- range $key := list "tolerations" "affinity" "priorityClassName" "podAnnotations" "podLabels" "extraArgs" "extraEnv" "resources" "updateStrategy" -}}
{{- if hasKey $profile $key }}{{ $_ := set $settings $key (get $profile $key) }}
{{- else if hasKey $values $key }}{{ $_ := set $settings $key (get $values $key) }}{{ end -}}
{{- end -}}
{{- $_ := set $settings "nodeSelector" (merge (dict) ($profile.nodeSelector | default dict) ($values.nodeSelector | default dict)) -}}
{{- $settings | toJson -}}
{{- end -}}

{{/* A pod template with image and settings of the values, as JSON; call with dict template, root, settings, args. With args its containers get
     extraArgs. A setting that is null keeps what the manifest has, as after helm upgrade --reuse-values from an older chart. */}}
{{- define "cpupoold.template" -}}
{{- $root := .root -}}
{{- $settings := .settings -}}
{{- $args := ternary ($settings.extraArgs | default list) list .args -}}
{{- $template := deepCopy .template -}}
{{- $spec := $template.spec -}}
{{- range concat $spec.containers ($spec.initContainers | default list) -}}
{{- $_ := set . "image" (include "cpupoold.image" $root) -}}
{{- $_ := set . "imagePullPolicy" $root.Values.image.pullPolicy -}}
{{- if $args }}{{ $_ := set . "args" (concat .args $args) }}{{ end -}}
{{- if $settings.extraEnv }}{{ $_ := set . "env" (concat (.env | default list) $settings.extraEnv) }}{{ end -}}
{{- if $settings.resources }}{{ $_ := set . "resources" $settings.resources }}{{ end -}}
{{- end -}}
{{- with include "cpupoold.pullSecrets" $root | fromJsonArray }}{{ $_ := set $spec "imagePullSecrets" . }}{{ end -}}
{{- with merge (dict) ($settings.nodeSelector | default dict) ($spec.nodeSelector | default dict) }}{{ $_ := set $spec "nodeSelector" . }}{{ end -}}
{{- range $key := list "tolerations" "affinity" "priorityClassName" "topologySpreadConstraints" -}}
{{- $value := get $settings $key -}}
{{- if and (hasKey $settings $key) (not (kindIs "invalid" $value)) -}}
{{- if $value }}{{ $_ := set $spec $key $value }}{{ else }}{{ $_ := unset $spec $key }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $field := list "annotations" "labels" -}}
{{- $own := get $template.metadata $field | default dict -}}
{{- $name := printf "pod%s" (title $field) -}}
{{- $more := get $settings $name | default dict -}}
{{- range $key := keys $more | sortAlpha -}}
{{- if hasKey $own $key }}{{ fail (printf "%s: the chart itself sets %s; remove this key" $name $key) }}{{ end -}}
{{- end -}}
{{- if $more }}{{ $_ := set $template.metadata $field (merge (dict) $more $own) }}{{ end -}}
{{- end -}}
{{- $template | toJson -}}
{{- end -}}

{{/* An update strategy of the values, as JSON: rollingUpdate is for the type RollingUpdate, the default, only. */}}
{{- define "cpupoold.strategy" -}}
{{- if eq (.type | default "RollingUpdate") "RollingUpdate" }}{{ toJson . }}{{ else }}{{ omit . "rollingUpdate" | toJson }}{{ end -}}
{{- end -}}

{{/* The spec of a network policy with namespaces and ports of the values, as JSON: a rule with from is for metrics; call with dict spec, values. */}}
{{- define "cpupoold.traffic" -}}
{{- $from := list -}}
{{- range .values.metricsNamespaces -}}
{{- $from = append $from (dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" .))) -}}
{{- end -}}
{{- $ingress := list -}}
{{- range .spec.ingress -}}
{{- if not .from }}{{ $ingress = append $ingress . }}
{{- else if $from }}{{ $_ := set . "from" $from }}{{ $ingress = append $ingress . }}{{ end -}}
{{- end -}}
{{- $ports := list -}}
{{- range .values.apiServerPorts }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end -}}
{{- $_ := set .spec "ingress" $ingress -}}
{{- $_ := set .spec "egress" (list (dict "ports" $ports)) -}}
{{- .spec | toJson -}}
{{- end -}}
