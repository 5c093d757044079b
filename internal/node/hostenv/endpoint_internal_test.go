package hostenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// fakeFinder is a machine with a kubelet and a runtime that answers.
type fakeFinder struct {
	kubelet, runtime string // endpoints
	kubeletErr, err  error
}

func (f *fakeFinder) finder() finder {
	return finder{
		kubelet:   func(string) (string, error) { return f.kubelet, f.kubeletErr },
		answering: func(context.Context, string) (string, error) { return f.runtime, f.err },
	}
}

// TestFindEndpoint checks the order: the configuration, the kubelet, the runtime that answers.
func TestFindEndpoint(t *testing.T) {
	several, unreadable := errors.New("two runtimes answer"), errors.New("cannot read the configuration of the kubelet")
	for name, test := range map[string]struct {
		configured string
		machine    fakeFinder
		want       string
		guessed    bool
		errs       []error
	}{
		"configured":                {configured: "unix:///a", machine: fakeFinder{kubelet: "unix:///b", runtime: "unix:///c"}, want: "unix:///a"},
		"of the kubelet":            {machine: fakeFinder{kubelet: "unix:///b", runtime: "unix:///c"}, want: "unix:///b"},
		"of the kubelet of several": {machine: fakeFinder{kubelet: "unix:///b", err: several}, want: "unix:///b"},
		"without a kubelet":         {machine: fakeFinder{runtime: "unix:///c"}, want: "unix:///c", guessed: true},
		"unreadable kubelet":        {machine: fakeFinder{kubeletErr: unreadable, runtime: "unix:///c"}, want: "unix:///c", guessed: true},
		"neither":                   {machine: fakeFinder{kubeletErr: unreadable, err: several}, errs: []error{several, unreadable}},
	} {
		t.Run(name, func(t *testing.T) {
			got, guessed, err := findEndpoint(t.Context(), &config.Config{RuntimeEndpoint: test.configured}, test.machine.finder())
			if got != test.want || guessed != test.guessed || (err != nil) != (test.errs != nil) {
				t.Errorf("findEndpoint = %q, %t, %v; want %q, %t", got, guessed, err, test.want, test.guessed)
			}
			for _, want := range test.errs {
				if !errors.Is(err, want) {
					t.Errorf("findEndpoint: %v; want %v in it", err, want)
				}
			}
		})
	}
}

// TestConfirm checks the looks after a guess, their end, and the detection of another runtime.
func TestConfirm(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "docker.sock"), nil, 0o600), os.WriteFile(filepath.Join(dir, "crio.sock"), nil, 0o600),
		os.Symlink("docker.sock", filepath.Join(dir, "link.sock"))); err != nil {
		t.Fatal(err)
	}
	docker, crio, link := "unix://"+filepath.Join(dir, "docker.sock"), "unix://"+filepath.Join(dir, "crio.sock"), "unix://"+filepath.Join(dir, "link.sock")
	for name, test := range map[string]struct {
		later fakeFinder
		pods  bool
		want  string // part of the error; empty: none
		ends  bool   // without the end of the context
	}{
		"the kubelet uses it":           {later: fakeFinder{kubelet: docker, runtime: docker}, ends: true},
		"the kubelet uses it by a link": {later: fakeFinder{kubelet: link, runtime: docker}, ends: true},
		"the kubelet uses another":      {later: fakeFinder{kubelet: crio, runtime: docker}, want: "the kubelet uses the container runtime at " + crio, ends: true},
		"pods without a kubelet":        {later: fakeFinder{runtime: docker}, pods: true, ends: true},
		"pods in another":               {later: fakeFinder{runtime: crio}, want: "pods run in the container runtime at " + crio, ends: true},
		"several":                       {later: fakeFinder{err: errors.New("two runtimes answer")}},
		"nothing changes":               {later: fakeFinder{runtime: docker}},
		"an unreadable kubelet":         {later: fakeFinder{kubeletErr: errors.New("cannot read"), runtime: docker}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				isLater := func() bool { return time.Since(begin(ctx)) > lookAgain+time.Second }
				machine := func() finder { // the first look finds no kubelet
					if isLater() {
						return test.later.finder()
					}
					return (&fakeFinder{runtime: docker}).finder()
				}
				err := confirm(ctx, &config.Config{}, docker, finder{
					kubelet:   func(dir string) (string, error) { return machine().kubelet(dir) },
					answering: func(ctx context.Context, root string) (string, error) { return machine().answering(ctx, root) },
				}, func(context.Context) bool { return test.pods && isLater() })
				if test.want == "" && err != nil || err != nil && !strings.Contains(err.Error(), test.want) || test.want != "" && err == nil {
					t.Errorf("confirm: %v; want %q", err, test.want)
				}
				if ends := ctx.Err() == nil; ends != test.ends {
					t.Errorf("ended before its context: %t; want %t", ends, test.ends)
				}
			})
		})
	}
}

// begin returns the time at which a context of an hour began.
func begin(ctx context.Context) time.Time {
	end, _ := ctx.Deadline()
	return end.Add(-time.Hour)
}

// TestServe checks that another runtime ends the daemon with an error, and that the end of the
// daemon is none.
func TestServe(t *testing.T) {
	wrong := errors.New("another runtime")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	h := Host{}
	if err := h.Serve(t.Context(), func(context.Context) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("Serve with a certain runtime: %v; want the error of run", err)
	}
	h.confirm = func(context.Context) error { return wrong }
	if err := h.Serve(t.Context(), waits); !errors.Is(err, wrong) {
		t.Errorf("Serve with another runtime: %v; want %v", err, wrong)
	}
	ended := false
	h.confirm = func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Serve(ctx, waits); err != nil || !ended {
		t.Errorf("Serve after its context has ended: %v, confirm ended: %t", err, ended)
	}
	if err := h.Serve(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("Serve after run has ended: %v; want nil", err)
	}
}

// TestHasPods checks that pods which have ended do not confirm a runtime.
func TestHasPods(t *testing.T) {
	runtime := testnode.StartRuntime(t, testnode.RuntimeConfig{})
	client, err := cri.Dial(runtime.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := link{client: client}
	t.Cleanup(rt.close)
	check := func(when string, want bool) {
		t.Helper()
		if got := rt.hasPods(t.Context()); got != want {
			t.Errorf("%s: hasPods = %t; want %t", when, got, want)
		}
	}
	check("without a pod", false)
	id, err := runtime.RunPod(testnode.PodSpec{UID: "one", Namespace: "default", Name: "one", QoS: "burstable"})
	if err != nil {
		t.Fatal(err)
	}
	check("with a pod", true)
	if err := runtime.StopPod(id); err != nil {
		t.Fatal(err)
	}
	check("with a pod that has ended", false)
}
