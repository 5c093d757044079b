package topology_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/pkg/topology"
)

// hotplugFS is a machine whose CPUs are plugged and unplugged: each read of the list of
// online CPUs gives the next content, the last one for ever.
type hotplugFS struct {
	fstest.MapFS
	online []string
	reads  int
}

func (h *hotplugFS) Open(name string) (fs.File, error) {
	if name == "devices/system/cpu/online" {
		content := h.online[min(h.reads, len(h.online)-1)]
		h.reads++
		return fstest.MapFS{name: &fstest.MapFile{Data: []byte(content)}}.Open(name)
	}
	return h.MapFS.Open(name)
}

func TestReadDuringHotplug(t *testing.T) {
	// In this archive CPUs 1, 3 and 7 are offline and have no topology.
	const without, with = "0,2,4-6\n", "0-7\n"
	tests := []struct {
		name   string
		online []string
		want   string
		err    string
	}{
		{name: "still", online: []string{without}, want: "0,2,4-6"},
		{name: "gone while reading", online: []string{with, without}, want: "0,2,4-6"},
		{name: "one more gone", online: []string{without, "0,2,4-5\n"}, want: "0,2,4-5"},
		{name: "never quiet", online: []string{without, with, without, with, without}, err: "online CPUs changed during each of 3 attempts"},
		{name: "really missing", online: []string{with}, err: "CPU 1 is online but has no devices/system/cpu/cpu1/topology/core_cpus_list"},
		{name: "list breaks", online: []string{without, "?"}, err: "read devices/system/cpu/online"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := topology.Read(&hotplugFS{MapFS: machine(t, "offline"), online: tt.online})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("Read: %v; want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkInvariants(t, got)
			if got.Online.String() != tt.want {
				t.Errorf("Online = %s; want %s", got.Online, tt.want)
			}
		})
	}
}

func TestCurrent(t *testing.T) {
	sys := &hotplugFS{MapFS: machine(t, "offline"), online: []string{"0,2,4-6\n"}}
	top, err := topology.Read(sys)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, online string
		want         bool
		err          string
	}{
		{name: "same", online: "0,2,4-6\n", want: true},
		{name: "one gone", online: "0,2,4-5\n"},
		{name: "one more", online: "0,2,4-7\n"},
		{name: "another one", online: "0-1,4-6\n"},
		{name: "broken", online: "?", err: "read devices/system/cpu/online"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sys.online = []string{tt.online}
			got, err := top.Current(sys)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Current = %t, %v; want %t, %q", got, err, tt.want, tt.err)
			}
		})
	}
}
