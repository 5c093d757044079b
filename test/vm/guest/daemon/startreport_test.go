//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"os"
	"strings"
)

// Numbers of containers that TestUnidentified starts. Another suite tests containers with NRI, on every
// runtime.
var (
	oneByOne = flag.Int("starts", 30, "containers that TestUnidentified starts one after another")
	atOnce   = flag.Int("starts-at-once", 10, "containers that it starts at once")
)

// startReport lists the values that a container's process found at its start.
type startReport struct {
	cpus      string // Cpus_allowed_list
	beganWith string // how many CPUs it was allowed when it was executed
	on        string
}

// reported returns the values that the process in a container has reported so far.
func (r *runtimeNode) reported(p pod) (startReport, error) {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return startReport{}, err
	}
	var w startReport
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

// nriConnected waits until the runtime sends creations to the daemon.
func (n *node) nriConnected() {
	n.Helper()
	n.eventually("NRI", func() error {
		if len(n.records("NRI is connected: containers are placed before they exist")) == 0 {
			return errors.New("not connected")
		}
		return nil
	})
}
