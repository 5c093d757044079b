package cpuset_test

import (
	"errors"
	"strings"
	"testing"

	k8s "k8s.io/utils/cpuset"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in, want string
		err      error
	}{
		{in: "", want: ""},
		{in: "0", want: "0"},
		{in: "3,1-2,2-4", want: "1-4"},
		{in: "007", want: "7"},
		{in: "+5-+6", want: "5-6"},
		{in: "8191", want: "8191"},
		{in: "8192", err: cpuset.ErrRange},
		{in: "0-4000000000", err: cpuset.ErrRange},
		{in: "99999999999999999999999", err: cpuset.ErrRange},
		{in: "3-1", err: cpuset.ErrSyntax},
		{in: "0,", err: cpuset.ErrSyntax},
		{in: ",", err: cpuset.ErrSyntax},
		{in: " 0", err: cpuset.ErrSyntax},
		{in: "0\n", err: cpuset.ErrSyntax},
		{in: "-1", err: cpuset.ErrSyntax},
		{in: "1--2", err: cpuset.ErrSyntax},
		{in: "0--0", err: cpuset.ErrSyntax},
		{in: "++1", err: cpuset.ErrSyntax},
		{in: "0x1", err: cpuset.ErrSyntax},
		{in: "1_0", err: cpuset.ErrSyntax},
		{in: "0-7:1/2", err: cpuset.ErrSyntax},
		{in: "all", err: cpuset.ErrSyntax},
	}
	for _, tt := range tests {
		got, err := cpuset.Parse(tt.in)
		if !errors.Is(err, tt.err) || got.String() != tt.want {
			t.Errorf("Parse(%q) = %q, %v; want %q, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// TestParseErrorText shows what a person gets to read: the list, the element in
// it that is wrong, and why.
func TestParseErrorText(t *testing.T) {
	for in, want := range map[string]string{
		"0-3,9-5": `parse CPU list "0-3,9-5": element "9-5": range is reversed: not a CPU list`,
		"0,x":     `parse CPU list "0,x": element "x": not a CPU list`,
		"9000":    `parse CPU list "9000": element "9000": CPU number out of range (0-8191)`,
	} {
		if _, err := cpuset.Parse(in); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v; want %s", in, err, want)
		}
	}
	if _, err := cpuset.Parse(strings.Repeat("x", 1<<20)); err == nil || len(err.Error()) > 300 {
		t.Errorf("Parse of a megabyte: error of %d bytes; want a short one", len(err.Error()))
	}
}

func TestParseKernel(t *testing.T) {
	tests := []struct {
		in    string
		nbits int
		want  string
		err   error
	}{
		{in: "0-7:2/4", nbits: 8, want: "0-1,4-5"},
		{in: "all", nbits: 5, want: "0-4"},
		{in: "aLL:1/2", nbits: 5, want: "0,2,4"},
		{in: "3-N", nbits: 8, want: "3-7"},
		{in: " ,\t1,, 3 \r\n", nbits: 8, want: "1,3"},
		{in: "1\n2", nbits: 8, want: "1"},
		{in: "\n1", nbits: 8, want: "1"},
		{in: "0-3:1/2\n5", nbits: 8, want: "0,2,5"},
		{in: "0-3:1/25", nbits: 8, want: "0"},
		{in: "0-3:1/2N", nbits: 8, want: "0,2,7"},
		{in: "1\x00x", nbits: 8, want: "1"},
		{in: "1-3:1/4294967295", nbits: 8, want: "1"},
		{in: "0-3:0/2", nbits: 8, want: ""},
		{in: "8", nbits: 8, err: cpuset.ErrRange},
		{in: "9-8", nbits: 8, err: cpuset.ErrSyntax},
		{in: "4294967294", nbits: 8, err: cpuset.ErrRange},
		{in: "4294967295", nbits: 8, err: cpuset.ErrSyntax},
		{in: "4294967296", nbits: 8, err: cpuset.ErrOverflow},
		{in: "1-99999999999999999999", nbits: 8, err: cpuset.ErrOverflow},
		{in: "0-3:2/1", nbits: 8, err: cpuset.ErrSyntax},
		{in: "0-3:0/0", nbits: 8, err: cpuset.ErrSyntax},
		{in: "n", nbits: 8, err: cpuset.ErrSyntax},
		{in: "+1", nbits: 8, err: cpuset.ErrSyntax},
		{in: "0", nbits: 0, err: cpuset.ErrRange},
		{in: "0", nbits: cpuset.MaxCPUs + 1, err: cpuset.ErrRange},
		{in: "8191", nbits: cpuset.MaxCPUs, want: "8191"},
	}
	for _, tt := range tests {
		got, err := cpuset.ParseKernel(tt.in, tt.nbits)
		if !errors.Is(err, tt.err) || got.String() != tt.want {
			t.Errorf("ParseKernel(%q, %d) = %q, %v; want %q, %v", tt.in, tt.nbits, got, err, tt.want, tt.err)
		}
	}
}

func TestParseMask(t *testing.T) {
	tests := []struct {
		in    string
		nbits int
		want  string
		err   error
	}{
		{in: "", nbits: 8, want: ""},
		{in: "ff", nbits: 8, want: "0-7"},
		{in: "F", nbits: 8, want: "0-3"},
		{in: "1,00000000", nbits: 33, want: "32"},
		{in: "1,0\n,ff", nbits: 64, want: "32"},
		{in: " 3 ,, 1 ", nbits: 64, want: "0,32-33"},
		{in: "00000001\x00zz", nbits: 8, want: "0"},
		{in: "100", nbits: 8, err: cpuset.ErrOverflow},
		{in: "0,0", nbits: 32, err: cpuset.ErrOverflow},
		{in: "000000001", nbits: 64, err: cpuset.ErrOverflow},
		{in: "x00000001", nbits: 64, err: cpuset.ErrSyntax},
		{in: "0x1", nbits: 64, err: cpuset.ErrSyntax},
		{in: "-1", nbits: 64, err: cpuset.ErrSyntax},
		{in: "1", nbits: 0, err: cpuset.ErrRange},
		{in: "1", nbits: cpuset.MaxCPUs + 1, err: cpuset.ErrRange},
	}
	for _, tt := range tests {
		got, err := cpuset.ParseMask(tt.in, tt.nbits)
		if !errors.Is(err, tt.err) || got.String() != tt.want {
			t.Errorf("ParseMask(%q, %d) = %q, %v; want %q, %v", tt.in, tt.nbits, got, err, tt.want, tt.err)
		}
	}
}

func TestMask(t *testing.T) {
	tests := []struct {
		set   string
		nbits int
		want  string
	}{
		{set: "", nbits: 0, want: ""},
		{set: "", nbits: 1, want: "0"},
		{set: "0-3", nbits: 8, want: "0f"},
		{set: "0-7", nbits: 4, want: "f"},
		{set: "0,35", nbits: 36, want: "8,00000001"},
		{set: "0-63", nbits: 64, want: "ffffffff,ffffffff"},
		{set: "64", nbits: 96, want: "00000001,00000000,00000000"},
	}
	for _, tt := range tests {
		if got := parse(t, tt.set).Mask(tt.nbits); got != tt.want {
			t.Errorf("Mask(%q, %d) = %q; want %q", tt.set, tt.nbits, got, tt.want)
		}
	}
}

// FuzzParse holds Parse to k8s.io/utils/cpuset: the same texts, the same sets and
// the same way to print them, but for CPU numbers beyond MaxCPUs and for minus
// zero, which the oracle takes for the end of a range.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8", "3,1-2,2-4", "+5", "007", "3-1", "0,", " 0", "0\n", "1--2", "8191", "8192", "0-7:1/2", "０"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := cpuset.Parse(in)
		if errors.Is(err, cpuset.ErrRange) {
			return // the oracle would allocate an entry for each of them
		}
		want, wantErr := k8s.Parse(in)
		if strings.Contains(in, "--") {
			wantErr = errors.New(`"0--0": a negative number`)
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("Parse(%q): %v; k8s.io/utils: %v", in, err, wantErr)
		}
		if err != nil {
			if !errors.Is(err, cpuset.ErrSyntax) {
				t.Errorf("Parse(%q): %v; want ErrSyntax or ErrRange", in, err)
			}
			return
		}
		if got.String() != want.String() || got.Len() != want.Size() {
			t.Errorf("Parse(%q) = %q; k8s.io/utils: %q", in, got, want)
		}
		checkRoundTrips(t, got)
	})
}

