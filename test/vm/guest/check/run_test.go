//go:build guest

package check_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestRunRefuses checks that run ends before its first write and prints the reason, if check reports a
// refusal.
func TestRunRefuses(t *testing.T) {
	for _, name := range []string{"static policy in the state", "CRI-O with a workloads table", "cgroup v1"} {
		t.Run(name, func(t *testing.T) {
			c := find(t, name)
			script, config := c.script, goodConfig
			if c.setup != nil {
				added := c.setup(t)
				script, config = script+added.script, config+added.config
			}
			_, head, _ := strings.Cut(c.want[0], " ")
			_, reason, _ := strings.Cut(head, ": ")
			_, stderr, code := inBroken(t, script, config, "run")
			if code != 1 || !strings.Contains(stderr, reason) {
				t.Errorf("cpupoold run: exit code %d, want 1; it said %q, want %q in it", code, stderr, reason)
			}
		})
	}
}

func find(t *testing.T, name string) broken {
	t.Helper()
	for _, c := range cases() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no case %q", name)
	return broken{}
}

// TestStaticKubelet makes the kubelet of the node a real static one, and restores the configuration file while it runs. From then
// on only the kubelet's state shows the policy.
func TestStaticKubelet(t *testing.T) {
	original, err := os.ReadFile(kubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	restart := func(config []byte) {
		t.Helper()
		command(t, "systemctl", "stop", "kubelet")
		write(t, kubeletConfig, string(config))
		if err := os.Remove(kubeletState); err != nil {
			t.Error(err)
		}
		appeared := watch(t, kubeletState)
		command(t, "systemctl", "start", "kubelet")
		appeared() // later than the kubelet is ready
	}
	t.Cleanup(func() {
		restart(original)
		check(t, "", goodConfig).expect(t, nil)
	})
	restart([]byte(strings.Replace(string(original), "cpuManagerPolicy: none", "cpuManagerPolicy: static", 1)))
	check(t, "", goodConfig).expect(t, []string{
		"refuse kubelet-policy: " + kubeletConfig,
		"refuse kubelet-policy: " + kubeletState,
	})
	write(t, kubeletConfig, string(original))
	check(t, "", goodConfig).expect(t, []string{"refuse kubelet-policy: " + kubeletState})
}

// TestNestedKubelet checks that a static kubelet in another PID namespace does not count, and that one in the namespace of the node does.
// The kubelet of the node does not run.
func TestNestedKubelet(t *testing.T) {
	command(t, "systemctl", "stop", "kubelet")
	t.Cleanup(func() { command(t, "systemctl", "start", "kubelet") })
	for _, test := range []struct {
		name  string
		flags uintptr
		want  []string
	}{
		{"in a container", syscall.CLONE_NEWPID, nil},
		{"on the node", 0, []string{"refuse kubelet-policy: --cpu-manager-policy is static"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 1h; :", "--config="+kubeletConfig, "--cpu-manager-policy=static")
			c.Args[0] = "/usr/local/bin/kubelet"
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: test.flags, Setpgid: true}
			c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Wait() }) // killed with the context
			check(t, "", goodConfig).expect(t, test.want)
		})
	}
}

// watch returns a function that waits until the file has been made, from now on.
func watch(t *testing.T, file string) (appeared func()) {
	t.Helper()
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(filepath.Dir(file))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer w.Close()
		late := time.After(limit)
		for {
			select {
			case event := <-w.Events:
				if event.Name == file && event.Has(fsnotify.Create) {
					return
				}
			case err := <-w.Errors:
				t.Fatal(err)
			case <-late:
				t.Fatalf("%s has not been made after %v", file, limit)
			}
		}
	}
}

// TestAllAtOnce checks that no problem hides another.
func TestAllAtOnce(t *testing.T) {
	crio := find(t, "CRI-O with infra_ctr_cpuset").setup(t)
	script := find(t, "static policy in the state").script + "\n" + find(t, "kernel without PSI").script + "\n" +
		find(t, "core in two pools").script + "\n" + crio.script
	check(t, script, goodConfig+crio.config).expect(t, []string{
		"refuse kubelet-policy: static",
		"warning crio-infra-cpuset: infra_ctr_cpuset",
		"warning pools-split-core: CPUs 1",
		"info kernel-psi: /proc/pressure/cpu",
	})
}
