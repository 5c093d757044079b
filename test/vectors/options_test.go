package vectors_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// optionsCase is options_parse, options_validate and option_available.
type optionsCase struct {
	Options        map[string]string
	Option         string
	Topology       string
	TopologyPolicy string `json:"topology_manager_policy"`
	Gate           string `json:"feature_gate"`
	Expect         json.RawMessage
}

// checkOptions is for options_parse and options_validate.
func (m machines) checkOptions(raw json.RawMessage) error {
	c, err := decode[optionsCase](raw)
	if err != nil {
		return err
	}
	want, err := decode[struct {
		Error  bool
		Parsed map[string]bool
	}](c.Expect)
	if err != nil {
		return err
	}
	t, err := plain().Topology()
	if c.Topology != "" {
		t, err = m.topology(c.Topology)
	}
	if err != nil {
		return err
	}
	parsed, err := c.configure(t)
	switch {
	case want.Error && err == nil:
		return fmt.Errorf("accepts %v, which the kubelet refuses", c.Options)
	case !want.Error && err != nil:
		return fmt.Errorf("refuses %v, which the kubelet accepts: %w", c.Options, err)
	}
	for name, value := range want.Parsed {
		if name == "full-pcpus-only" && parsed.Pools.Guaranteed.Options.FullPCPUsOnly != value {
			return fmt.Errorf("%s = %t; want %t", name, !value, value)
		}
	}
	return nil
}

// checkOption is for option_available.
func (m machines) checkOption(raw json.RawMessage) error {
	c, err := decode[optionsCase](raw)
	if err != nil {
		return err
	}
	want, err := decode[bool](c.Expect)
	if err != nil {
		return err
	}
	t, err := plain().Topology()
	if err != nil {
		return err
	}
	c.Options = map[string]string{c.Option: "true"}
	_, err = c.configure(t)
	if err == nil && !want && c.Gate != "" {
		return fmt.Errorf("%s needs no feature gate: %w", c.Option, errDeviation)
	}
	return compare(c.Option+" is known", err == nil, want)
}

// plain is a machine on which every option makes sense.
func plain() choice.Table { return choice.Table{{0, 0, 0, 0, 0}, {1, 1, 0, 0, 0}} }

// configure puts the options into a configuration, and that on a machine.
func (c optionsCase) configure(t *topology.Topology) (*config.Config, error) {
	lines := []string{"apiVersion: config.cpupoold.io/v1alpha1", "kind: CPUPoolConfiguration", "guaranteed:", "  from: shared", "  options:"}
	if c.TopologyPolicy != "" {
		lines = append(lines, "    topology-policy: "+c.TopologyPolicy)
	}
	for name, value := range c.Options {
		if value != "true" && value != "false" {
			value = fmt.Sprintf("%q", value)
		}
		lines = append(lines, fmt.Sprintf("    %s: %s", name, value))
	}
	if last := len(lines) - 1; lines[last] == "  options:" {
		lines[last] += " {}"
	}
	return config.Parse([]byte(strings.Join(lines, "\n")+"\n"), "config.yaml", config.Overrides{}, t)
}
