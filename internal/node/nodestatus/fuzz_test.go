package nodestatus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// FuzzReadRecord checks that amounts stay within their limits for every content of the file.
func FuzzReadRecord(f *testing.F) {
	for _, data := range []string{
		`{"data":"{\"entries\":{\"u\":{\"ContainerResources\":{\"c\":{\"requests\":{\"cpu\":\"2\",\"openshift.io/guaranteed-cpus\":\"2k\"}}}}}}","checksum":1}`,
		`{"data":"{\"allocationEntries\":{\"u\":{\"c\":{\"requests\":{\"cpu\":\"1e30\"}}}}}"}`,
		`{"data":"{\"entries\":{\"u\":{\"PodLevelResources\":{\"requests\":{\"cpu\":\"-1\"}}}}}"}`,
		`{"data":"null"}`, "null", "",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), nodestatus.RecordFile)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		record, err := nodestatus.ReadRecord(file)
		if (record == nil) != (err != nil) {
			t.Fatalf("record %v, error %v", record, err)
		}
		const most = 1 << 50
		for uid, pod := range record {
			for name, r := range pod.Containers {
				amounts := []int64{pod.Milli, r.Milli}
				for _, a := range r.Extended {
					amounts = append(amounts, a)
				}
				for _, a := range amounts {
					if a < 0 || a > most {
						t.Errorf("pod %q, container %q: %d", uid, name, a)
					}
				}
			}
		}
	})
}

// FuzzKubeconfig checks that every invalid kubeconfig causes an error with the file name.
func FuzzKubeconfig(f *testing.F) {
	const server, token = `server: "https://api:6443"`, "token: x"
	for _, s := range []string{kubeconfig(server, token), kubeconfig(server, ""), kubeconfig(`server: "http://api"`, token), "clusters: 1", "- a", "&a [*a]", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := nodestatus.Kubeconfig(file)
		if (a == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("%v, %v", a, err)
		}
	})
}
