// Package browser_test looks at the pages of `kubectl-cpupool serve` as people do: with
// a browser, a keyboard, in the light and in the dark.
package browser_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

var shots = flag.String("shots", "", "write screenshots into this directory; look at them")

// pageTimeout is the timeout of a page on a busy machine.
const pageTimeout = 2 * time.Minute

// page is a page in a browser.
type page struct {
	*testing.T
	ctx  context.Context
	feed *viewer.Feed // of open
	host string

	explain atomic.Pointer[viewer.Explainer] // nil: none

	mu    sync.Mutex
	wrong []string // the browser's complaints
}

// status is one of the viewer's samples.
func status(t *testing.T, name string) *inspect.Status {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "internal", "plugin", "viewer", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := viewer.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open shows a status in a browser of its own.
func open(t *testing.T, s *inspect.Status, width, height int64) *page {
	t.Helper()
	feed := viewer.NewFeed()
	feed.Put(s)
	p := openNodes(t, one{feed}, width, height)
	p.feed = feed
	return p
}

// openNodes shows nodes in a browser of its own. The test fails if the browser logs anything,
// such as a violation of the content security policy.
func openNodes(t *testing.T, nodes viewer.Nodes, width, height int64) *page {
	t.Helper()
	p := &page{T: t}
	server := viewer.New(nodes, "127.0.0.1")
	server.Explains(func(ctx context.Context, node string, c *inspect.Container) (*inspect.Explanation, error) {
		if by := p.explain.Load(); by != nil {
			return (*by)(ctx, node, c)
		}
		return viewer.Unexplained(ctx, node, c)
	})
	h := httptest.NewServer(server.Handler())
	t.Cleanup(h.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true)) // root has no sandbox
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	t.Cleanup(cancel)
	ctx, quit := chromedp.NewContext(ctx)
	t.Cleanup(quit)
	p.ctx = ctx
	origin, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.host = h.URL
	chromedp.ListenTarget(ctx, func(e any) { p.note(e, origin.Host) })
	p.do(network.Enable(), log.Enable(), runtime.Enable(), emulation.SetDeviceMetricsOverride(width, height, 1, false),
		chromedp.Navigate(h.URL), chromedp.WaitVisible("#machine svg"))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.wrong) > 0 {
			t.Errorf("complaints of the browser:\n%s", strings.Join(p.wrong, "\n"))
		}
	})
	return p
}

// note records requests to other servers and errors, which a page must not cause.
func (p *page) note(e any, host string) {
	wrong := ""
	switch e := e.(type) {
	case *network.EventRequestWillBeSent:
		if at, err := url.Parse(e.Request.URL); err != nil || at.Host != host && at.Scheme != "data" {
			wrong = "asks for " + e.Request.URL
		}
	case *log.EventEntryAdded:
		if !strings.HasSuffix(e.Entry.URL, "/favicon.ico") { // a browser's own idea
			wrong = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		wrong = e.ExceptionDetails.Error()
	}
	if wrong != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wrong = append(p.wrong, wrong)
	}
}

func (p *page) do(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// text returns the visible text of an element.
func (p *page) text(selector string) (s string) {
	p.Helper()
	p.do(chromedp.Text(selector, &s, chromedp.ByQuery))
	return s
}

// value returns the value of an expression.
func value[V any](p *page, expression string) (v V) {
	p.Helper()
	p.do(chromedp.Evaluate(expression, &v))
	return v
}

func (p *page) shoot(name string) {
	p.Helper()
	var png []byte
	p.do(chromedp.FullScreenshot(&png, 100))
	if len(png) == 0 {
		p.Error("screenshot is empty; want a picture")
	}
	if *shots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644); err != nil {
		p.Fatal(err)
	}
}

// smallest is the size in pixels of the smallest text on a CPU, and how many of these
// texts are wider than the CPU.
const smallest = `(() => {
	let size = 1e9, wide = 0;
	for (const c of document.querySelectorAll("#machine .cpu")) {
		const room = c.querySelector("rect").getBoundingClientRect().width;
		for (const t of c.querySelectorAll("text")) {
			size = Math.min(size, parseFloat(getComputedStyle(t).fontSize));
			if (t.getBoundingClientRect().width > room) wide++;
		}
	}
	return [size, wide];
})()`

