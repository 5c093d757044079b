package hostedpriority

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// problems returns the problems of a configuration as "key: value".
func problems(c Config) (all []string) {
	c.Check(func(key, value, reason string) {
		if reason == "" {
			all = append(all, key+" has a problem without a reason")
		}
		all = append(all, strings.TrimPrefix(key, "hostedPriority.")+": "+value)
	})
	return all
}

// TestDefault checks the default against the values of the proposal.
func TestDefault(t *testing.T) {
	c := Default()
	if c.Enabled || c.SizesFrom != FromConfig {
		t.Errorf("by default it is on, or sizes are from %s", c.SizesFrom)
	}
	if got := problems(c); len(got) > 0 {
		t.Errorf("the default is refused: %q", got)
	}
	got := map[string]int64{}
	for _, s := range c.Sizes {
		got[s.ControlPlane.Name], got[s.Etcd.Name] = s.ControlPlane.Value, s.Etcd.Value
	}
	want := map[string]int64{
		"hypershift-xs": 1000000, "hypershift-etcd-xs": 1500000, "hypershift-s": 2000000, "hypershift-etcd-s": 2500000,
		"hypershift-m": 3000000, "hypershift-etcd-m": 3500000, "hypershift-l": 4000000, "hypershift-etcd-l": 4500000,
		"hypershift-xl": 5000000, "hypershift-etcd-xl": 5500000, "hypershift-xxl": 6000000, "hypershift-etcd-xxl": 6500000,
		"hypershift-dedicated": 7000000, "hypershift-etcd-dedicated": 7500000,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("classes (-want +got):\n%s", d)
	}
	sizes := map[int64]string{}
	table := c.Table()
	for _, nodes := range []int64{0, 1, 10, 11, 25, 26, 50, 51, 100, 101, 300, 301, 1_000_000_000} {
		sizes[nodes] = table.sizes[table.counted(nodes)].name
	}
	wantSizes := map[int64]string{0: "xs", 1: "xs", 10: "xs", 11: "s", 25: "s", 26: "m", 50: "m", 51: "l", 100: "l", 101: "xl", 300: "xl", 301: "xxl", 1_000_000_000: "xxl"}
	if d := cmp.Diff(wantSizes, sizes); d != "" {
		t.Errorf("sizes by nodes (-want +got):\n%s", d)
	}
	if names := table.Sizes(); !slices.Equal(names, []string{"xs", "s", "m", "l", "xl", "xxl", "dedicated"}) {
		t.Errorf("sizes %q; want %q", names, []string{"xs", "s", "m", "l", "xl", "xxl", "dedicated"})
	}
}

