package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/picture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var update = flag.Bool("update", false, "write testdata/*.svg anew")

// machine is a regular one: threads of a core are half of all CPUs apart, as on most
// servers.
func machine(packages, nodes, l3s, cores, threads int) []inspect.CPU {
	perPackage := nodes * l3s * cores
	half := packages * perPackage
	var all []inspect.CPU
	for id := range half * threads {
		core := id % half
		all = append(all, inspect.CPU{
			ID: id, Online: true, Core: core, L3: core / cores * cores, Die: 0, Package: core / perPackage, Node: core / (l3s * cores), Use: "none",
		})
	}
	return all
}

// claim gives CPUs to a pool, and to an owner if there is one.
func claim(cpus []inspect.CPU, set, pool, use, owner string) {
	for i := range cpus {
		if parse(set).Contains(cpus[i].ID) {
			cpus[i].Pool, cpus[i].Use, cpus[i].Owner = pool, use, owner
		}
	}
}

func parse(s string) cpuset.Set {
	set, err := cpuset.Parse(s)
	if err != nil {
		panic(err)
	}
	return set
}

func small() *inspect.Status {
	cpus := machine(1, 2, 1, 4, 1)
	claim(cpus, "0-1", inspect.Management, "pool", "")
	claim(cpus, "2-3", inspect.Shared, "pool", "")
	claim(cpus, "4-7", inspect.Guaranteed, "free", "")
	claim(cpus, "4-5", inspect.Guaranteed, "owned", "ran/du-0/phy")
	cpus[7] = inspect.CPU{ID: 7, Core: -1, L3: -1, Die: -1, Package: -1, Node: -1, Use: "offline"}
	return &inspect.Status{
		Version: 1, Node: "edge-1", CPUs: cpus,
		Containers: []inspect.Container{{Namespace: "ran", Pod: "du-0", Name: "phy", Exclusive: true, CPUs: parse("4-5"), Cgroup: "a"}},
		Faults:     []inspect.Fault{{Cgroup: "a", Error: "cpuset.cpus is 0-7"}},
	}
}

func large() *inspect.Status {
	cpus := machine(2, 1, 8, 8, 2)
	claim(cpus, "0-3,128-131", inspect.Management, "pool", "")
	claim(cpus, "4-15,132-143", inspect.Shared, "pool", "")
	claim(cpus, "16-127,144-255", inspect.Guaranteed, "free", "")
	for i := range 14 {
		first := 16 + 8*i
		claim(cpus, fmt.Sprintf("%d-%d,%d-%d", first, first+5, first+128, first+133), inspect.Guaranteed, "owned", fmt.Sprintf("ran/distributed-unit-with-a-long-name-%d/layer-one", i))
	}
	claim(cpus, "22,150", inspect.Guaranteed, "idle", "")
	return &inspect.Status{Version: 1, Node: "worker-17.example.com", CPUs: cpus}
}

