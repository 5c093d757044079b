package kubelet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

var record = flag.Bool("record", false, "write the kubelet's choices to test/vectors/testdata/kubelet")

// recordedShapes are the machines of the record: common ones first, odd ones last.
func recordedShapes() []namedShape {
	return []namedShape{
		{"laptop", shape{sockets: 1, nodes: 1, caches: 1, cores: 6, threads: 2, shared: 1}},
		{"no-smt", shape{sockets: 1, nodes: 1, caches: 2, cores: 8, threads: 1, shared: 1}},
		{"two-sockets", shape{sockets: 2, nodes: 1, caches: 1, cores: 12, threads: 2, shared: 1, alternate: true}},
		{"four-sockets", shape{sockets: 4, nodes: 1, caches: 1, cores: 6, threads: 2, shared: 1}},
		{"two-nodes-each", shape{sockets: 2, nodes: 2, caches: 1, cores: 8, threads: 2, shared: 1, alternate: true}},
		{"four-nodes-each", shape{sockets: 2, nodes: 4, caches: 2, cores: 4, threads: 2, shared: 1}},
		{"caches", shape{sockets: 1, nodes: 1, caches: 8, cores: 4, threads: 2, shared: 1}},
		{"caches-and-nodes", shape{sockets: 1, nodes: 4, caches: 2, cores: 4, threads: 2, shared: 1}},
		{"adjacent-siblings", shape{sockets: 2, nodes: 1, caches: 2, cores: 6, threads: 2, shared: 1, adjacent: true}},
		{"four-threads", shape{sockets: 2, nodes: 1, caches: 1, cores: 8, threads: 4, shared: 1, adjacent: true}},
		{"sockets-in-one-node", shape{sockets: 4, nodes: 1, caches: 1, cores: 5, threads: 2, shared: 2}},
	}
}

// perShape is the number of recorded requests for each machine.
const perShape = 30

// recordedCase is a case of the kind kubelet_choice of test/vectors.
type recordedCase struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	Topology  string            `json:"topology"`
	Options   map[string]string `json:"options,omitempty"`
	Hint      []int             `json:"numa_affinity,omitempty"`
	Available cpuset.Set        `json:"available"`
	Count     int               `json:"count"`
	Expect    recordedChoice    `json:"expect"`
}

type recordedChoice struct {
	CPUSet *cpuset.Set    `json:"cpuset,omitempty"`
	Error  *recordedError `json:"error,omitempty"`
}

type recordedError struct {
	Code string `json:"code"`
}

// TestRecord compares the record, which test/vectors uses, with the current results of
// the kubelet's code. With -record it writes the record.
func TestRecord(t *testing.T) {
	dir := filepath.FromSlash("../../test/vectors/testdata/kubelet")
	for i, machine := range recordedShapes() {
		name, s := machine.name, machine.shape
		r := rand.New(rand.NewPCG(0, uint64(i)))
		var cases []recordedCase
		for len(cases) < perShape {
			q, err := s.anyRequest(r)
			if err != nil {
				t.Fatal(err)
			}
			if q.loops() {
				continue
			}
			c := recordedCase{
				Name: fmt.Sprintf("%s %d", name, len(cases)+1), Kind: "kubelet_choice", Topology: name,
				Options: q.options, Hint: q.hint, Available: q.free, Count: q.count,
			}
			if c.Expect, err = expect(q.ask()); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			cases = append(cases, c)
		}
		data, err := format(name, s.table(), cases)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".json")
		if *record {
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		recorded, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(recorded, data) {
			t.Errorf("%s differs from the kubelet's results; write it with -record", file)
		}
	}
}

// expect is the kubelet's answer, with a code for its words.
func expect(set cpuset.Set, err error) (recordedChoice, error) {
	var smt cpumanager.SMTAlignmentError
	switch {
	case err == nil:
		return recordedChoice{CPUSet: &set}, nil
	case !errors.As(err, &refusal{}):
		return recordedChoice{}, err
	case !errors.As(err, &smt):
		return recordedChoice{Error: &recordedError{"not_enough_cpus"}}, nil
	case smt.CausedByPhysicalCPUs:
		return recordedChoice{Error: &recordedError{"smt_not_enough_physical"}}, nil
	default:
		return recordedChoice{Error: &recordedError{"smt_alignment"}}, nil
	}
}

// format has a line for each CPU's core and for each case, for small differences.
func format(name string, table choice.Table, cases []recordedCase) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\n  \"source\": \"the choices of k8s.io/kubernetes v1.37.0's static CPU manager policy, recorded by bench/kubelet\",\n")
	fmt.Fprintf(&b, "  \"topologies\": {%q: {\"cpus\": [", name)
	for i, row := range table {
		separator := ", "
		if i == 0 || table[i-1][choice.Core] != row[choice.Core] {
			separator = ",\n    "
		}
		if i == 0 {
			separator = "\n    "
		}
		data, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		b.WriteString(separator)
		b.Write(data)
	}
	b.WriteString("\n  ]}},\n  \"cases\": [\n")
	for i, c := range cases {
		data, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		b.WriteString("    ")
		b.Write(data)
		if i < len(cases)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("  ]\n}\n")
	return b.Bytes(), nil
}
