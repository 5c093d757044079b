package cgroup

import (
	"strings"
	"testing"
)

// FuzzParsePartition checks that each accepted text is a text that the kernel prints.
// Any other text is an error, but the rest of the cgroup stays readable.
func FuzzParsePartition(f *testing.F) {
	for _, seed := range []string{
		"member\n", "root\n", "isolated\n", "root invalid\n", "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
		"", "member invalid\n", "root invalid ()\n", "root (x)\n", "domain\n", "root\nroot\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		state, err := parsePartition([]byte(text))
		if err == nil && state.String() != strings.TrimSuffix(text, "\n") {
			t.Errorf("%q is read as %q; want the same text", text, state)
		}
		if err == nil && state.Valid() && state.Is(MemberPartition) {
			t.Errorf("%q is a partition and a member; want one", text)
		}
		tolerant, none := parseAnyPartition([]byte(text))
		if none != nil || err == nil && tolerant != state || err != nil && (tolerant.Valid() || tolerant.Is(MemberPartition) || tolerant.Why == "") {
			t.Errorf("%q is read as %+v, %v; alone it is %+v, %v", text, tolerant, none, state, err)
		}
	})
}
