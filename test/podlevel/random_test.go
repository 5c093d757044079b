package podlevel_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// TestRandomPods checks that webhook and node agree about random Guaranteed pods with
// spec.resources, in random order of their containers.
func TestRandomPods(t *testing.T) {
	for seed := range uint64(1500) {
		text := randomRow(rand.New(rand.NewPCG(seed, 33)))
		r, err := parseRow(txtar.File{Name: fmt.Sprint(seed), Data: []byte(text + "pod: none\ncontainer: none\n")})
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []admission.PodLevel{admission.PodLevelPod, admission.PodLevelContainer} {
			s := admission.Settings{SharedCPUs: true, GuaranteedCPUs: true, PodLevel: mode}
			mutated, warnings, err := s.Mutate(&r.pod, admission.Origin{})
			if err != nil {
				t.Fatal(err)
			}
			all, exclusive := counted(s, mutated)
			n := newNode(t, &r, mode)
			n.run(t, admission.AskedBy(mutated, r.defaults))
			if len(warnings) > 0 {
				if n.held() == 0 || len(n.plan.Problems) == 0 {
					t.Errorf("seed %d, %s: warnings %v, and no container is refused:\n%s", seed, mode, warnings, text)
				}
				continue
			}
			// The node holds no fraction of a CPU.
			if held := int64(n.held()) * 1000; held >= exclusive+1000 || held <= exclusive-1000 || len(n.plan.Problems) > 0 {
				t.Errorf("seed %d, %s: the node holds %d thousandths, and the webhook counts %d (%s); problems %v:\n%s",
					seed, mode, held, exclusive, strings.Join(all, ", "), n.plan.Problems, text)
			}
			if left := n.unaccounted(s.Names, record(mutated, r.defaults)); len(left) > 0 {
				t.Errorf("seed %d, %s: %v (%s):\n%s", seed, mode, left, strings.Join(all, ", "), text)
			}
		}
	}
}

// randomRow returns a pod whose containers request at most its total together. The node takes
// requests of 1m and 2m for none: they have the shares of no request.
func randomRow(r *rand.Rand) string {
	total := 1000 + r.IntN(6)*1000
	if r.IntN(6) == 0 {
		total += 500
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pod %dm 1Gi | %[1]dm 1Gi\n", total)
	left := total
	for i := range 1 + r.IntN(4) {
		kind := "app"
		if i > 0 && r.IntN(5) == 0 {
			kind = "sidecar"
		}
		fmt.Fprintf(&b, "%s c%d", kind, i)
		switch request := []int{0, 1000, 2000, 500, total, 3}[r.IntN(6)]; {
		case request == 0 || request > left:
		case r.IntN(4) == 0:
			left -= request
			fmt.Fprintf(&b, " %dm", request)
		case r.IntN(4) == 0:
			left -= request
			fmt.Fprintf(&b, " %dm | %dm", request, min(2*request, total))
		default:
			left -= request
			fmt.Fprintf(&b, " %dm | %[1]dm", request)
		}
		b.WriteString("\n")
	}
	return b.String()
}
