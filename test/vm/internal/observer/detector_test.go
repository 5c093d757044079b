package observer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const allCPUs = cpus(0xff)

// history feeds rounds of one second each to a detector, and returns the intervals by cause.
type history struct {
	detector
	timeline
	at      time.Duration
	runtime bool // threads of other containers run the OCI runtime
	waits   bool // the owner does
}

func newHistory() *history {
	h := &history{detector: detector{containers: make(map[string]*container)}}
	owner := h.get("owner")
	owner.kind, owner.count = Exclusive, 2
	return h
}

// round is one second in which all readings of the owner are equal.
func (h *history) round(views ...view) map[string]time.Duration {
	found := h.find(views, allCPUs, allCPUs)
	again := make(map[string]view)
	for _, v := range views {
		again[v.scope] = v
	}
	h.confirm(found, again)
	for s, i := range found {
		i.executed, i.ownerRuns = !h.runtime, !h.waits
		found[s] = i
	}
	causes := make(map[string]time.Duration)
	for _, i := range h.note(h.at, h.at, found) {
		cause, _ := h.cause(i)
		causes[cause] = i.end - i.begin
	}
	h.at += time.Second
	return causes
}

func on(scope string, set cpus) view {
	return view{scope: scope, effective: set, threads: set, count: 1}
}

// TestCauses checks the cause and the duration of an overlap in seconds 2 and 3. It lasts from
// the last round before it to the first one after it.
func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(h *history, other *container)
		was  cpus // CPUs of the other container before the overlap; 0 if it begins with it
		want string
	}{
		{"not placed", func(h *history, other *container) { other.kind = "shared" }, 0, unexplained},
		{"placed before", func(h *history, other *container) { other.kind = "shared" }, 0x0f, unexplained},
		{"pause", func(h *history, other *container) { other.kind = Pause }, 0, pauseBegins},
		{"pause, placed before", func(h *history, other *container) { other.kind = Pause }, 0x0f, unexplained},
		{"created", func(h *history, other *container) { other.kind, h.runtime = "shared", true }, 0, runtimeInit},
		{"created, placed before", func(h *history, other *container) { other.kind, h.runtime = "shared", true }, 0x0f, runtimeInit},
		{"unknown", func(h *history, other *container) {}, 0, failedCreate},
		{"no daemon", func(h *history, other *container) {
			other.kind = "shared"
			h.absent = append(h.absent, window{0, 2 * time.Second})
		}, 0, withoutDaemon},
		{"no daemon, created", func(h *history, other *container) {
			other.kind, h.runtime = "shared", true
			h.absent = append(h.absent, window{0, never})
		}, 0, withoutDaemon},
		{"no daemon, placed before", func(h *history, other *container) {
			other.kind = "shared"
			h.absent = append(h.absent, window{0, never})
		}, 0x0f, unexplained},
		{"no daemon earlier", func(h *history, other *container) {
			other.kind = "shared"
			h.absent = append(h.absent, window{0, time.Second / 2})
		}, 0, unexplained},
		{"no daemon during the creation", func(h *history, other *container) {
			other.kind, other.asked = "shared", time.Second/4
			h.absent = append(h.absent, window{0, time.Second / 2})
		}, 0, withoutDaemon},
		{"no daemon before the creation", func(h *history, other *container) {
			other.kind, other.asked = "shared", time.Second
			h.absent = append(h.absent, window{0, time.Second / 2})
		}, 0, unexplained},
		{"no daemon after the begin", func(h *history, other *container) {
			other.kind, other.asked = "shared", time.Second
			h.absent = append(h.absent, window{3 * time.Second, never})
		}, 0, withoutDaemon},
		{"written", func(h *history, other *container) { other.kind, other.written = "shared", 2*time.Second }, 0x0f, externalWrite},
		{"written, no daemon", func(h *history, other *container) {
			other.kind, other.written = "shared", 2*time.Second
			h.absent = append(h.absent, window{3 * time.Second, never})
		}, 0x0f, unrepairedWrite},
		{"written, no daemon after the repair", func(h *history, other *container) {
			other.kind, other.written = "shared", 2*time.Second
			h.absent = append(h.absent, window{5 * time.Second, never})
		}, 0x0f, externalWrite},
		{"written, no daemon earlier", func(h *history, other *container) {
			other.kind, other.written = "shared", 2*time.Second
			h.absent = append(h.absent, window{0, time.Second / 2})
		}, 0x0f, externalWrite},
		{"daemon-reload", func(h *history, other *container) {
			other.kind = "shared"
			h.reloads = append(h.reloads, window{0, 2 * time.Second})
		}, 0x0f, externalWrite},
		{"daemon-reload, no daemon", func(h *history, other *container) {
			other.kind = "shared"
			h.reloads, h.absent = append(h.reloads, window{0, 2 * time.Second}), append(h.absent, window{3 * time.Second, never})
		}, 0x0f, unrepairedWrite},
		{"daemon-reload, not placed", func(h *history, other *container) {
			other.kind = "shared"
			h.reloads = append(h.reloads, window{0, 2 * time.Second})
		}, 0, unexplained},
		{"daemon-reload later", func(h *history, other *container) {
			other.kind = "shared"
			h.reloads = append(h.reloads, window{5 * time.Second, never})
		}, 0x0f, unexplained},
		{"daemon-reload earlier", func(h *history, other *container) {
			other.kind = "shared"
			h.reloads = append(h.reloads, window{0, time.Second / 2})
		}, 0x0f, unexplained},
		{"written later", func(h *history, other *container) { other.kind, other.written = "shared", 5*time.Second }, 0x0f, unexplained},
		{"owner not started", func(h *history, other *container) {
			other.kind, h.waits = "shared", true
		}, 0x0f, beforeExec},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory()
			c.set(h, h.get("other"))
			before := []view{on("owner", 0x30)}
			if c.was != 0 {
				before = append(before, on("other", c.was))
			}
			for range 2 {
				if causes := h.round(before...); len(causes) > 0 {
					t.Errorf("causes before = %v; want none", causes)
				}
			}
			for range 2 {
				if causes := h.round(on("owner", 0x30), on("other", allCPUs)); len(causes) > 0 {
					t.Errorf("causes during = %v; want none", causes)
				}
			}
			want := map[string]time.Duration{c.want: 3 * time.Second}
			if d := cmp.Diff(want, h.round(on("owner", 0x30), on("other", 0x0f))); d != "" {
				t.Errorf("cause (-want +got):\n%s", d)
			}
		})
	}
}