func TestCheck(t *testing.T) {
	limit := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"other limits":       {func(c *Config) { c.Sizes[0].MaxNodes = limit(0) }, nil},
		"not a power of ten": {func(c *Config) { c.Sizes[6].Etcd.Value = HighestValue }, nil},
		"one size":           {func(c *Config) { c.Sizes = c.Sizes[5:6] }, nil},
		"no dedicated one":   {func(c *Config) { c.Sizes = c.Sizes[:6] }, nil},
		"negative values":    {func(c *Config) { c.Sizes[0].ControlPlane.Value = -1 << 31 }, nil},
		"longest name":       {func(c *Config) { c.Sizes[0].Etcd.Name = strings.Repeat("a", 253) }, nil},
		"dots":               {func(c *Config) { c.Sizes[0].Etcd.Name = "a.b-c.d" }, nil},
		"between":            {func(c *Config) { c.Sizes[0].APICritical = &Class{"a", 1_200_000} }, nil},
		"etcd above all": {func(c *Config) {
			for i := range c.Sizes[:6] {
				c.Sizes[i].Etcd.Value += 10_000_000
			}
			c.Sizes[6].ControlPlane.Value, c.Sizes[6].Etcd.Value = 20_000_000, 20_000_001
		}, nil},

		"sizes from nowhere": {func(c *Config) { c.SizesFrom = "nodes" }, []string{"sizesFrom: nodes"}},
		"no sizes":           {func(c *Config) { c.Sizes = nil }, []string{"sizes: []"}},
		"no open end":        {func(c *Config) { c.Sizes = c.Sizes[:5] }, []string{"sizes: xl"}},
		"only dedicated":     {func(c *Config) { c.Sizes = c.Sizes[6:] }, []string{"sizes: dedicated"}},
		"two open ends":      {func(c *Config) { c.Sizes[4].MaxNodes = nil }, []string{"sizes[5].name: xxl"}},
		"limits down":        {func(c *Config) { c.Sizes[1].MaxNodes = limit(10) }, []string{"sizes[1].maxNodes: 10"}},
		"limit below zero":   {func(c *Config) { c.Sizes[0].MaxNodes = limit(-1) }, []string{"sizes[0].maxNodes: -1"}},
		"limit too large":    {func(c *Config) { c.Sizes[4].MaxNodes = limit(1_000_001) }, []string{"sizes[4].maxNodes: 1000001"}},
		"limit of dedicated": {func(c *Config) { c.Sizes[6].MaxNodes = limit(1000) }, []string{"sizes[6].maxNodes: 1000"}},
		"dedicated first": {func(c *Config) {
			c.Sizes = slices.Concat(c.Sizes[6:], c.Sizes[:6])
			c.Sizes[0].ControlPlane.Value, c.Sizes[0].Etcd.Value = 1, 2
		}, []string{"sizes[1].name: xs", "sizes[2].name: s", "sizes[3].name: m", "sizes[4].name: l", "sizes[5].name: xl", "sizes[6].name: xxl"}},
		"size twice":         {func(c *Config) { c.Sizes[1].Name = "xs" }, []string{"sizes[1].name: xs"}},
		"size without name":  {func(c *Config) { c.Sizes[1].Name = "" }, []string{"sizes[1].name: "}},
		"size in capitals":   {func(c *Config) { c.Sizes[1].Name = "S" }, []string{"sizes[1].name: S"}},
		"class without name": {func(c *Config) { c.Sizes[1].Etcd.Name = "" }, []string{"sizes[1].etcd.name: "}},
		"class too long": {func(c *Config) { c.Sizes[1].Etcd.Name = strings.Repeat("a", 254) },
			[]string{"sizes[1].etcd.name: " + strings.Repeat("a", 254)}},
		"class in capitals":       {func(c *Config) { c.Sizes[1].Etcd.Name = "Etcd" }, []string{"sizes[1].etcd.name: Etcd"}},
		"class ends with -":       {func(c *Config) { c.Sizes[1].Etcd.Name = "etcd-" }, []string{"sizes[1].etcd.name: etcd-"}},
		"class begins with .":     {func(c *Config) { c.Sizes[1].Etcd.Name = ".etcd" }, []string{"sizes[1].etcd.name: .etcd"}},
		"system's":                {func(c *Config) { c.Sizes[6].Etcd.Name = "system-critical" }, []string{"sizes[6].etcd.name: system-critical"}},
		"operator's":              {func(c *Config) { c.Sizes[6].Etcd.Name = "hypershift-operator" }, []string{"sizes[6].etcd.name: hypershift-operator"}},
		"HyperShift's":            {func(c *Config) { c.Sizes[6].Etcd.Name = "hypershift-etcd" }, []string{"sizes[6].etcd.name: hypershift-etcd"}},
		"class twice":             {func(c *Config) { c.Sizes[1].Etcd.Name = "hypershift-xs" }, []string{"sizes[1].etcd.name: hypershift-xs"}},
		"class twice, there":      {func(c *Config) { c.Sizes[1].APICritical = &Class{"hypershift-m", 2_100_000} }, []string{"sizes[2].controlPlane.name: hypershift-m"}},
		"value too large":         {func(c *Config) { c.Sizes[6].Etcd.Value = HighestValue + 1 }, []string{"sizes[6].etcd.value: 1000000001"}},
		"value too small":         {func(c *Config) { c.Sizes[0].ControlPlane.Value = -1<<31 - 1 }, []string{"sizes[0].controlPlane.value: -2147483649"}},
		"etcd below":              {func(c *Config) { c.Sizes[1].Etcd.Value = 1_900_000 }, []string{"sizes[1].etcd.value: 1900000"}},
		"API below":               {func(c *Config) { c.Sizes[1].APICritical = &Class{"a", 1_999_999} }, []string{"sizes[1].apiCritical.value: 1999999"}},
		"API above etcd":          {func(c *Config) { c.Sizes[1].APICritical = &Class{"a", 2_600_000} }, []string{"sizes[1].etcd.value: 2500000"}},
		"a larger one below":      {func(c *Config) { c.Sizes[2].ControlPlane.Value = 1_900_000 }, []string{"sizes[2].controlPlane.value: 1900000"}},
		"the same value":          {func(c *Config) { c.Sizes[2].ControlPlane.Value = 2_500_000 }, []string{"sizes[2].controlPlane.value: 2500000"}},
		"dedicated below an etcd": {func(c *Config) { c.Sizes[6].ControlPlane.Value = 6_400_000 }, []string{"sizes[6].controlPlane.value: 6400000"}},
	} {
		config := Default()
		c.change(&config)
		if d := cmp.Diff(c.want, problems(config)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestSizingTable(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"from HyperShift's documents": {`{"sizes":[{"name":"large","criteria":{"from":11},"effects":{"etcdPriorityClassName":"b","kasGoMemLimit":"1GiB"}},
			{"name":"small","criteria":{"from":0,"to":10},"effects":{"controlPlanePriorityClassName":"a","APICriticalPriorityClassName":"c"}}]}`, ""},
		"none":                {`{}`, "has no sizes"},
		"not from 0":          {`{"sizes":[{"name":"a","criteria":{"from":1}}]}`, `size "a": sizes leave out`},
		"a gap":               {`{"sizes":[{"name":"a","criteria":{"from":0,"to":1}},{"name":"b","criteria":{"from":3}}]}`, `size "b": sizes leave out`},
		"twice":               {`{"sizes":[{"name":"a","criteria":{"from":0,"to":2}},{"name":"b","criteria":{"from":2}}]}`, `size "b": sizes leave out`},
		"an end":              {`{"sizes":[{"name":"a","criteria":{"from":0,"to":2}}]}`, `size "a": sizes leave out`},
		"two without":         {`{"sizes":[{"name":"a","criteria":{"from":0}},{"name":"b","criteria":{"from":3}}]}`, `size "a": sizes leave out`},
		"the same name":       {`{"sizes":[{"name":"a","criteria":{"from":0,"to":2}},{"name":"a","criteria":{"from":3}}]}`, `size "a": occurs twice`},
		"no name":             {`{"sizes":[{"criteria":{"from":0}}]}`, `size "": occurs twice, or has no name`},
		"a class of system's": {`{"sizes":[{"name":"a","criteria":{"from":0},"effects":{"etcdPriorityClassName":"system-node-critical"}}]}`, `class "system-node-critical" of etcd: is a class of the system's`},
		"no class":            {`{"sizes":[{"name":"a","criteria":{"from":0},"effects":{"etcdPriorityClassName":"A"}}]}`, `class "A" of etcd: is no name`},
		"no list":             {`{"sizes":{}}`, "decode"},
		"no number":           {`{"sizes":[{"name":"a","criteria":{"from":"0"}}]}`, "decode"},
	} {
		table, err := ParseSizing([]byte(`{"spec":` + c.spec + `}`))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			want := []row{{"small", 10, [3]Class{{Name: "a"}, {Name: "c"}, {}}}, {"large", 1<<63 - 1, [3]Class{{Name: "a"}, {Name: "c"}, {Name: "b"}}}}
			if d := cmp.Diff(want, table.sizes, cmp.AllowUnexported(row{})); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want one with %q", name, err, c.want)
		}
		if len(table.sizes) > 0 {
			t.Errorf("%s: refused, and has sizes", name)
		}
	}
}
