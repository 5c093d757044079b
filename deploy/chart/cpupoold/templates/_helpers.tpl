{{/* A file of deploy/, with the annotations' domain of the configurations; call with dict root, file. */}}
{{- define "cpupoold.text" -}}
{{- $default := "workload.openshift.io" -}}
{{- $domains := list -}}
{{- range include "cpupoold.profiles" .root | fromJsonArray }}{{ $domains = append $domains (.config.annotationDomain | default $default) }}{{ end -}}
{{- if .root.Values.webhook.enabled }}{{ $domains = append $domains (.root.Values.webhook.config.annotationDomain | default $default) }}{{ end -}}
{{- $pools := list -}}
{{- range include "cpupoold.profiles" .root | fromJsonArray }}{{ $pools = append $pools (.config.poolDomain | default "openshift.io") }}{{ end -}}
{{- if .root.Values.webhook.enabled }}{{ $pools = append $pools (.root.Values.webhook.config.poolDomain | default "openshift.io") }}{{ end -}}
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

{{/* An object as a document of its own. A Namespace is left out where the chart is not to make it. */}}
{{- define "cpupoold.document" -}}
{{- if or (ne .object.kind "Namespace") .root.Values.createNamespaces }}
---
{{ toYaml .object }}
{{- end }}
{{- end -}}

{{/* The profiles, as a JSON array of name, nodeSelector and config; without any, one with an empty name, for all nodes. */}}
{{- define "cpupoold.profiles" -}}
{{- $values := .Values -}}
{{- if not $values.profiles -}}
{{- list (dict "name" "" "config" $values.config) | toJson -}}
{{- else -}}
{{- if $values.config }}{{ fail "config is for all nodes and profiles have their own: move it into the profiles that it is for" }}{{ end -}}
{{- range $i, $a := $values.profiles -}}
{{- range $b := slice $values.profiles (add1 $i) -}}
{{- if eq $a.name $b.name }}{{ fail (printf "profiles: %s is there twice: give each a name of its own" $a.name) }}{{ end -}}
{{- $apart := false -}}
{{- range $label, $value := $a.nodeSelector -}}
{{- if ne $value (get $b.nodeSelector $label | default $value) }}{{ $apart = true }}{{ end -}}
{{- end -}}
{{- if not $apart -}}
{{- fail (printf "profiles: a node can be of both %s and %s: give a label another value in each nodeSelector" $a.name $b.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $values.profiles | toJson -}}
{{- end -}}
{{- end -}}

{{/* A configuration as a file; call with dict config, kind, default. */}}
{{- define "cpupoold.config" -}}
{{- if .config -}}
{{- merge (dict "apiVersion" "config.cpupoold.io/v1alpha1" "kind" .kind) .config | toYaml -}}
{{- else -}}
{{- .default -}}
{{- end -}}
{{- end -}}

{{/* A pod's specification, with the image of the values, as JSON; call with dict spec, root. */}}
{{- define "cpupoold.pod" -}}
{{- $image := .root.Values.image -}}
{{- $spec := deepCopy .spec -}}
{{- range concat $spec.containers ($spec.initContainers | default list) -}}
{{- $_ := set . "image" (printf "%s:%s" $image.repository $image.tag) -}}
{{- $_ := set . "imagePullPolicy" $image.pullPolicy -}}
{{- end -}}
{{- if $image.pullSecrets -}}
{{- $secrets := list -}}
{{- range $image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- $_ := set $spec "imagePullSecrets" $secrets -}}
{{- end -}}
{{- $spec | toJson -}}
{{- end -}}
