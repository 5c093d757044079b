//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// carved is a configuration in which owners get their CPUs out of the shared pool.
var carved = strings.Replace(strings.Replace(pools, "cpus: 2-3", "cpus: 2-7", 1), "cpus: 4-7", "from: shared\n  floor: 2", 1)

// How many witnesses TestFirstInstruction starts one after another, and at once.
var (
	oneByOne = flag.Int("witnesses", 30, "containers that TestFirstInstruction starts one after another")
	atOnce   = flag.Int("witnesses-at-once", 10, "containers that it starts at once")
)

// witnessed is what a container's process has found when it began.
type witnessed struct {
	cpus      string // Cpus_allowed_list
	beganWith string // how many CPUs it was allowed when it was executed
	on        string
	env       map[string]string
}

// testimony waits for what the witness in a container says.
func (r *runtimeNode) testimony(p pod) witnessed {
	r.Helper()
	var w witnessed
	r.eventually("testimony of "+p.name, func() (err error) {
		w, err = r.heard(p)
		if err == nil && w.env["CPUPOOL_CPUS"] == "" { // the environment comes last
			err = fmt.Errorf("not complete: %+v", w)
		}
		return err
	})
	return w
}

// heard is what the witness in a container has said so far.
func (r *runtimeNode) heard(p pod) (witnessed, error) {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return witnessed{}, err
	}
	w := witnessed{env: make(map[string]string)}
	for line := range strings.Lines(string(data)) {
		// CRI's log format: time, stream, tag, text.
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(fields) < 4 {
			continue
		}
		key, value, _ := strings.Cut(fields[3], " ")
		switch key {
		case "cpus":
			w.cpus = value
		case "began-with":
			w.beganWith = value
		case "on":
			w.on = value
		case "env":
			name, v, _ := strings.Cut(value, "=")
			w.env[name] = v
		}
	}
	return w, nil
}

// outside says what is wrong with a testimony, empty if nothing is.
func (w witnessed) outside(pool cpuset.Set, count int) string {
	cpus, err := cpuset.Parse(w.cpus)
	on, err2 := cpuset.Parse(w.on)
	switch {
	case err != nil || err2 != nil:
		return fmt.Sprintf("%+v makes no sense", w)
	case cpus.Len() != count || !cpus.IsSubsetOf(pool):
		return fmt.Sprintf("began on CPUs %s; want %d of %s", cpus, count, pool)
	case w.beganWith != fmt.Sprint(count):
		return fmt.Sprintf("was executed with %s CPUs; want %d", w.beganWith, count)
	case !on.IsSubsetOf(cpus):
		return fmt.Sprintf("was on CPU %s; allowed were %s", on, cpus)
	case w.env["CPUPOOL_CPUS"] != w.cpus:
		return fmt.Sprintf("CPUPOOL_CPUS=%q; allowed were %s", w.env["CPUPOOL_CPUS"], cpus)
	}
	return ""
}

// TestFirstInstruction starts witnesses with NRI: none of them ever runs outside its pool, with a fixed list and with CPUs taken out of
// the shared pool.
func TestFirstInstruction(t *testing.T) {
	for name, config := range map[string]string{"fixed": pools, "from-shared": carved} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			r := n.withoutKubelet()
			n.startDaemon(config)
			n.nriConnected()
			shared, guaranteed, all := cpuset.Range(2, 3), cpuset.Range(4, 7), 2
			if name == "from-shared" {
				shared, guaranteed, all = cpuset.Range(2, 7), cpuset.Range(2, 7), 6
			}
			wrong, witnesses := 0, 0
			judge := func(p pod, w witnessed, pool cpuset.Set, count int) {
				witnesses++
				if problem := w.outside(pool, count); problem != "" {
					wrong++
					t.Errorf("%s: %s", p.name, problem)
				}
			}
			for i := range *oneByOne {
				milli, pool, count := int64(500), shared, all
				if i%2 == 1 {
					milli, pool, count = 2000, guaranteed, 2
				}
				p, err := r.witness(milli)
				if err != nil {
					t.Fatalf("%v\n%s", err, n.evidence())
				}
				judge(p, r.testimony(p), pool, count)
				r.removePod(p)
			}
			pods, errs := make([]pod, *atOnce), make([]error, *atOnce)
			var group sync.WaitGroup
			for i := range *atOnce {
				milli := int64(500)
				if i%5 == 1 {
					milli = 1000
				}
				group.Go(func() { pods[i], errs[i] = r.witness(milli) })
			}
			group.Wait()
			for i, p := range pods {
				if errs[i] != nil {
					t.Errorf("%v\n%s", errs[i], n.evidence())
					continue
				}
				w := r.testimony(p)
				switch cpus, _ := cpuset.Parse(w.cpus); {
				case i%5 == 1:
					judge(p, w, guaranteed, 1)
				case name == "from-shared":
					// Those that began before an owner did may have had its CPUs: what counts is that they began in the pool.
					judge(p, w, shared, cpus.Len())
				default:
					judge(p, w, shared, all)
				}
			}
			n.quiet()
			n.invariants()
			t.Logf("%d witnesses, %d of them outside their pool", witnesses, wrong)
		})
	}
}

// nriConnected waits until the daemon is asked before containers are made.
func (n *node) nriConnected() {
	n.Helper()
	n.eventually("NRI", func() error {
		if len(n.records("NRI is connected: containers are placed before they exist")) == 0 {
			return errors.New("not connected")
		}
		return nil
	})
}
