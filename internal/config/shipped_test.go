package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
)

// shipped returns the configuration of the systemd unit, as a package installs it.
func shipped(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load("../../systemd/config.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestShippedOnce checks that the ConfigMap of the DaemonSet has the configuration of the unit.
func TestShippedOnce(t *testing.T) {
	data, err := os.ReadFile("../../deploy/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Data map[string]string }
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(object.Data["config.yaml"]), "deploy/config.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(outcome(shipped(t), nil), outcome(c, nil)); d != "" {
		t.Errorf("configuration (-systemd +deploy):\n%s", d)
	}
}

// TestShippedPools checks the pools of the shipped configuration on machines of each size.
func TestShippedPools(t *testing.T) {
	for _, tt := range []struct{ machine, management, shared, floor string }{
		{"cores=2", "0", "1", "1"},
		{"threads=2", "0", "1", "1"},
		{"cores=3", "0", "1-2", "1"},
		{"cores=4", "0-1", "2-3", "1"},
		{"cores=2 threads=2", "0,2", "1,3", "1"},
		{"cores=2 threads=2 adjacent", "0-1", "2-3", "1"},
		{"cores=8", "0-1", "2-7", "1"},
		{"cores=4 threads=2", "0,4", "1-3,5-7", "1"},
		{"cores=2 threads=4 adjacent", "0-1", "2-7", "1"}, // a whole core is half of the machine
		{"cores=16", "0-1", "2-15", "2"},
		{"cores=8 threads=2", "0,8", "1-7,9-15", "2"},
		{"cores=4 threads=4 adjacent", "0-3", "4-15", "2"},
		{"cores=4 threads=8 adjacent", "0-7", "8-31", "3"},
		{"packages=2 cores=32", "0-3", "4-63", "6"},
		{"packages=2 cores=16 threads=2", "0-1,32-33", "2-31,34-63", "6"},
		{"packages=2 cores=32 threads=2 adjacent", "0-3", "4-127", "13"},
		{"packages=2 cores=64", "0-3", "4-127", "13"},
		{"packages=4 cores=256", "0-7", "8-1023", "102"},
		{"packages=4 cores=128 threads=2", "0-3,512-515", "4-511,516-1023", "102"},
		// Offline and isolated CPUs.
		{"cores=4 offline=2-3", "0", "1", "1"},
		{"cores=8 threads=2 offline=8-15", "0-1", "2-7", "1"},
		{"cores=8 offline=0", "1-2", "3-7", "1"},
		{"cores=8 isolated=0-3", "4-5", "0-3,6-7", "1"},
		{"cores=8 isolated=0-7", "0-1", "2-7", "1"},
	} {
		t.Run(tt.machine, func(t *testing.T) {
			m, err := hardware.Parse(tt.machine)
			if err != nil {
				t.Fatal(err)
			}
			p, err := shipped(t).Resolve(m.Topology())
			if err != nil {
				t.Fatal(err)
			}
			got := []string{p.Partitions[0].CPUs.String(), p.Shared.String(), fmt.Sprint(p.Floor)}
			if d := cmp.Diff([]string{tt.management, tt.shared, tt.floor}, got); d != "" {
				t.Errorf("management, shared, floor (-want +got):\n%s", d)
			}
			if !p.FromShared || !p.Guaranteed.Equal(p.Shared) {
				t.Errorf("CPUs that can become exclusive are %s, of the shared pool %t; want the CPUs of the shared pool", p.Guaranteed, p.FromShared)
			}
		})
	}
}

// TestShippedTable checks the table of docs/how-to/choose-pools.md.
func TestShippedTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/choose-pools.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$`).FindAllSubmatch(page, -1)
	if len(rows) < 8 {
		t.Fatalf("the table has %d rows; want eight", len(rows))
	}
	for _, row := range rows {
		m, err := hardware.Parse("cores=" + string(row[1]))
		if err != nil {
			t.Fatal(err)
		}
		p, err := shipped(t).Resolve(m.Topology())
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range []int{p.Partitions[0].CPUs.Len(), p.Floor, p.Guaranteed.Len() - p.Floor} {
			if want, err := strconv.Atoi(string(row[2+i])); err != nil || got != want {
				t.Errorf("with %s CPUs, column %d is %s; want %d", row[1], 2+i, row[2+i], got)
			}
		}
	}
}
