package matrix

// Guarantee is a guarantee of README.md, with the tests in a guest that check it.
type Guarantee struct {
	Text  string
	Tests []string // package below test/vm/guest, and name
}

// Guarantees returns the guarantees in the order of README.md. TestGuarantees runs all their tests
// on one machine.
func Guarantees() []Guarantee {
	return []Guarantee{
		{"No other container and no configured unit runs on the CPUs of an exclusive container.", []string{"isolation/TestNoForeignTask"}},
		{"With NRI, a container has its CPUs before its first instruction.", []string{"firstcpus/TestFirstInstruction"}},
		{"A restart of the daemon, the runtime, the kubelet or systemd moves no exclusive container.", []string{"daemon/TestPlacement", "daemon/TestUnit"}},
		{"The daemon repairs external writes to cpusets and weights, and reports them.", []string{"daemon/TestRuncUpdate", "daemon/TestInside"}},
		{"Invalid input affects only its own pod or file, and is reported with a remedy.", []string{"daemon/TestGarbage", "daemon/TestReload"}},
	}
}