func FuzzParseKernel(f *testing.F) {
	for _, seed := range []string{"", "all", "0-7:2/4", "N", "0-N:1/3,1-N:1/3", " ,1,, 3\n", "0-3:1/2\n5", "4294967295", "4294967296", "8-8", "10-1", "al", "1\x00"} {
		f.Add(seed, 64)
	}
	f.Add("0-2047:128/256", 2048)
	f.Fuzz(func(t *testing.T, in string, nbits int) {
		got, err := cpuset.ParseKernel(in, nbits)
		if err != nil {
			if !errors.Is(err, cpuset.ErrSyntax) && !errors.Is(err, cpuset.ErrRange) && !errors.Is(err, cpuset.ErrOverflow) {
				t.Errorf("ParseKernel(%q, %d): %v is none of the documented errors", in, nbits, err)
			}
			if !got.IsEmpty() {
				t.Errorf("ParseKernel(%q, %d) = %q with an error", in, nbits, got)
			}
			return
		}
		if got.Last() >= nbits {
			t.Errorf("ParseKernel(%q, %d) = %q; beyond the width", in, nbits, got)
		}
		// The strict form is a part of the kernel's but for signs and line ends.
		if strict, err := cpuset.Parse(in); err == nil && !strict.Equal(got) {
			t.Errorf("ParseKernel(%q, %d) = %q; Parse: %q", in, nbits, got, strict)
		}
		checkRoundTrips(t, got)
	})
}

