package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags select the cluster to read, if any.
type clusterFlags struct {
	cluster    bool
	kubeconfig string
	context    string
}

func (c *clusterFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&c.cluster, "cluster", false, "read the cluster of the kubeconfig's current context instead of files")
	c.addConfig(flags, "; implies --cluster")
}

// addConfig adds the flags that select the cluster, for commands that always read one.
func (c *clusterFlags) addConfig(flags *pflag.FlagSet, note string) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `FILE`, instead of $KUBECONFIG or ~/.kube/config"+note)
	flags.StringVar(&c.context, "context", "", "`CONTEXT` of the kubeconfig"+note)
}

// given reports whether the flags select a cluster.
func (c *clusterFlags) given() bool { return c.cluster || c.kubeconfig != "" || c.context != "" }

// checkSource returns an error unless the flags name exactly one source of objects.
func checkSource(files []string, c clusterFlags) error {
	switch {
	case len(files) == 0 && !c.given():
		return errors.New("no file; name one with -f, or - for the standard input, or give --cluster")
	case len(files) > 0 && c.given():
		return errors.New("-f and a cluster: give one of them")
	}
	return nil
}

func (c *clusterFlags) kubeconfigs() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
}

type api struct {
	config *rest.Config // without a timeout
	client *http.Client
	server *url.URL
}

func (c *clusterFlags) connect() (*api, error) {
	config, err := c.kubeconfigs().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w; see --kubeconfig and --context", err)
	}
	config.UserAgent = "kubectl-cpupool"
	paged := rest.CopyConfig(config)
	paged.Timeout = time.Minute // of one page
	client, err := rest.HTTPClientFor(paged)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// The group does not matter: paths are whole.
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &api{config, client, server}, nil
}

// read returns all objects of some resources, each given by its path in the API.
func (a *api) read(ctx context.Context, paths ...string) (items []json.RawMessage, err error) {
	for _, path := range paths {
		more, err := a.list(ctx, path, "application/json")
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return items, nil
}

// optional reads resources that a cluster may lack. Without the permission for one, it prints a note, and returns no object.
func (a *api) optional(ctx context.Context, s streams, note string, paths ...string) (items []json.RawMessage, err error) {
	for _, path := range paths {
		more, err := a.list(ctx, path, "application/json")
		switch {
		case answers(err, http.StatusForbidden):
			fmt.Fprintf(s.err, "note: %s: %v\n", note, err)
			return nil, nil
		case err != nil && !answers(err, http.StatusNotFound):
			return nil, err
		}
		items = append(items, more...)
	}
	return items, nil
}

// asList returns objects as the list that kubectl get -o json prints.
func asList(items []json.RawMessage) ([]byte, error) {
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": append([]json.RawMessage{}, items...)})
}

// list reads a resource in pages, and gives each item the kind that in lists only
// the list has. A selector of fields can follow the path after a question mark.
func (a *api) list(ctx context.Context, path, accept string) ([]json.RawMessage, error) {
	var items []json.RawMessage
	path, selector, _ := strings.Cut(path, "?")
	query := url.Values{"limit": {"500"}}
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	for next := ""; ; {
		var page struct {
			metav1.TypeMeta
			Metadata metav1.ListMeta              `json:"metadata"`
			Items    []map[string]json.RawMessage `json:"items"`
		}
		query.Set("continue", next)
		if err := a.get(ctx, path, query, accept, maxPage, &page); err != nil {
			return nil, err
		}
		for i, item := range page.Items {
			if item == nil {
				return nil, fmt.Errorf("read %s of %s: the server's answer is no list: item %d is null", path, a.server, i)
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

func (a *api) object(ctx context.Context, path string, into any) error {
	return a.get(ctx, path, nil, "application/json", maxPage, into)
}

// maxPage is the size of the largest page of a list that is read, in bytes. A page has 500
// objects, and an object 1.5 MiB at most; a list of such objects is not expected.
const maxPage = 128 << 20

// statusError is an answer other than 200 OK.
type statusError struct {
	code         int
	status, text string
}

func (e *statusError) Error() string {
	return strings.TrimSuffix("the server answers "+e.status+": "+e.text, ": ")
}

// answers reports whether err is an answer with one of these codes.
func answers(err error, codes ...int) bool {
	status, is := errors.AsType[*statusError](err)
	return is && slices.Contains(codes, status.code)
}

// get reads the document at a path, of at most size bytes.
func (a *api) get(ctx context.Context, path string, query url.Values, accept string, size int64, into any) (err error) {
	defer func() { err = named(fmt.Sprintf("read %s of %s", path, a.server), err) }()
	at := a.server.JoinPath(path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var status metav1.Status
		_ = json.NewDecoder(io.LimitReader(answer.Body, maxComplaint)).Decode(&status) // without a text, the code remains
		return &statusError{answer.StatusCode, answer.Status, status.Message}
	}
	body := &io.LimitedReader{R: answer.Body, N: size + 1}
	err = json.NewDecoder(body).Decode(into)
	switch {
	case body.N <= 0:
		return fmt.Errorf("the server's answer has more than %d MiB", size>>20)
	case err != nil:
		return fmt.Errorf("the server's answer is not the expected JSON: %w", err)
	}
	return nil
}
