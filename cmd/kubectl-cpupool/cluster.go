package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags say which cluster to read, if any.
type clusterFlags struct {
	cluster    bool
	kubeconfig string
	context    string
}

func (c *clusterFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&c.cluster, "cluster", false, "read the cluster of the kubeconfig's current context instead of files")
	c.addConfig(flags, "; implies --cluster")
}

// addConfig adds the flags that say which cluster, for commands that always read one.
func (c *clusterFlags) addConfig(flags *pflag.FlagSet, note string) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `FILE`, instead of $KUBECONFIG or ~/.kube/config"+note)
	flags.StringVar(&c.context, "context", "", "`CONTEXT` of the kubeconfig"+note)
}

// given says that a cluster is to be read.
func (c *clusterFlags) given() bool { return c.cluster || c.kubeconfig != "" || c.context != "" }

// checkSource returns what is wrong when there is not one source of objects.
func checkSource(files []string, c clusterFlags) error {
	switch {
	case len(files) == 0 && !c.given():
		return errors.New("no file; name one with -f, or - for the standard input, or give --cluster")
	case len(files) > 0 && c.given():
		return errors.New("-f and a cluster: give one of them")
	}
	return nil
}

// config is how to reach the cluster.
func (c *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w; see --kubeconfig and --context", err)
	}
	config.UserAgent = "kubectl-cpupool"
	return config, nil
}

// read returns all objects of some resources, each given by its path in the API, as
// the list that kubectl get -o json prints.
func (c *clusterFlags) read(ctx context.Context, paths ...string) ([]byte, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	config.Timeout = time.Minute // of one page
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// The group does not matter: paths are whole.
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	items := []json.RawMessage{}
	for _, path := range paths {
		more, err := list(ctx, client, server.JoinPath(path))
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", path, server, err)
		}
		items = append(items, more...)
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// list reads a resource in pages, and gives each item the kind that in lists only
// the list has.
func list(ctx context.Context, client *http.Client, at *url.URL) ([]json.RawMessage, error) {
	var items []json.RawMessage
	for next := ""; ; {
		at.RawQuery = url.Values{"limit": {"500"}, "continue": {next}}.Encode()
		var page struct {
			metav1.TypeMeta
			Metadata metav1.ListMeta              `json:"metadata"`
			Items    []map[string]json.RawMessage `json:"items"`
		}
		if err := get(ctx, client, at, &page); err != nil {
			return nil, err
		}
		for i, item := range page.Items {
			if item == nil {
				return nil, fmt.Errorf("the server's answer is no list: item %d is null", i)
			}
			for key, value := range map[string]string{"apiVersion": page.APIVersion, "kind": strings.TrimSuffix(page.Kind, "List")} {
				quoted, err := json.Marshal(value)
				if err != nil {
					return nil, err
				}
				item[key] = quoted
			}
			data, err := json.Marshal(item)
			if err != nil {
				return nil, err
			}
			items = append(items, data)
		}
		if next = page.Metadata.Continue; next == "" {
			return items, nil
		}
	}
}

func get(ctx context.Context, client *http.Client, at *url.URL, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var status metav1.Status
		if err := json.NewDecoder(answer.Body).Decode(&status); err != nil || status.Message == "" {
			return fmt.Errorf("the server answers %s", answer.Status)
		}
		return fmt.Errorf("the server answers %s: %s", answer.Status, status.Message)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("the server's answer is no list: %w", err)
	}
	return nil
}
