package switches_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/switches"
)

// layout returns the layout of Linux 6.12.
func layout(t testing.TB) switches.Layout {
	t.Helper()
	text, err := os.ReadFile("testdata/trixie.format")
	if err != nil {
		t.Fatal(err)
	}
	l, err := switches.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// id is the number of the event in trixie.format.
const id = 310

// page returns a page with these entries.
func page(begin uint64, flags uint64, entries ...[]byte) []byte {
	data := slices.Concat(entries...)
	p := binary.NativeEndian.AppendUint64(nil, begin)
	p = binary.NativeEndian.AppendUint64(p, uint64(len(data))|flags)
	return append(p, data...)
}

func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return b
}

// change is an entry of the event with that number. Its size is 16 words.
func change(number uint16, delta uint32, prev, next switches.Thread) []byte {
	event := make([]byte, 64)
	binary.NativeEndian.PutUint16(event, number)
	copy(event[8:], prev.Name)
	binary.NativeEndian.PutUint32(event[24:], uint32(prev.TID))
	copy(event[40:], next.Name)
	binary.NativeEndian.PutUint32(event[56:], uint32(next.TID))
	return append(words(delta<<5|16), event...)
}

var (
	idle = switches.Thread{Name: "swapper/1"}
	evil = switches.Thread{TID: 70_000, Name: "a ==>\nb_pid=1"}
	long = switches.Thread{TID: 4_000_000, Name: "sixteen-bytes-1"}
)

func TestParsePage(t *testing.T) {
	longer := append(words(7<<5, 4+64), change(id, 0, evil, idle)[4:]...) // type 0: the size is in the next word
	for _, c := range []struct {
		name string
		page []byte
		want []switches.Switch
		err  error
	}{
		{"empty", page(5, 0), nil, nil},
		{"switches", page(1000, 0, change(id, 5, idle, evil), change(id, 7, evil, long)),
			[]switches.Switch{{At: 1005, Prev: idle, Next: evil}, {At: 1012, Prev: evil, Next: long}}, nil},
		{"other event", page(1000, 0, change(id+1, 5, idle, evil), change(id, 7, evil, idle)), []switches.Switch{{At: 1012, Prev: evil, Next: idle}}, nil},
		{"longer", page(1000, 0, longer), []switches.Switch{{At: 1007, Prev: evil, Next: idle}}, nil},
		{"time extended", page(1000, 0, words(3<<5|30, 2), change(id, 1, idle, evil)), []switches.Switch{{At: 1000 + 3 + 2<<27 + 1, Prev: idle, Next: evil}}, nil},
		{"time stamp", page(1000, 0, words(3<<5|31, 2), change(id, 1, idle, evil)), []switches.Switch{{At: 3 + 2<<27 + 1, Prev: idle, Next: evil}}, nil},
		{"discarded", page(1000, 0, words(9<<5|29, 8, 0), change(id, 1, idle, evil)), []switches.Switch{{At: 1010, Prev: idle, Next: evil}}, nil},
		{"end", page(1000, 0, change(id, 1, idle, evil), words(29), change(id, 1, evil, idle)), []switches.Switch{{At: 1001, Prev: idle, Next: evil}}, nil},
		{"lost", page(1000, 1<<31, change(id, 1, idle, evil)), nil, switches.ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := switches.ParsePage(c.page, layout(t))
			if !errors.Is(err, c.err) {
				t.Fatalf("ParsePage = %v; want %v", err, c.err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("switches (-want +got):\n%s", d)
			}
		})
	}
}

func TestParsePageErrors(t *testing.T) {
	for name, text := range map[string][]byte{
		"header":    make([]byte, 15),
		"size":      page(0, 1<<20),
		"event":     page(0, 0, words(16)),
		"extension": page(0, 0, words(30)),
		"zero size": page(0, 0, words(1<<5, 0)),
		"long size": page(0, 0, words(1<<5, 1<<30)),
	} {
		if got, err := switches.ParsePage(text, layout(t)); err == nil {
			t.Errorf("%s: ParsePage = %v; want an error", name, got)
		}
	}
}

func TestParseLayoutErrors(t *testing.T) {
	whole, err := os.ReadFile("testdata/trixie.format")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"no ID":       {"ID: 310", ""},
		"no field":    {"pid_t prev_pid", "pid_t some_pid"},
		"other size":  {"next_comm[16];	offset:40;	size:16", "next_comm[16];	offset:40;	size:32"},
		"no number":   {"offset:24", "offset:x"},
		"far away":    {"offset:24", "offset:99999999"},
		"dynamic":     {"char next_comm[16]", "__data_loc char[] next_comm"},
		"other start": {"offset:8;	size:16", "offset:-8;	size:16"},
	} {
		text := strings.Replace(string(whole), change[0], change[1], 1)
		if text == string(whole) {
			t.Errorf("%s: no change", name)
		}
		if l, err := switches.ParseLayout([]byte(text)); err == nil {
			t.Errorf("%s: ParseLayout = %+v; want an error", name, l)
		}
	}
}

// TestSamples parses pages of real kernels. Each switch on a CPU begins with the thread at the end of the previous one.
func TestSamples(t *testing.T) {
	pages, err := filepath.Glob("testdata/*.page")
	if err != nil || len(pages) != 3 {
		t.Fatalf("samples = %v, %v; want those of three kernels", pages, err)
	}
	for _, name := range pages {
		format, err := os.ReadFile(strings.TrimSuffix(name, ".page") + ".format")
		if err != nil {
			t.Fatal(err)
		}
		l, err := switches.ParseLayout(format)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := switches.ParsePage(text, l)
		if err != nil || len(all) < 10 {
			t.Fatalf("%s: %d switches, %v; want ten at least", name, len(all), err)
		}
		for i := 1; i < len(all); i++ {
			if all[i].Prev.TID != all[i-1].Next.TID || all[i].At <= all[i-1].At || all[i].At > all[i-1].At+time.Minute {
				t.Errorf("%s: %+v after %+v", name, all[i], all[i-1])
			}
		}
	}
}

func TestRuns(t *testing.T) {
	got := switches.Runs([]switches.Switch{{10, idle, evil}, {15, evil, long}, {17, long, idle}, {20, idle, evil}, {21, evil, idle}})
	want := []switches.Run{{evil, 10, 15}, {long, 15, 17}, {evil, 20, 21}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
	if got := switches.Runs(nil); got != nil {
		t.Errorf("runs of no switches = %v", got)
	}
}

func FuzzParsePage(f *testing.F) {
	pages, err := filepath.Glob("testdata/*.page")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add(page(1000, 0, words(3<<5|30, 2), words(3<<5|31, 2), words(9<<5|29, 8, 0), change(id, 1, idle, evil)))
	l := layout(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := switches.ParsePage(text, l)
		if err != nil && all != nil {
			t.Errorf("%d switches and %v", len(all), err)
		}
		if len(all)*64 > len(text) {
			t.Errorf("%d switches in %d bytes", len(all), len(text))
		}
	})
}
