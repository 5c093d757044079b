package hosttuning_test

import (
	"errors"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestMissingDirectory checks that a directory that cannot be opened is an error at its
// use.
func TestMissingDirectory(t *testing.T) {
	missing := errors.New("receive queues of the host: not there")
	queues := tune.ReceiveQueues(hosttuning.Missing(missing), tune.Machine{Possible: cpuset.Range(0, 3)})
	if _, err := queues.Read(t.Context()); !errors.Is(err, missing) {
		t.Errorf("reading: %v", err)
	}
	if err := queues.Write(t.Context(), tune.Knob{Kind: tune.RPS, Name: "eth0/rx-0"}, "0"); !errors.Is(err, missing) {
		t.Errorf("writing: %v", err)
	}
}
