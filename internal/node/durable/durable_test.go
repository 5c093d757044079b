package durable_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/confined"
	"github.com/cpupoold/cpupoold/internal/node/durable"
)

type value struct {
	N int `json:"n"`
}

// TestForm: the form of the file is what older and newer programs read.
func TestForm(t *testing.T) {
	got, err := durable.Encode(12, value{7})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":12,"sha256":"1dd42de9287c1b6a96c617376c0df6b8304485783ed0b4803f1aac0f119471a5","data":{"n":7}}` + "\n"
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDamage: a file with one byte changed, a part of one, and one of another version are
// damaged, and nothing else is.
func TestDamage(t *testing.T) {
	good, err := durable.Encode(2, value{7})
	if err != nil {
		t.Fatal(err)
	}
	var v value
	if err := durable.Decode(good, 1, 2, &v); err != nil || v.N != 7 {
		t.Errorf("read back %+v, %v", v, err)
	}
	for name, b := range map[string][]byte{
		"empty": nil, "half": good[:len(good)/2], "changed": bytes.Replace(good, []byte("7}"), []byte("8}"), 1),
	} {
		if err := durable.Decode(b, 1, 2, &v); !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%s: %v; want damaged", name, err)
		}
	}
	for _, known := range [][2]int{{1, 1}, {3, 4}} {
		if err := durable.Decode(good, known[0], known[1], &v); !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("version 2 where %v are known: %v; want damaged", known, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := durable.Encode(1, value{7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"sha256":"","data":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again value
		if err := durable.Decode(b, 1, 1, &v); err != nil {
			if !errors.Is(err, durable.ErrDamaged) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		b, err := durable.Encode(1, v)
		if err == nil {
			err = durable.Decode(b, 1, 1, &again)
		}
		if err != nil || again != v {
			t.Fatalf("round trip: %+v, %v; want %+v", again, err, v)
		}
	})
}

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "file")
	if err := durable.Write(name, []byte("1234")); err != nil {
		t.Fatal(err)
	}
	if b, err := durable.Read(name, 4); err != nil || string(b) != "1234" {
		t.Errorf("read back %q, %v; want %q", b, err, "1234")
	}
	if _, err := durable.Read(name, 3); err == nil {
		t.Error("a file above the limit was read")
	}
	for what, create := range map[string]func(name string) error{
		"link": func(name string) error { return os.Symlink("/dev/zero", name) },
		"FIFO": func(name string) error { return syscall.Mkfifo(name, 0o600) },
	} {
		other := filepath.Join(t.TempDir(), what)
		if err := create(other); err != nil {
			t.Fatal(err)
		}
		if _, err := durable.Read(other, 4); !errors.Is(err, confined.ErrForeign) {
			t.Errorf("%s: %v; want ErrForeign", what, err)
		}
	}
}

// TestMark: it is of one boot, and leaving or removing it twice is no error.
func TestMark(t *testing.T) {
	m := durable.Mark{Name: filepath.Join(t.TempDir(), "run", "mark"), BootID: "one"}
	there := func(m durable.Mark, want bool) {
		t.Helper()
		if got, err := m.There(); got != want || err != nil {
			t.Errorf("mark of boot %s: %v, %v; want %v", m.BootID, got, err, want)
		}
	}
	there(m, false)
	for range 2 {
		if err := m.Leave(); err != nil {
			t.Fatal(err)
		}
		there(m, true)
	}
	later := m
	later.BootID = "two"
	there(later, false)
	if err := later.Leave(); err != nil {
		t.Fatal(err)
	}
	there(later, true)
	for range 2 {
		if err := m.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	there(later, false)
	if err := os.MkdirAll(m.Name, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := m.There(); got || err == nil {
		t.Errorf("a directory in its place: %v, %v; want an error", got, err)
	}
}