func draw(t *testing.T, s *inspect.Status) []byte {
	t.Helper()
	b, err := picture.SVG(s, picture.Options{Load: map[int]float64{0: 0.5, 4: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden compares pictures with files. Look at the files when they change.
func TestGolden(t *testing.T) {
	for name, s := range map[string]*inspect.Status{"small": small(), "large": large()} {
		got, file := draw(t, s), filepath.Join("testdata", name+".svg")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil { //nolint:gosec // to be read by all
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the drawing; go test ./internal/plugin/picture -update, and look at it", file)
		}
	}
}

// TestEveryMachine checks for any machine that each CPU is drawn once, in the picture,
// over no other, and that the file is XML.
func TestEveryMachine(t *testing.T) {
	odd := machine(2, 1, 1, 2, 2)
	for i := range odd { // a node over halves of both packages, which no real machine has
		odd[i].Node = i % 2
	}
	for name, cpus := range map[string][]inspect.CPU{
		"one CPU": machine(1, 1, 1, 1, 1), "laptop": machine(1, 1, 1, 4, 2), "sub-NUMA": machine(2, 4, 2, 6, 2), "1024": machine(4, 4, 4, 8, 2), "2048": machine(16, 1, 8, 8, 2),
		"overlap": odd, "offline": small().CPUs,
	} {
		t.Run(name, func(t *testing.T) {
			checkDrawing(t, draw(t, &inspect.Status{Node: "<&>", CPUs: cpus}), len(cpus))
		})
	}
	if _, err := picture.SVG(&inspect.Status{}, picture.Options{}); err == nil {
		t.Error("SVG of a status without CPUs = no error; want one")
	}
}

type element struct {
	XMLName xml.Name
	Class   string    `xml:"class,attr"`
	CPU     string    `xml:"data-cpu,attr"`
	X       int       `xml:"x,attr"`
	Y       int       `xml:"y,attr"`
	Width   int       `xml:"width,attr"`
	Height  int       `xml:"height,attr"`
	Label   string    `xml:"aria-label,attr"`
	Nodes   []element `xml:",any"`
}

func checkDrawing(t *testing.T, b []byte, cpus int) {
	t.Helper()
	var svg element
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimSpace(b)))
	if err := d.Decode(&svg); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("more after the picture: %v", err)
	}
	seen := make(map[string]bool)
	var fields []element
	var walk func(e element)
	walk = func(e element) {
		if e.CPU != "" {
			if seen[e.CPU] {
				t.Errorf("CPU %s is drawn twice", e.CPU)
			}
			seen[e.CPU] = true
			if !strings.HasPrefix(e.Label, "CPU "+e.CPU+": ") {
				t.Errorf("label of CPU %s = %q; want its number first", e.CPU, e.Label)
			}
			for _, n := range e.Nodes {
				if n.XMLName.Local == "rect" && n.Class != "over" && n.Class != "fault" && n.Class != "load" {
					fields = append(fields, n)
				}
			}
			return
		}
		for _, n := range e.Nodes {
			walk(n)
		}
	}
	walk(svg)
	if len(seen) != cpus || len(fields) != cpus {
		t.Errorf("%d CPUs and %d fields are drawn; want %d", len(seen), len(fields), cpus)
	}
	at := make(map[[2]int]bool)
	for _, f := range fields {
		if f.X < 0 || f.Y < 0 || f.X+f.Width > svg.Width || f.Y+f.Height > svg.Height {
			t.Errorf("CPU at %d,%d is outside of the picture of %d×%d", f.X, f.Y, svg.Width, svg.Height)
		}
		if at[[2]int{f.X, f.Y}] {
			t.Errorf("two CPUs are at %d,%d", f.X, f.Y)
		}
		at[[2]int{f.X, f.Y}] = true
	}
}

// TestSameBytes checks that the order of CPUs and of maps does not matter.
func TestSameBytes(t *testing.T) {
	s := large()
	want := draw(t, s)
	for i, j := 0, len(s.CPUs)-1; i < j; i, j = i+1, j-1 {
		s.CPUs[i], s.CPUs[j] = s.CPUs[j], s.CPUs[i]
	}
	if !bytes.Equal(want, draw(t, s)) {
		t.Error("pictures of the same CPUs in another order differ; want equal bytes")
	}
}

// TestLegendIsWhole checks that the legend shows the whole name of each owner, within the
// picture.
func TestLegendIsWhole(t *testing.T) {
	for _, width := range []int{0, 400, 900} {
		for _, length := range []int{1, 60, 150, 380} {
			s := small()
			name := strings.Repeat("n", length-1) + "z"
			claim(s.CPUs, "4-5", inspect.Guaranteed, "owned", name)
			svg, err := picture.SVG(s, picture.Options{Width: width, Bare: true})
			if err != nil {
				t.Fatal(err)
			}
			var drawn struct {
				Width int `xml:"width,attr"`
				Parts []struct {
					Texts []struct {
						X    int    `xml:"x,attr"`
						Kind string `xml:"class,attr"`
						Text string `xml:",chardata"`
					} `xml:"text"`
				} `xml:"g"`
			}
			if err := xml.Unmarshal(svg, &drawn); err != nil {
				t.Fatal(err)
			}
			whole := ""
			for _, p := range drawn.Parts {
				for _, x := range p.Texts {
					if x.Kind != "entry" {
						continue
					}
					whole += x.Text
					if end := x.X + 6*len(x.Text); end > drawn.Width {
						t.Errorf("width %d: end of %q = %d; want at most %d", width, x.Text, end, drawn.Width)
					}
				}
			}
			if !strings.Contains(whole, name+": 4-5") {
				t.Errorf("width %d: the legend has %q; want the name of %d characters", width, whole, length)
			}
			if width > 0 && drawn.Width > width {
				t.Errorf("the picture has a width of %d; want %d", drawn.Width, width)
			}
		}
	}
}

// TestClaims checks that CPUs of a ResourceClaim show its name, also a hostile one, and that other CPUs
// for claims are marked as unused or as lent.
func TestClaims(t *testing.T) {
	s := small()
	claim(s.CPUs, "4", inspect.ClaimedPool, "owned", "claim ran/<script>")
	claim(s.CPUs, "5", inspect.ClaimedPool, "unused", "")
	claim(s.CPUs, "6", inspect.ClaimedPool, "lent", "")
	for i, want := range map[int]string{4: "claims pool, owned by claim ran/<script> (", 5: "claims pool, unused (", 6: "claims pool, lent ("} {
		if got := picture.Words(&s.CPUs[i]); !strings.Contains(got, want) {
			t.Errorf("CPU %d: %s; want %s", i, got, want)
		}
	}
	svg := string(draw(t, s))
	for _, want := range []string{"claim ran/&lt;script&gt;: 4", ">claims pool, unused", ">claims pool, lent to the shared pool", `class="unused"`, `class="lent"`, ">U<", ">L<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}
