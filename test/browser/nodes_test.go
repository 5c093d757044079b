package browser_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// simulated returns the nodes of the tutorial's cluster, as simulate prints them.
func simulated(t *testing.T) *viewer.Set {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/kubectl-cpupool", "simulate", "-f", "docs/tutorials/cluster/cluster.json", "-o", "json")
	cmd.Dir, cmd.Stderr = root, t.Output()
	out, err := cmd.Output()
	if len(out) == 0 { // the exit code is 3, because a container is refused
		t.Fatal(err)
	}
	set := viewer.NewSet()
	if err := set.Follow(strings.NewReader(string(out))); err != nil {
		t.Fatal(err)
	}
	return set
}

// set changes a field as a person does.
func (p *page) set(id, value string) {
	p.Helper()
	p.do(chromedp.Evaluate(fmt.Sprintf(`{ const f = document.getElementById(%q); f.value = %q; f.dispatchEvent(new Event("input", { bubbles: true })); f.dispatchEvent(new Event("change", { bubbles: true })); }`, id, value), nil))
}

// isAbove returns whether an element is above another one.
func (p *page) isAbove(a, b string) bool {
	p.Helper()
	return value[bool](p, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom <= document.querySelector(%q).getBoundingClientRect().top`, a, b))
}

// TestNodes checks the list of nodes, in the light and in the dark: problems of other nodes
// are links, and a choice changes node, picture and address.
func TestNodes(t *testing.T) {
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			p := openNodes(t, simulated(t), 1280, 900)
			p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			if got := p.text("#node"); got != "cp-1" {
				t.Errorf("first node = %q; want cp-1", got)
			}
			if got := p.text("#elsewhere"); got != "edge-2 (1 problem)" || !p.isAbove("#elsewhere", "#machine") {
				t.Errorf("problems of other nodes are %q; want edge-2, above the machine", got)
			}
			if got := p.text("#notes"); !strings.Contains(got, "--topology cp-1=2c2t") {
				t.Errorf("notes are %q; want the assumed machine", got)
			}
			p.set("nodes", "edge-1")
			p.do(chromedp.Poll(`document.querySelectorAll("#machine .cpu").length === 16`, nil))
			if got := p.text("#node") + value[string](p, "location.search"); got != "edge-1?node=edge-1" {
				t.Errorf("page after the choice = %q; want edge-1", got)
			}
			if got := p.text("#room"); !strings.Contains(got, "can get 0 exclusive CPUs") || !strings.Contains(got, "7,15") {
				t.Errorf("free capacity is %q; want none, because of the floor", got)
			}
			p.do(chromedp.Click("#elsewhere a", chromedp.ByQuery), chromedp.Poll(`document.getElementById("node").textContent === "edge-2"`, nil))
			if got := p.text("#problems .problem"); !strings.Contains(got, "core/session-cache-0/redis: requests 6 whole CPUs") || !p.isAbove("#problems", "#machine") {
				t.Errorf("the problem is %q; want it above the machine", got)
			}
			p.shoot("nodes-" + scheme)
			p.do(chromedp.NavigateBack(), chromedp.Poll(`document.getElementById("node").textContent === "edge-1"`, nil))
		})
	}
}

// TestProblemLinks checks that a problem leads to its container and to the description of its
// code, by the keyboard alone and although a filter hides the container.
func TestProblemLinks(t *testing.T) {
	p := openNodes(t, simulated(t), 1280, 900)
	p.set("nodes", "edge-2")
	p.do(chromedp.WaitVisible("#problems .problem"))
	p.do(chromedp.Focus("#problems a", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	p.do(chromedp.Poll(`document.querySelector("#rows tr.chosen")?.dataset.name === "core/session-cache-0/redis"`, nil))
	if at := value[string](p, `document.activeElement.textContent`); at != "core/session-cache-0/redis" {
		t.Errorf("focus after the link = %q; want core/session-cache-0/redis", at)
	}
	if got := p.text("#aside"); !strings.HasPrefix(got, "core/session-cache-0/redis\n\ncontainer redis of session-cache-0 runs in the shared pool, because it requests 6 whole CPUs") {
		t.Errorf("explanation = %q; want the reason of redis", got)
	}
	if got := p.text("#answer .fix"); !strings.Contains(got, "request fewer CPUs") {
		t.Errorf("fix = %q; want fewer CPUs", got)
	}
	const page = "https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md#refused"
	if to := value[string](p, `document.querySelector("#problems .problem a:last-of-type").href`); to != page {
		t.Errorf("the code leads to %q; want %s", to, page)
	}
	p.shoot("problem")
	p.set("search", "upf")
	if got := p.text("#found"); got != "2 of 5" {
		t.Errorf("search result = %s; want 2 of 5", got)
	}
	p.set("search", "")
	p.set("namespace", "core")
	p.set("pool", "guaranteed")
	if got := p.text("#found"); got != "1 of 5" {
		t.Errorf("filter result = %s; want 1 of 5", got)
	}
	if hidden := value[int](p, `document.querySelectorAll("#machine .cpu.filtered").length`); hidden != 8 {
		t.Errorf("the filters dim %d CPUs; want the 8 CPUs that upf-0 does not own", hidden)
	}
	if got := p.text("#problems-title"); got != "0 of 1 problem" {
		t.Errorf("the title of problems is %q; want that the filter hides one", got)
	}
	p.set("pool", "shared")
	p.set("namespace", "kube-system")
	if got := p.text("#found"); got != "1 of 5" {
		t.Errorf("filter result = %s; want 1 of 5", got)
	}
	// The address of a container works for another page.
	p.do(chromedp.Navigate(p.host+"/?node=edge-2#name=core%2Fupf-0%2Fforward"), chromedp.Reload(), chromedp.WaitVisible("#detail dl"))
	if got := p.text("#detail-title"); got != "core/upf-0/forward" {
		t.Errorf("container of the address = %q; want core/upf-0/forward", got)
	}
}

// TestHostileNames checks that names and texts of tenants stay texts, whole, and within the
// window.
func TestHostileNames(t *testing.T) {
	const evil = `<img src=x onerror="document.title='owned'">`
	long := strings.Repeat("n", 250)
	s := status(t, "8.json")
	s.Node = evil
	c := &s.Containers[0]
	c.Namespace, c.Pod, c.Name, c.Reason = evil, long, evil, evil
	s.Problems = []inspect.Problem{{Pod: evil + "/" + long, PodUID: c.PodUID, Text: evil, Code: evil}}
	for i := range s.CPUs {
		if s.CPUs[i].Owner != "" {
			s.CPUs[i].Owner = c.Full()
		}
	}
	p := open(t, s, 1280, 900)
	p.do(chromedp.Focus("#problems a", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#detail dl"))
	if n := value[int](p, `document.querySelectorAll("img").length`); n > 0 || value[string](p, "document.title") == "owned" {
		t.Errorf("names that became elements = %d; want 0", n)
	}
	for _, selector := range []string{"#problems", "#rows", "#detail-title", "#machine"} {
		if got := strings.ReplaceAll(value[string](p, fmt.Sprintf(`document.querySelector(%q).textContent`, selector)), "\n", ""); !strings.Contains(got, long) || !strings.Contains(got, evil) {
			t.Errorf("%s lacks the whole name: %.300q", selector, got)
		}
	}
	if wide := value[bool](p, `document.documentElement.scrollWidth > window.innerWidth`); wide {
		t.Error("page with a long name is wider than the window; want it to fit")
	}
	p.shoot("names")
}

// TestPlacements checks the time before the first placement and the load of the pools.
func TestPlacements(t *testing.T) {
	s := status(t, "8.json")
	for _, name := range []string{inspect.Management, inspect.Shared, inspect.Guaranteed} {
		s.Pools = append(s.Pools, inspect.Pool{Name: name, CPUs: cpuset.Of(0)})
	}
	s.Placements = []inspect.Placement{{Way: "event", Containers: 4, Seconds: 1, CPUSeconds: 0.2}, {Way: "spec"}}
	p := open(t, s, 1280, 900)
	if got := p.text("#exposure tbody"); got != "event\t4\t250.0 ms\t50.0 ms" {
		t.Errorf("placements = %q; want 4 by events", got)
	}
	next := *s
	next.Time = next.Time.Add(10e9)
	next.CPUs = append([]inspect.CPU{}, s.CPUs...)
	for i := range next.CPUs {
		next.CPUs[i].Busy += 5
	}
	p.feed.Put(&next)
	p.do(chromedp.Poll(`document.getElementById("pools").textContent.includes("(50 %)")`, nil))
}

// TestNarrow checks that the page fits into the window of a phone.
func TestNarrow(t *testing.T) {
	p := open(t, status(t, "256.json"), 400, 800)
	if wide := value[int](p, `document.documentElement.scrollWidth`); wide > 400 {
		t.Errorf("page width = %d pixels; want at most 400", wide)
	}
	if wide := value[bool](p, `document.querySelector("#machine svg").getBoundingClientRect().width > document.querySelector("#machine").clientWidth`); wide {
		t.Error("picture is wider than its container; want it to fit")
	}
	p.shoot("narrow")
}

// TestEnd checks that the page shows why no other state comes, and that the state stays.
func TestEnd(t *testing.T) {
	set := simulated(t)
	p := openNodes(t, set, 1280, 900)
	p.set("nodes", "edge-1")
	p.do(chromedp.Poll(`document.getElementById("node").textContent === "edge-1"`, nil))
	set.End(os.ErrNotExist)
	p.do(chromedp.Poll(`document.getElementById("error").textContent.includes("file does not exist")`, nil))
}
