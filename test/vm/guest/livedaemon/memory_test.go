//go:build guest

package livedaemon_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

const (
	memoryRounds = 3
	// settleTime is the time from the start of the daemon to a sample. With the default resync it contains a release of memory.
	settleTime = 100 * time.Second
)

// TestMemory measures the memory of the daemon with and without the live audit, settleTime after its start, next to one owner:
//
//   - RssAnon-B: the daemon's own memory;
//   - kernel-B: the memory of the kernel in its cgroup (kernel of memory.stat), which has the maps of the program.
func TestMemory(t *testing.T) {
	if *out == "" {
		t.Skip("a measurement: -out=FILE")
	}
	n := &node{guestnode.New(t)}
	n.StartDaemon(config)
	n.AwaitNRI()
	n.Apply(manifest.Pod{Name: "old", Namespace: "default", Containers: []manifest.Container{
		{Name: "app", CPU: "2", Memory: "32Mi", Limited: true, Args: []string{"pause"}}}})
	n.placed("old")
	for range memoryRounds {
		for _, live := range []bool{false, true} {
			n.StopDaemon()
			n.StartDaemon(strings.NewReplacer("live: true", fmt.Sprintf("live: %t", live), "resyncPeriod: 1h\n", "").Replace(config))
			n.AwaitNRI()
			n.Settled()
			<-time.After(settleTime)
			if has := len(n.programs()) > 0; has != live {
				t.Fatalf("audit.live is %t, and the kernel has a tracing program: %t", live, has)
			}
			name := "off"
			if live {
				name = "live"
			}
			pid := strings.TrimSpace(n.Run("systemctl", "show", "-P", "MainPID", "cpupoold"))
			samples.Append(t, *out, "Memory/"+name, 1, 1024*samples.Field(t, "/proc/"+pid+"/status", "RssAnon:"), "RssAnon-B",
				samples.Field(t, filepath.Join("/sys/fs/cgroup/system.slice/cpupoold.service", "memory.stat"), "kernel"), "kernel-B")
		}
	}
}
