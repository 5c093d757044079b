package prometheus

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

// A Server is a Prometheus that runs, by its address: host and port.
type Server string

// Sample is one of a query's.
type Sample struct {
	Metric map[string]string
	Value  [2]any // time, and the value in text
}

// Query asks a question of PromQL.
func (s Server) Query(expr string) ([]Sample, error) {
	var answer struct {
		Data struct{ Result []Sample }
	}
	err := s.ask("/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}

// Alert is one that fires.
type Alert struct {
	State               string
	Labels, Annotations map[string]string
}

// Firing are the alerts that fire, by name.
func (s Server) Firing() (map[string]Alert, error) {
	var answer struct {
		Data struct{ Alerts []Alert }
	}
	if err := s.ask("/api/v1/alerts", &answer); err != nil {
		return nil, err
	}
	all := make(map[string]Alert)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = a
		}
	}
	return all, nil
}

// Speechless returns the first error in an alert's texts, or an empty string.
func (a Alert) Speechless() string {
	for kind, text := range a.Annotations {
		if strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") || strings.TrimSpace(text) == "" {
			return fmt.Sprintf("its %s is %q", kind, text)
		}
	}
	return ""
}

// Those returns the names of the given alerts that fire, from the metric ALERTS.
func (s Server) Those(names []string) (map[string]bool, error) {
	found, err := s.Query(`ALERTS{alertstate="firing",alertname=~"` + strings.Join(names, "|") + `"}`)
	all := make(map[string]bool)
	for _, s := range found {
		all[s.Metric["alertname"]] = true
	}
	return all, err
}

func (s Server) ask(path string, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(s)+path, nil)
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
