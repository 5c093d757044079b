//go:build guest

package alerts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	prometheusDir  = "/opt/prometheus"
	prometheusAddr = "127.0.0.1:9090"
	targetsFile    = prometheusDir + "/targets.json"
	daemonTarget   = `[{"targets": ["127.0.0.1:9466"]}]`
	noTarget       = `[]`
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
		"--storage.tsdb.path="+prometheusDir+"/data", "--web.listen-address="+prometheusAddr, "--log.level=warn")
	n.Cleanup(func() {
		if n.Failed() {
			log, _ := n.Try("journalctl", "--no-pager", "-o", "cat", "-n", "60", "-u", "prometheus-test")
			n.Logf("log of Prometheus:\n%s", log)
		}
		_, _ = n.Try("systemctl", "stop", "prometheus-test")
	})
	n.Eventually("Prometheus scrapes the daemon", func() error {
		up, err := n.query(`up{job="cpupoold"} == 1`)
		if err == nil && len(up) != 1 {
			err = fmt.Errorf("%d targets are up", len(up))
		}
		return err
	})
}

// sample is one of a query's.
type sample struct {
	Metric map[string]string
	Value  [2]any // time, and the value in text
}

// query is a question of PromQL.
func (n *node) query(expr string) (all []sample, err error) {
	var answer struct {
		Data struct{ Result []sample }
	}
	err = n.ask("/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}

// alert is one that is pending or fires.
type alert struct {
	State               string
	Labels, Annotations map[string]string
}

// firing are the alerts that fire, by name.
func (n *node) firing() (map[string]alert, error) {
	var answer struct {
		Data struct{ Alerts []alert }
	}
	if err := n.ask("/api/v1/alerts", &answer); err != nil {
		return nil, err
	}
	all := make(map[string]alert)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = a
		}
	}
	return all, nil
}

func (n *node) ask(path string, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAddr+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// fires waits until alerts fire, and looks at what they say to people.
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
		all, err := n.those(names)
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
	all, err := n.firing()
	if err != nil {
		n.Fatal(err)
	}
	for _, name := range names {
		for kind, text := range all[name].Annotations {
			if strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") || strings.TrimSpace(text) == "" {
				n.Errorf("%s: its %s is %q", name, kind, text)
			}
		}
	}
}

// those are the ones of some alerts that fire, as the metric of that name says.
func (n *node) those(names []string) (map[string]bool, error) {
	found, err := n.query(`ALERTS{alertstate="firing",alertname=~"` + strings.Join(names, "|") + `"}`)
	all := make(map[string]bool)
	for _, s := range found {
		all[s.Metric["alertname"]] = true
	}
	return all, err
}

// ends waits until alerts do not fire any more.
func (n *node) ends(names ...string) {
	n.Helper()
	began := time.Now()
	n.Every(500*time.Millisecond, "end of "+strings.Join(names, ", "), func() error {
		all, err := n.those(names)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%v fire", all)
		}
		return err
	})
	n.Logf("%s ended after %v", strings.Join(names, ", "), time.Since(began).Round(100*time.Millisecond))
}

// quiet waits until nobody would be woken.
func (n *node) quiet(when string) {
	n.Helper()
	n.Every(time.Second, "no alert "+when, func() error {
		all, err := n.firing()
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
}

// values logs what a metric is.
func (n *node) values(expr string) {
	n.Helper()
	all, err := n.query(expr)
	n.Logf("%s: %v %v", expr, all, err)
}