// TestReadable checks that small and large machines, in the light and dark theme, fit
// into the window, and that the text of a CPU is readable.
func TestReadable(t *testing.T) {
	for _, name := range []string{"8", "256"} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(name+"-"+scheme, func(t *testing.T) {
				p := open(t, status(t, name+".json"), 1280, 900)
				p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
				if n := value[int](p, `document.querySelectorAll("#machine .cpu").length`); fmt.Sprint(n) != name {
					t.Errorf("%d CPUs are shown; want %s", n, name)
				}
				if got := value[[]float64](p, smallest); got[0] < 10 || got[1] > 0 {
					t.Errorf("smallest text of a CPU = %v px, texts without enough space = %v; want at least 10 px and 0", got[0], got[1])
				}
				if wide := value[bool](p, `document.documentElement.scrollWidth > window.innerWidth || document.querySelector("#machine svg").getBoundingClientRect().width > document.querySelector("#machine").clientWidth`); wide {
					t.Error("the page or the picture is wider than the window")
				}
				// Light ink on dark paper, or the other way round.
				light := value[[]string](p, `[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector("#machine .page")).fill]`)
				if want := map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]; light[0] != want || light[1] != want {
					t.Errorf("page and picture are on %v; want %s", light, want)
				}
				p.shoot(name + "-" + scheme)
			})
		}
	}
}

