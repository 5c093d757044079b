package config_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
)

func TestPlacesPods(t *testing.T) {
	const begin = "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n"
	const pool = "partitions:\n- {type: management, cpus: 0-1}\n"
	for text, want := range map[string]bool{
		"":                            false,
		"staticPods: allow\n":         false, // there is no pool
		pool:                          true,  // static pods
		pool + "staticPods: ignore\n": false,
		pool + "staticPods: [a]\n":    true,
		pool + "staticPods: ignore\nnamespacePermission: annotation\n":                             true,
		"partitions:\n- {type: management, cpus: 0-1, namespaces: [a]}\n" + "staticPods: ignore\n": true,
	} {
		c, err := config.Parse([]byte(begin+text), "config.yaml", config.Overrides{}, machine())
		if err != nil {
			t.Fatal(err)
		}
		if got := c.PlacesPods(); got != want {
			t.Errorf("PlacesPods of %q = %t; want %t", text, got, want)
		}
	}
}