func FuzzParseMask(f *testing.F) {
	for _, seed := range []string{"", "0", "ff", "deadbeef,1,0", " , badf00d, ,, ,,1 , ", "1,0\n", "123badf00d", "goodfood"} {
		f.Add(seed, 128)
	}
	f.Add("3,0", 33)
	f.Fuzz(func(t *testing.T, in string, nbits int) {
		got, err := cpuset.ParseMask(in, nbits)
		if err != nil {
			if !errors.Is(err, cpuset.ErrSyntax) && !errors.Is(err, cpuset.ErrRange) && !errors.Is(err, cpuset.ErrOverflow) {
				t.Errorf("ParseMask(%q, %d): %v is none of the documented errors", in, nbits, err)
			}
			return
		}
		if got.Last() >= nbits {
			t.Errorf("ParseMask(%q, %d) = %q; beyond the width", in, nbits, got)
		}
		checkRoundTrips(t, got)
	})
}

// checkRoundTrips checks that each format is read back as it was written.
func checkRoundTrips(t *testing.T, s cpuset.Set) {
	t.Helper()
	for name, read := range map[string]func() (cpuset.Set, error){
		"Parse":       func() (cpuset.Set, error) { return cpuset.Parse(s.String()) },
		"ParseKernel": func() (cpuset.Set, error) { return cpuset.ParseKernel(s.String()+"\n", max(s.Last()+1, 1)) },
		"ParseMask": func() (cpuset.Set, error) {
			nbits := max(s.Last()+1, 1)
			return cpuset.ParseMask(s.Mask(nbits)+"\n", nbits)
		},
		"of All": func() (cpuset.Set, error) {
			var cpus []int
			for cpu := range s.All() {
				cpus = append(cpus, cpu)
			}
			return cpuset.Of(cpus...), nil
		},
	} {
		if got, err := read(); err != nil || !got.Equal(s) {
			t.Errorf("%s of %q = %q, %v", name, s, got, err)
		}
	}
}