// TestKeyboard checks that all functions work without a mouse.
func TestKeyboard(t *testing.T) {
	p := open(t, status(t, "8.json"), 1280, 900)
	p.do(chromedp.Focus("#cpu0", chromedp.ByQuery))
	for range 6 { // through the NUMA nodes; a line is left at its end
		p.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	if at := value[string](p, `document.activeElement.id`); at == "cpu0" || !strings.HasPrefix(at, "cpu") {
		t.Errorf("focus after arrow keys = %q; want another CPU", at)
	}
	if stops := value[int](p, `document.querySelectorAll('#machine [tabindex="0"]').length`); stops != 1 {
		t.Errorf("the machine has %d stops of the tab key; want 1", stops)
	}
	p.do(chromedp.Focus("#cpu4", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#detail dl"))
	for _, want := range []string{"CPU 4", "ran/du-0/phy", "2 whole CPUs in a Guaranteed pod", "cpuset.cpus is 0-7"} {
		if got := p.text("#aside"); !strings.Contains(got, want) {
			t.Errorf("the explanation of CPU 4 lacks %q:\n%s", want, got)
		}
	}
	if got := p.text("#rows tr.chosen"); !strings.Contains(got, "ran/du-0/phy") {
		t.Errorf("marked line = %q; want ran/du-0/phy", got)
	}
}

// TestWords checks that a screen reader gets the pool and the owner of each CPU.
func TestWords(t *testing.T) {
	p := open(t, status(t, "256.json"), 1280, 900)
	if silent := value[int](p, `[...document.querySelectorAll("#machine .cpu")].filter((c) => !/^CPU \d+: .+ \(core \d+, L3 \d+, die \d+, package \d+, NUMA node \d+\)/.test(c.getAttribute("aria-label"))).length`); silent > 0 {
		t.Errorf("%d CPUs have no label", silent)
	}
	for _, selector := range []string{"#summary", "#error", "#detail", "label[for=search]", "label[for=pool]", "label[for=namespace]", "th[scope=col]"} {
		if value[int](p, fmt.Sprintf("document.querySelectorAll(%q).length", selector)) == 0 {
			t.Errorf("page lacks %s", selector)
		}
	}
}

// TestSearch checks the search by name, pool and CPU.
func TestSearch(t *testing.T) {
	p := open(t, status(t, "256.json"), 1280, 900)
	for search, want := range map[string]string{"name-7": "1 of 16", "guaranteed": "14 of 16", "152": "1 of 16", "133": "1 of 16", "nobody": "0 of 16", "": "16 of 16"} {
		p.do(chromedp.Evaluate(fmt.Sprintf(`{ const s = document.getElementById("search"); s.value = %q; s.dispatchEvent(new Event("input")); }`, search), nil))
		if got := p.text("#found"); got != want {
			t.Errorf("search for %q finds %s; want %s", search, got, want)
		}
	}
}

// TestLive checks that changes appear without a reload, that the keyboard keeps its
// place, and that a screen reader gets ends of containers.
func TestLive(t *testing.T) {
	first := status(t, "8.json")
	p := open(t, first, 1280, 900)
	p.do(chromedp.Focus("#cpu4", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	next := status(t, "8.json")
	next.Time = first.Time.Add(10 * time.Second)
	next.Faults = nil
	for i := range next.CPUs {
		next.CPUs[i].Busy += 5
	}
	next.Containers[0].Reason = "another reason"
	p.feed.Put(next)
	p.do(chromedp.Poll(`document.getElementById("detail").textContent.includes("another reason")`, nil))
	if label := value[string](p, `document.getElementById("cpu4").getAttribute("aria-label")`); !strings.Contains(label, "50 % busy") || strings.Contains(label, "not in the desired state") {
		t.Errorf("label of CPU 4 = %q; want 50 %% busy", label)
	}
	if at := value[string](p, `document.activeElement.id`); at != "cpu4" {
		t.Errorf("focus after the change = %q; want cpu4", at)
	}
	p.feed.End(fmt.Errorf("no more states <b>come</b>"))
	p.do(chromedp.Poll(`document.getElementById("error").textContent.includes("no more states <b>come</b>")`, nil))
}

// TestExplanation checks that the explanation is next to the machine, with the answer first,
// by the keyboard alone. Texts of the daemon stay texts, and an error is shown.
func TestExplanation(t *testing.T) {
	p := open(t, status(t, "8.json"), 1280, 900)
	p.do(chromedp.Focus("#cpu4", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#again"))
	if got := p.text("#explained"); !strings.Contains(got, "cpupoold explain 'ran/du-0/phy'") {
		t.Errorf("without a daemon the page shows %q; want the remedy", got)
	}
	if got := p.text("#answer"); !strings.Contains(got, "2 whole CPUs in a Guaranteed pod") {
		t.Errorf("without a daemon the answer is %q; want the reason of the status", got)
	}
	if beside := value[bool](p, `(() => { const m = document.getElementById("machine").getBoundingClientRect(), a = document.getElementById("answer").getBoundingClientRect(); return a.left >= m.right && a.top < m.bottom; })()`); !beside {
		t.Error("the answer is not next to the machine")
	}
	explain := viewer.Explainer(func(_ context.Context, _ string, c *inspect.Container) (*inspect.Explanation, error) {
		return &inspect.Explanation{Version: inspect.Version, Subjects: []inspect.Subject{{
			Container: *c, Sentence: "It has CPUs 4-5 <b>alone</b>.", Fix: "Ask for less.",
			Rules:      []inspect.Rule{{Name: "Pause", Statement: "it is a pause container"}, {Name: "Exclusive", Statement: "whole CPUs", Met: true, Answer: "<img src=x onerror=alert(1)>"}},
			Candidates: []inspect.Candidate{{Part: "NUMA node 1", Node: 1, Why: "rejected: no room"}},
			Changes:    []inspect.Change{{What: "ask for less", Then: "shared pool"}},
			Kernel:     &inspect.Kernel{Cgroup: "/a", CPUs: "4-5", Effective: "4"},
			Wanted:     &inspect.Wanted{Weight: 79},
			Events:     []history.Event{{Kind: history.Placed, Cause: "started", Error: "EBUSY"}},
		}}}, nil
	})
	p.explain.Store(&explain)
	p.do(chromedp.Focus("#again", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#explanation article"))
	if got := p.text("#answer"); got != "It has CPUs 4-5 <b>alone</b>.\n\nFix: Ask for less." {
		t.Errorf("the answer is %q; want sentence and fix", got)
	}
	if at := value[string](p, `document.activeElement.id`); at != "detail-title" {
		t.Errorf("focus after the second query = %q; want detail-title", at)
	}
	if got := p.text("#explanation"); strings.Contains(got, "EBUSY") {
		t.Errorf("the explanation's parts are open; want them closed:\n%s", got)
	}
	// Space opens a part.
	n := value[int](p, `document.querySelectorAll("#explanation summary").length`)
	for i := range n {
		p.do(chromedp.Evaluate(fmt.Sprintf(`document.querySelectorAll("#explanation summary")[%d].focus()`, i), nil), chromedp.KeyEvent(" "))
	}
	got := p.text("#explanation")
	for _, want := range []string{"No: it is a pause container", "Yes: whole CPUs: <img src=x onerror=alert(1)>", "NUMA node 1, free none: rejected: no room", "ask for less: shared pool", "cpuset.cpus.effective", "79", "EBUSY"} {
		if !strings.Contains(got, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, got)
		}
	}
	if n := value[int](p, `document.querySelectorAll("#aside img, #aside b").length`); n > 0 {
		t.Error("a text has become an element; want text")
	}
	p.shoot("explanation")
}

// one is the viewer.Nodes of a single feed, which answers for each name.
type one struct{ feed *viewer.Feed }

func (o one) List() []viewer.Listed { return nil }

func (o one) Feed(string) *viewer.Feed { return o.feed }
