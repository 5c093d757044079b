package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/spelling"
)

// checkKind returns an error for an object that the API server refuses, because its kind is
// misspelt, or because its apiVersion does not have the kind.
func checkKind(apiVersion, kind string) error {
	// Kinds of Kubernetes that commands read. Groups without a dot belong to Kubernetes, so that a
	// resource of another project has no such apiVersion.
	versions := map[string]string{
		"List": "v1", "Pod": "v1", "PodTemplate": "v1", "ReplicationController": "v1",
		"Namespace": "v1", "LimitRange": "v1", "ResourceQuota": "v1", "Node": "v1",
		"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
		"Job": "batch/v1", "CronJob": "batch/v1",
	}
	group, _, _ := strings.Cut(apiVersion, "/")
	if kind == "" || strings.Contains(group, ".") {
		return nil
	}
	switch want := versions[kind]; want {
	case "":
	case apiVersion:
		return nil
	default:
		if apiVersion == "" {
			return fmt.Errorf("apiVersion is missing; write apiVersion: %s", want)
		}
		return fmt.Errorf("apiVersion %q has no kind %s; write apiVersion: %s", apiVersion, kind, want)
	}
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(versions)), func(k string) bool {
		return apiVersion != "" && versions[k] != apiVersion
	})
	for _, k := range slices.Clone(kinds) {
		if k != "List" {
			kinds = append(kinds, k+"List")
		}
	}
	if meant := spelling.Near(kind, kinds); meant != "" {
		return fmt.Errorf("kind %q is unknown; did you mean %s?", kind, meant)
	}
	return nil
}