// TestLateEnd checks that the end of a daemon counts only in the time that a repair may take.
func TestLateEnd(t *testing.T) {
	for killed, want := range map[time.Duration]string{29 * time.Second: unrepairedWrite, 31 * time.Second: externalWrite} {
		h := newHistory()
		h.get("owner").written, h.absent = 0, append(h.absent, window{killed, never})
		if cause, _ := h.cause(interval{subject: subject{owner: "owner"}, end: 40 * time.Second}); cause != want {
			t.Errorf("killed after %v: cause %q; want %q", killed, cause, want)
		}
	}
}

// TestOwnersOwnCPUs checks which CPUs belong to an owner, and from when to when.
func TestOwnersOwnCPUs(t *testing.T) {
	h := newHistory()
	h.get("other").kind = "shared"
	h.round(on("owner", allCPUs), on("other", allCPUs)) // the owner has no CPUs yet
	h.round(view{scope: "owner", effective: 0x30, threads: allCPUs, count: 1}, on("other", 0x0f))
	if len(h.open) > 0 {
		t.Errorf("open while the kernel moves the owner's threads = %v; want none", h.open)
	}
	h.round(on("owner", 0x30), on("other", 0x0f))
	if len(h.open) > 0 {
		t.Errorf("open = %v; want none", h.open)
	}
	h.round(on("owner", 0x70), on("other", 0x0f))
	if causes := h.round(on("owner", 0x30), on("other", 0x0f)); causes[unexplained] != 2*time.Second {
		t.Errorf("owner outside of its CPUs: %v; want 2s unexplained", causes)
	}
	h.get("owner").ending = true
	h.round(on("owner", 0x30), on("other", allCPUs))
	if len(h.open) > 0 {
		t.Errorf("open after the owner's end = %v; want none", h.open)
	}
}

// TestOwnerWithoutDaemon checks the cause if an owner gets CPUs that another container leaves afterwards.
func TestOwnerWithoutDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		asked, absentTo time.Duration
		alone           int // rounds in which no other container has the CPUs of the owner
		want            string
	}{
		"created without a daemon":      {0, time.Second / 2, 0, withoutDaemon},
		"created with a daemon":         {time.Second, time.Second / 2, 0, unexplained},
		"another container comes later": {0, time.Second / 2, 2, unexplained},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			h.get("owner").asked, h.get("other").kind = c.asked, "shared"
			h.absent = append(h.absent, window{0, c.absentTo})
			h.round(on("owner", allCPUs), on("other", 0x0f))
			for range c.alone {
				h.round(on("owner", 0x30), on("other", 0x0f))
			}
			h.round(on("owner", 0x30), on("other", 0x3c))
			if causes := h.round(on("owner", 0x30), on("other", 0x0c)); causes[c.want] == 0 || len(causes) != 1 {
				t.Errorf("causes = %v; want %s", causes, c.want)
			}
		})
	}
}

// TestConfirm checks that an overlap counts only if the owner has its CPUs and threads at the
// end of the round, too.
func TestConfirm(t *testing.T) {
	for name, again := range map[string]view{"without threads": {scope: "owner", effective: 0x30}, "other CPUs": on("owner", 0xc0)} {
		h := newHistory()
		found := h.find([]view{on("owner", 0x30), on("other", 0x10)}, allCPUs, allCPUs)
		if len(found) != 1 {
			t.Fatalf("found %v; want one overlap", found)
		}
		if h.confirm(found, map[string]view{"owner": again}); len(found) > 0 {
			t.Errorf("%s: confirmed = %v; want none", name, found)
		}
	}
}

// TestThreadsCount checks that an overlap needs a thread: a cgroup can have CPUs that none of
// its threads may use.
func TestThreadsCount(t *testing.T) {
	h := newHistory()
	h.round(on("owner", 0x30), view{scope: "other", effective: allCPUs, threads: 0x01, count: 1})
	if len(h.open) > 0 {
		t.Errorf("open = %v; want none", h.open)
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string]cpus{"": 0, "\n": 0, "0-1,4\n": 0x13, "63": 1 << 63} {
		if got, err := parseCPUs([]byte(list)); err != nil || got != want {
			t.Errorf("parseCPUs(%q) = %x, %v; want %x", list, got, err, want)
		}
	}
	for _, list := range []string{"64", "x", "3-1", "-1", "1,,2"} {
		if got, err := parseCPUs([]byte(list)); err == nil {
			t.Errorf("parseCPUs(%q) = %x; want an error", list, got)
		}
	}
}
