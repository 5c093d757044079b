//go:build guest

package alerts_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/test/prometheus"
)

const (
	server        = prometheus.Server("127.0.0.1:9090")
	prometheusDir = "/opt/prometheus"
	targetsFile   = prometheusDir + "/targets.json"
	daemonTarget  = `[{"targets": ["127.0.0.1:9466"]}]`
	noTarget      = `[]`
)

// A scrape may take a second of an emulated machine: the interval is not as short as the rules' own.
const prometheusConfig = `global:
  scrape_interval: 3s
  scrape_timeout: 3s
  evaluation_interval: 1500ms
rule_files: [/opt/prometheus/rules.yaml]
scrape_configs:
- job_name: cpupoold
  file_sd_configs:
  - {files: [/opt/prometheus/targets.json], refresh_interval: 5s}
`

// startPrometheus starts it as a unit, and waits until it has read its rules.
func (n *node) startPrometheus() {
	n.Helper()
	n.Write(prometheusDir+"/prometheus.yml", prometheusConfig)
	n.Write(targetsFile, daemonTarget)
	n.Run("systemd-run", "--unit=prometheus-test", prometheusDir+"/prometheus", "--config.file="+prometheusDir+"/prometheus.yml",
		"--storage.tsdb.path="+prometheusDir+"/data", "--web.listen-address="+string(server), "--log.level=warn")
	n.Cleanup(func() {
		if n.Failed() {
			log, _ := n.Try("journalctl", "--no-pager", "-o", "cat", "-n", "60", "-u", "prometheus-test")
			n.Logf("log of Prometheus:\n%s", log)
		}
		_, _ = n.Try("systemctl", "stop", "prometheus-test")
	})
	n.Eventually("Prometheus scrapes the daemon", func() error {
		up, err := server.Query(`up{job="cpupoold"} == 1`)
		if err == nil && len(up) != 1 {
			err = fmt.Errorf("%d targets are up", len(up))
		}
		return err
	})
}

// fires waits until alerts fire, and checks their texts.
func (n *node) fires(names ...string) {
	n.Helper()
	n.firesWhile(func() {}, names...)
}

// firesWhile does so while something goes on: it is done before each look.
func (n *node) firesWhile(goOn func(), names ...string) {
	n.Helper()
	began := time.Now()
	left := make(map[string]bool)
	for _, name := range names {
		left[name], n.caused[name] = true, true
	}
	n.Every(500*time.Millisecond, strings.Join(names, ", ")+" to fire", func() error {
		goOn()
		all, err := server.Those(names)
		for name := range all {
			if left[name] {
				delete(left, name)
				n.Logf("%s fires after %v", name, time.Since(began).Round(100*time.Millisecond))
			}
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v do not fire yet", left)
		}
		return err
	})
	all, err := server.Firing()
	if err != nil {
		n.Fatal(err)
	}
	for _, name := range names {
		if why := all[name].Speechless(); why != "" {
			n.Errorf("%s: %s", name, why)
		}
	}
}

// ends waits until alerts have stopped firing.
func (n *node) ends(names ...string) {
	n.Helper()
	began := time.Now()
	n.Every(500*time.Millisecond, "end of "+strings.Join(names, ", "), func() error {
		all, err := server.Those(names)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%v fire", all)
		}
		return err
	})
	n.Logf("%s ended after %v", strings.Join(names, ", "), time.Since(began).Round(100*time.Millisecond))
}

// quiet waits until no alert fires.
func (n *node) quiet(when string) {
	n.Helper()
	n.Every(time.Second, "no alert "+when, func() error {
		all, err := server.Firing()
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
}

// values logs the value of a metric.
func (n *node) values(expr string) {
	n.Helper()
	all, err := server.Query(expr)
	n.Logf("%s: %v %v", expr, all, err)
}
