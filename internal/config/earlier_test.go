package config_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
)

// TestEarlierConfigurations checks that earlier configurations are read as long as
// apiVersion is the same. testdata/earlier has configurations with every key that
// builds had at a commit.
func TestEarlierConfigurations(t *testing.T) {
	files, err := filepath.Glob("testdata/earlier/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no earlier configurations: %v", err)
	}
	for _, file := range files {
		if _, err := config.Load(file, config.Overrides{}, nil); err != nil {
			t.Errorf("an upgrade from %s: %v", file, err)
		}
	}
}

// TestNewerKeyIsRefused checks that a downgraded daemon refuses an unknown key. Otherwise
// it would disable a feature without a message.
func TestNewerKeyIsRefused(t *testing.T) {
	_, err := config.Parse([]byte("apiVersion: "+config.APIVersion+"\nkind: "+config.Kind+"\nnovelty: true\n"), "config.yaml", config.Overrides{}, nil)
	p, ok := errors.AsType[*config.Problem](err)
	if !ok || p.Key != "novelty" || p.Line != 3 {
		t.Errorf("Parse = %v; want a problem of novelty in line 3", err)
	}
}
