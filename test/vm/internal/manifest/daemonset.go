package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// DaemonSet is a manifest of a DaemonSet as one node needs it that has no API server.
type DaemonSet struct {
	// Pod is the template as a static pod. Its volumes of ConfigMaps, which such a pod cannot have, are directories of the host: the one
	// that the volume is mounted at. It has no service account either.
	Pod []byte
	// Configuration is config.yaml of the ConfigMap.
	Configuration string
}

// document has the parts of the manifest's objects that are looked at; a template's pod is passed on as it is.
type document struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Metadata map[string]any
			Spec     map[string]any
		}
	}
}

// ReadDaemonSet reads documents with one DaemonSet and one ConfigMap.
func ReadDaemonSet(text []byte) (DaemonSet, error) {
	var set DaemonSet
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var d document
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return DaemonSet{}, fmt.Errorf("decode manifest: %w", err)
		}
		switch d.Kind {
		case "ConfigMap":
			set.Configuration = d.Data["config.yaml"]
		case "DaemonSet":
			if set.Pod, err = d.staticPod(); err != nil {
				return DaemonSet{}, err
			}
		}
	}
	if set.Pod == nil || set.Configuration == "" {
		return DaemonSet{}, errors.New("decode manifest: no DaemonSet, or no ConfigMap with config.yaml")
	}
	return set, nil
}

func (d document) staticPod() ([]byte, error) {
	spec, metadata := d.Spec.Template.Spec, d.Spec.Template.Metadata
	if spec == nil || metadata == nil {
		return nil, fmt.Errorf("decode DaemonSet %s: no template", d.Metadata.Name)
	}
	// Nor may it name a service account: the kubelet refuses static pods that refer to objects of the API.
	delete(spec, "serviceAccountName")
	delete(spec, "automountServiceAccountToken")
	metadata["name"], metadata["namespace"] = d.Metadata.Name, d.Metadata.Namespace
	places := make(map[any]any)
	for _, container := range objects(spec["containers"]) {
		for _, mount := range objects(container["volumeMounts"]) {
			places[mount["name"]] = mount["mountPath"]
		}
	}
	for _, volume := range objects(spec["volumes"]) {
		if volume["configMap"] != nil {
			delete(volume, "configMap")
			volume["hostPath"] = map[string]any{"path": places[volume["name"]], "type": "Directory"}
		}
	}
	out, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("encode pod of DaemonSet %s: %w", d.Metadata.Name, err)
	}
	return out, nil
}

// objects are the elements of a list that are objects.
func objects(list any) []map[string]any {
	var out []map[string]any
	elements, _ := list.([]any)
	for _, e := range elements {
		if o, ok := e.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}
