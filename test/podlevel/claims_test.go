package podlevel_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cpuclaim"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// forCPUs knows one claim, which is for CPUs.
type forCPUs struct{}

func (forCPUs) UseOf(string, *corev1.PodResourceClaim, string) cpuclaim.Use { return cpuclaim.CPUs }

func (forCPUs) UseOfResource(string) cpuclaim.Use { return cpuclaim.Other }

// TestRandomClaims checks that webhook and node agree about the exclusive CPUs of random Guaranteed pods, of which
// some containers run on CPUs of a ResourceClaim. The webhook counts at least the use of each pool.
func TestRandomClaims(t *testing.T) {
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 43))
		text := randomRow(random)
		r, err := parseRow(txtar.File{Name: fmt.Sprint(seed), Data: []byte(text + "pod: none\ncontainer: none\n")})
		if err != nil {
			t.Fatal(err)
		}
		claim := pools.Claim{UID: "claim", Namespace: "default", Name: "claim", PodUID: "u", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 4}}}
		name := "claim"
		r.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "e", ResourceClaimName: &name}}
		for _, list := range [][]corev1.Container{r.pod.Spec.InitContainers, r.pod.Spec.Containers} {
			for i := range list {
				if random.IntN(2) == 0 {
					list[i].Resources.Claims = []corev1.ResourceClaim{{Name: "e"}}
					claim.Containers = append(claim.Containers, list[i].Name)
				}
			}
		}
		if len(claim.Containers) == 0 {
			continue
		}
		text += fmt.Sprintln("on the claim:", claim.Containers)
		for _, mode := range []admission.PodLevel{admission.PodLevelPod, admission.PodLevelContainer} {
			s := admission.Settings{SharedCPUs: true, GuaranteedCPUs: true, PodLevel: mode, Claims: forCPUs{}}
			mutated, warnings, err := s.Mutate(&r.pod, admission.Origin{})
			if err != nil {
				t.Fatal(err)
			}
			all, exclusive := counted(s, mutated)
			n := newNode(t, &r, mode)
			n.input.Claims = []pools.Claim{claim}
			n.run(t, admission.AskedBy(mutated, r.defaults))
			if len(warnings) > 0 {
				if len(n.plan.Problems) == 0 {
					t.Errorf("seed %d, %s: warnings %v, and no container is refused:\n%s", seed, mode, warnings, text)
				}
				continue
			}
			held := int64(n.held()-4) * 1000
			if held >= exclusive+1000 || held <= exclusive-1000 || len(n.plan.Problems) > 0 {
				t.Errorf("seed %d, %s: the node holds %d thousandths, and the webhook counts %d (%s); problems %v:\n%s",
					seed, mode, held, exclusive, strings.Join(all, ", "), n.plan.Problems, text)
			}
			if left := n.unaccounted(s.Names, record(mutated, r.defaults)); len(left) > 0 {
				t.Errorf("seed %d, %s: %v (%s):\n%s", seed, mode, left, strings.Join(all, ", "), text)
			}
		}
	}
}
