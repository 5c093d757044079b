package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
)

// BenchmarkMutate mutates decoded pods of three containers. The aim is 20,000 a
// second on one core.
func BenchmarkMutate(b *testing.B) {
	s := admission.Settings{Types: map[string]bool{"management": true}, SharedCPUs: true, GuaranteedCPUs: true}
	from := admission.Origin{Namespace: map[string]string{s.Names.AllowedKey(): "management"}}
	const containers = `
init prepare cpu=20m memory=16Mi
app main cpu=400m memory=1Gi | cpu=2 memory=2Gi
app proxy cpu=100m memory=64Mi | memory=128Mi
`
	for name, text := range map[string]string{
		"management": `@target.workload.openshift.io/management {"effect":"PreferredDuringScheduling"}` + containers,
		"shared":     containers,
		"guaranteed": "app main cpu=4 memory=1Gi | cpu=4 memory=1Gi\napp proxy cpu=1500m memory=1Gi | cpu=1500m memory=1Gi\n",
		"again": `@target.workload.openshift.io/management {"effect":"PreferredDuringScheduling"}
@resources.workload.openshift.io/main {"cpushares":409,"cpulimit":500}
app main management.workload.openshift.io/cores=400 memory=1Gi | management.workload.openshift.io/cores=400
`,
	} {
		b.Run(name, func(b *testing.B) {
			pod := &corev1.Pod{}
			if err := parsePod(pod, text); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			before := cputime.Of(b)
			for b.Loop() {
				if _, _, err := s.Mutate(pod, from); err != nil {
					b.Fatal(err)
				}
			}
			cputime.Report(b, before)
		})
	}
}
