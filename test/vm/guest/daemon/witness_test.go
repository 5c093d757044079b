//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"os"
	"strings"
)

// How many witnesses TestStrangers starts. Those with NRI are in guest/witness, which runs on every runtime.
var (
	oneByOne = flag.Int("witnesses", 30, "containers that TestStrangers starts one after another")
	atOnce   = flag.Int("witnesses-at-once", 10, "containers that it starts at once")
)

// witnessed is what a container's process has found when it began.
type witnessed struct {
	cpus      string // Cpus_allowed_list
	beganWith string // how many CPUs it was allowed when it was executed
	on        string
}

// heard is what the witness in a container has said so far.
func (r *runtimeNode) heard(p pod) (witnessed, error) {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return witnessed{}, err
	}
	var w witnessed
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
		}
	}
	return w, nil
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
