package vectors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// pinningErrors maps a case's code to its error.
var pinningErrors = map[string]error{
	"bad_json":                  migrate.ErrSyntax,
	"not_an_object":             migrate.ErrNotObject,
	"cpuset_not_a_string":       migrate.ErrNotString,
	"duplicate_key":             migrate.ErrDuplicate,
	"bad_workload_type":         migrate.ErrType,
	"bad_cpuset":                migrate.ErrCPUs,
	"cpu_not_present":           migrate.ErrNoSuchCPU,
	"overlap":                   migrate.ErrOverlap,
	"mixed_cpus_without_shared": migrate.ErrNoShared,
	"cpu_required":              migrate.ErrRequired,
	"reserved_required":         migrate.ErrRequired,
	"reserved_empty":            migrate.ErrRequired,
	"isolated_required":         migrate.ErrRequired,
	"isolated_empty":            migrate.ErrRequired,
}

// refused is nil if err is the error of a code, and names the key that the code does.
func refused(err error, code string) error {
	want, known := pinningErrors[code]
	switch {
	case !known:
		return fmt.Errorf("code %q is not known", code)
	case err == nil:
		return fmt.Errorf("no error; want %s", code)
	case !errors.Is(err, want):
		return fmt.Errorf("error %w; want %s", err, code)
	}
	key, _, _ := strings.Cut(code, "_")
	if errors.Is(want, migrate.ErrRequired) && !strings.Contains(err.Error(), key) {
		return fmt.Errorf("error %w does not name %s", err, key)
	}
	return nil
}

func checkStrictParse(raw json.RawMessage) error {
	c, err := decode[struct {
		Content string
		Online  string
		Expect  struct {
			Types map[string]string
			Type  string
			Error string
		}
	}](raw)
	if err != nil {
		return err
	}
	present, err := cpuset.Parse(c.Online)
	if err != nil {
		return err
	}
	sets, err := migrate.ParsePinning([]byte(c.Content), present)
	if c.Expect.Error != "" {
		if err != nil && !strings.Contains(err.Error(), c.Expect.Type) {
			return fmt.Errorf("error %w does not name %s", err, c.Expect.Type)
		}
		return refused(err, c.Expect.Error)
	}
	if err != nil {
		return err
	}
	got := map[string]string{}
	for typ, set := range sets {
		got[typ] = set.String()
	}
	return compare("types", got, c.Expect.Types)
}

// imported returns the result of importing one file.
func imported(name string, data []byte) (migrate.Result, error) {
	return migrate.Import([]migrate.File{{Name: name, Data: data}}, migrate.Options{Namespaces: []string{"ns"}})
}

// profile is a PerformanceProfile.
func profile(cpu, hints any) ([]byte, error) {
	return json.Marshal(map[string]any{"kind": "PerformanceProfile", "spec": map[string]any{"cpu": cpu, "workloadHints": hints}})
}

func checkProfileCPUs(raw json.RawMessage) error {
	c, err := decode[struct {
		CPU    json.RawMessage
		Hints  json.RawMessage `json:"workload_hints"`
		Expect struct {
			Valid bool
			Error string
		}
	}](raw)
	if err != nil {
		return err
	}
	data, err := profile(c.CPU, c.Hints)
	if err != nil {
		return err
	}
	if _, err = imported("profile.yaml", data); c.Expect.Valid {
		return err
	}
	return refused(err, c.Expect.Error)
}

// checkPinningEnabled checks that a node takes part if import makes a management pool
// of the file.
func checkPinningEnabled(raw json.RawMessage) error {
	c, err := decode[struct {
		Path string
		File struct {
			Exists  bool
			Content string
		}
		Expect bool
	}](raw)
	if err != nil {
		return err
	}
	if !c.File.Exists {
		return compare("enabled", false, c.Expect)
	}
	result, err := imported(c.Path, []byte(c.File.Content))
	if err != nil {
		return err
	}
	return compare("enabled", len(result.Config.Pools.Partitions) == 1, c.Expect)
}

// checkMixedFile checks that a file that the kubelet rejects has no effect.
func checkMixedFile(raw json.RawMessage) error {
	c, err := decode[struct {
		File struct {
			Exists  bool
			Content string
		}
		Expect struct {
			Enabled bool
			Limit   int `json:"containers_limit"`
		}
	}](raw)
	if err != nil {
		return err
	}
	if !c.File.Exists {
		return compare("enabled", false, c.Expect.Enabled)
	}
	limit, err := migrate.ParseMixed([]byte(c.File.Content))
	if err := compare("enabled", err == nil, c.Expect.Enabled); err != nil {
		return err
	}
	return compare("containers_limit", limit, c.Expect.Limit)
}

// crioTable is the table of a workload in a case, and in CRI-O's configuration.
type crioTable struct {
	Workload   string `toml:"-"`
	Activation string `json:"activation_annotation" toml:"activation_annotation"`
	Prefix     string `json:"annotation_prefix" toml:"annotation_prefix"`
	Resources  struct {
		Shares *uint64 `json:"cpushares" toml:"cpushares"`
		CPUs   *string `json:"cpuset" toml:"cpuset"`
	}
}

// checkRender compares the configuration of a profile with the operator's result.
// Before a profile exists, the management pool has all CPUs.
func checkRender(raw json.RawMessage) error {
	c, err := decode[struct {
		Reserved, Isolated string
		Bootstrap          bool
		Expect             map[string]json.RawMessage
	}](raw)
	if err != nil {
		return err
	}
	data, err := profile(map[string]string{"reserved": c.Reserved, "isolated": c.Isolated}, nil)
	name := "profile.yaml"
	if c.Bootstrap {
		name, data = migrate.PinningFile, []byte(`{"management":{"cpuset":""}}`)
	}
	if err != nil {
		return err
	}
	result, err := imported(name, data)
	if err != nil {
		return err
	}
	if c.Bootstrap {
		all := poolspec.Partition{Type: "management", All: true, Namespaces: []string{"ns"}}
		if err := compare("partitions", result.Config.Pools.Partitions, []poolspec.Partition{all}); err != nil {
			return err
		}
	}
	for file, want := range c.Expect {
		if err := compareRendered(result, file, want); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func compareRendered(result migrate.Result, file string, want json.RawMessage) error {
	if file == migrate.PinningFile {
		rendered, err := migrate.Render(result.Config, migrate.Pinning, "", nil)
		if err != nil {
			return err
		}
		got, err := decode[any](rendered.Data)
		if err != nil {
			return err
		}
		wanted, err := decode[any](want)
		if err != nil {
			return err
		}
		return compare("pinning file", got, wanted)
	}
	if path.Dir(file) != "/etc/crio/crio.conf.d" {
		return errors.New("no format renders it")
	}
	rendered, err := migrate.Render(result.Config, migrate.CRIO, "", nil)
	if err != nil {
		return err
	}
	var conf struct {
		CRIO struct {
			Runtime struct {
				Workloads map[string]crioTable
			}
		}
	}
	if _, err := toml.Decode(string(rendered.Data), &conf); err != nil {
		return err
	}
	table, err := decode[crioTable](want)
	if err != nil {
		return err
	}
	wanted := map[string]crioTable{table.Workload: table}
	for name, t := range conf.CRIO.Runtime.Workloads {
		t.Workload = name
		conf.CRIO.Runtime.Workloads[name] = t
	}
	return compare("workloads", conf.CRIO.Runtime.Workloads, wanted)
}
