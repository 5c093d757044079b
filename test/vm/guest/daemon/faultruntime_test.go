//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const nriSocket = "/var/run/nri/nri.sock"

// started is the state of a pod whose creation is in progress.
type started struct {
	pod
	err error
}

// beginning starts a pod and does not wait for it.
func (f *faults) beginning(milli int64) <-chan started {
	done := make(chan started, 1)
	go func() {
		p, err := f.start(milli, "default", nil)
		done <- started{p, err}
	}()
	return done
}

// loseNRI takes the socket away while the daemon does not answer a request that the runtime makes it: the runtime drops a plugin that
// is late. The function that it returns puts the socket back.
func (f *faults) loseNRI(request func()) (back func()) {
	f.Helper()
	move := func(from, to string) {
		f.Helper()
		if err := os.Rename(from, to); err != nil {
			f.Fatal(err)
		}
	}
	move(nriSocket, nriSocket+".away")
	f.signal(f.pid, syscall.SIGSTOP)
	request()
	f.signal(f.pid, syscall.SIGCONT)
	f.source("nri", "lost")
	return func() {
		f.Helper()
		move(nriSocket+".away", nriSocket)
		f.source("nri", "ok")
	}
}

// guaranteedPod makes a pod without a container.
func (f *faults) guaranteedPod(rt *realRuntime, name string, cpus uint64) (id string, asks cri.Resources) {
	f.Helper()
	asks = cri.Resources{Shares: cpus * 1024, Quota: int64(cpus) * 100_000, Period: 100_000}
	id, err := rt.RunPod(testnode.PodSpec{Name: name, Namespace: "default", UID: "00000000-0000-4000-8000-00000000" + name, QoS: "guaranteed", Resources: asks})
	if err != nil {
		f.Fatal(err)
	}
	return id, asks
}

// begins starts a container and waits until it has exclusive CPUs.
func (f *faults) begins(rt *realRuntime, id string, count int) {
	f.Helper()
	if err := rt.StartContainer(id); err != nil {
		f.Fatalf("start container: %v\n%s", err, f.evidence())
	}
	f.eventually("exclusive CPUs", func() error {
		if cpus, there := rt.CPUs(id); !there || cpus.Len() != count || !cpus.IsSubsetOf(guaranteed()) {
			return fmt.Errorf("it runs on %q; want %d of %s", cpus, count, guaranteed())
		}
		return nil
	})
	f.invariants()
}

// ends removes a pod of rt.
func (f *faults) ends(rt *realRuntime, id string) {
	f.Helper()
	if err := errors.Join(rt.StopPod(id), rt.RemovePod(id)); err != nil {
		f.Fatal(err)
	}
}

// nriStops checks a runtime that drops the daemon's NRI connection in the middle of a creation, and cannot be reached
// for a while.
func (f *faults) nriStops() {
	f.Helper()
	rt := f.runtime()
	id, asks := f.guaranteedPod(rt, "fa01", 2)
	var container string
	back := f.loseNRI(func() {
		var err error
		if container, err = rt.CreateContainer(id, testnode.ContainerSpec{Name: "app", Resources: asks}); err != nil {
			f.Fatalf("create container: %v\n%s", err, f.evidence())
		}
	})
	f.begins(rt, container, 2)
	f.ends(rt, id)
	f.comes()
	f.stand("without NRI")
	back()
	f.comes()
	f.over("the loss of NRI")
}

// runtimeDies kills the runtime in the middle of a creation, while the daemon prepares its NRI reply. The reply gets lost, and the CPUs
// are free for the next try.
func (f *faults) runtimeDies() {
	f.Helper()
	rt := f.runtime()
	id, asks := f.guaranteedPod(rt, "fa02", 2)
	f.signal(f.pid, syscall.SIGSTOP)
	created := make(chan error, 1)
	go func() {
		_, err := rt.CreateContainer(id, testnode.ContainerSpec{Name: "app", Resources: asks})
		created <- err
	}()
	f.eventually("question to the daemon", f.isAsked)
	f.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "containerd")
	f.run("systemctl", "stop", "containerd") // or systemd would start it again
	f.signal(f.pid, syscall.SIGCONT)
	if err := <-created; err == nil {
		f.Error("a killed runtime created a container; want an error")
	}
	f.source("nri", "lost")
	f.source("cri_events", "lost")
	f.repaired()
	f.stand("without a runtime")
	f.run("systemctl", "start", "containerd")
	f.source("nri", "ok")
	var container string
	f.eventually("second try", func() (err error) {
		container, err = rt.CreateContainer(id, testnode.ContainerSpec{Name: "app", Attempt: 1, Resources: asks})
		return err
	})
	f.begins(rt, container, 2)
	f.ends(rt, id)
	f.over("the kill of the runtime")
}

// isAsked reports whether an NRI message waits for the daemon to read it.
func (f *faults) isAsked() error {
	sockets := f.run("ss", "-x", "-H") // fields: kind, state, received, sent, then address and inode of both sides
	var daemons []string
	for line := range strings.Lines(sockets) {
		if s := strings.Fields(line); len(s) >= 8 && strings.HasSuffix(s[4], "nri.sock") {
			daemons = append(daemons, s[7])
		}
	}
	for line := range strings.Lines(sockets) {
		if s := strings.Fields(line); len(s) >= 8 && slices.Contains(daemons, s[5]) && s[2] != "0" {
			return nil
		}
	}
	return fmt.Errorf("nothing waits at inodes %v of\n%s", daemons, sockets)
}

// runtimeHangs checks that the daemon notices a hanging runtime by its listing. A silent event stream does not end.
func (f *faults) runtimeHangs() {
	f.Helper()
	read := len(f.records("configuration in force"))
	configure := func(config string) {
		f.Helper()
		f.write(configFile, config)
		read++
		f.eventually("configuration", func() error {
			if got := len(f.records("configuration in force")); got < read {
				return fmt.Errorf("%d records", got)
			}
			return nil
		})
	}
	configure(strings.Replace(hourly, "1h", "1s", 1))
	runtime := strings.TrimSpace(f.run("systemctl", "show", "-P", "MainPID", "containerd"))
	f.signal(runtime, syscall.SIGSTOP)
	exclusive, shared := f.beginning(1000), f.beginning(500)
	f.source("cri_events", "lost")
	f.repaired()
	f.stand("with a runtime that hangs")
	f.signal(runtime, syscall.SIGCONT)
	one, two := <-exclusive, <-shared
	if err := errors.Join(one.err, two.err); err != nil {
		f.Fatalf("%v\n%s", err, f.evidence())
	}
	f.settles(one.pod, two.pod)
	configure(hourly)
	f.over("a runtime that hangs")
}
