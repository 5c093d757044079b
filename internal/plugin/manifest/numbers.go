package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkNumbers returns an error for the first number of pods of a workload that the API server
// refuses. path leads to the template of the pods.
func checkNumbers(object *yaml.Node, path []string) error {
	if len(path) == 0 {
		return nil
	}
	path = path[:len(path)-1]
	spec := at(object, path)
	for _, key := range []string{"replicas", "parallelism", "completions"} {
		value := child(spec, key)
		if value == nil {
			continue
		}
		if number, err := strconv.ParseInt(value.Value, 10, 32); err != nil || number < 0 || value.Tag != "!!int" {
			field := strings.Join(append(slices.Clip(path), key), ".")
			return fmt.Errorf("%s: %.40q is no number of pods; write 0 or more", field, value.Value)
		}
	}
	return nil
}
