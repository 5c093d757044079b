// Command suite runs Kubernetes' conformance tests of nodes against the cluster of a kubeconfig:
//
//	suite -kubeconfig FILE -ginkgo.focus REGEXP
//
// Its flags are those of Kubernetes' own e2e.test, of whose cases it has the ones that concern nodes: the rest would take minutes to build.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/common/node"
	_ "k8s.io/kubernetes/test/e2e/common/storage"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init" // shows the events of a namespace in which a case failed
)

// A suite is what Ginkgo reports a failure to.
type suite struct{ failed bool }

func (s *suite) Fail() { s.failed = true }

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "suite: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	common.CurrentSuite = common.E2E
	gomega.RegisterFailHandler(framework.Fail)
	suiteConfig, reporterConfig := framework.CreateGinkgoConfig()
	var s suite
	if !ginkgo.RunSpecs(&s, "conformance of nodes", suiteConfig, reporterConfig) || s.failed {
		os.Exit(1)
	}
}
