package nodestatus

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// ServiceAccountDir is where pods find the token and the certificate authority of
// their service account.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Access is how an API server is reached, and as whom. Files are read again when they
// are needed: tokens and certificates are replaced while the daemon runs.
type Access struct {
	server *url.URL
	// serverName is what its certificate must say; empty for the host in server.
	serverName  string
	ca          source // without one, the machine's own authorities count
	token       source
	cert, key   source
	description string
	// later is a kubeconfig that has not been read yet; nothing else is set then.
	later string
}

// source is something that stands in a file, or in another file.
type source struct {
	file string
	data []byte
}

func (s source) is() bool { return s.file != "" || len(s.data) > 0 }

func (s source) read() ([]byte, error) {
	if s.file == "" {
		return s.data, nil
	}
	return os.ReadFile(s.file)
}

// String says where the access comes from.
func (a *Access) String() string { return a.description }

// InCluster is the access of a pod: host and port are the API server's, as the
// kubelet puts them into the environment, and dir is [ServiceAccountDir].
func InCluster(host, port, dir string) (*Access, error) {
	token := filepath.Join(dir, "token")
	if _, err := os.Stat(token); err != nil {
		return nil, fmt.Errorf("no service account: %w; set automountServiceAccountToken, or node.kubeconfig", err)
	}
	if host == "" || port == "" {
		return nil, errors.New("no API server: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set; set node.kubeconfig where this is no pod")
	}
	return &Access{
		server:      &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)},
		ca:          source{file: filepath.Join(dir, "ca.crt")},
		token:       source{file: token},
		description: "service account of the pod",
	}, nil
}

// kubeconfig is the part of a kubeconfig file that is understood.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string
		Cluster struct {
			Server     string
			CA         string `yaml:"certificate-authority"`
			CAData     string `yaml:"certificate-authority-data"`
			ServerName string `yaml:"tls-server-name"`
			Insecure   bool   `yaml:"insecure-skip-tls-verify"`
		}
	}
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Users []struct {
		Name string
		User struct {
			Token     string
			TokenFile string    `yaml:"tokenFile"`
			Cert      string    `yaml:"client-certificate"`
			CertData  string    `yaml:"client-certificate-data"`
			Key       string    `yaml:"client-key"`
			KeyData   string    `yaml:"client-key-data"`
			Exec      yaml.Node `yaml:"exec"`
			Provider  yaml.Node `yaml:"auth-provider"`
			Username  string
		}
	}
}

// Kubeconfig is the access that a kubeconfig file describes in its current context, as
// the kubelet's own does: a server, its certificate authority, and a token or a client
// certificate. What would run programs, or trust anybody, is refused.
func Kubeconfig(file string) (*Access, error) {
	fail := func(format string, args ...any) (*Access, error) {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, fmt.Errorf(format, args...))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return fail("%w", err)
	}
	a := &Access{description: file}
	var cluster, user string
	for _, c := range k.Contexts {
		if c.Name == k.CurrentContext {
			cluster, user = c.Context.Cluster, c.Context.User
		}
	}
	decoded := func(what, path, encoded string) (source, error) {
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return source{}, fmt.Errorf("%s-data: %w", what, err)
		}
		if len(data) > 0 {
			path = "" // as kubectl has it
		}
		return source{path, data}, nil
	}
	var problems []error
	for _, c := range k.Clusters {
		if c.Name != cluster {
			continue
		}
		if a.server, err = url.Parse(c.Cluster.Server); err != nil || a.server.Scheme != "https" || a.server.Host == "" {
			problems = append(problems, fmt.Errorf("server %q is no https:// address", c.Cluster.Server))
		}
		if c.Cluster.Insecure {
			problems = append(problems, errors.New("insecure-skip-tls-verify is not supported; name the certificate-authority"))
		}
		a.serverName = c.Cluster.ServerName
		a.ca, err = decoded("certificate-authority", c.Cluster.CA, c.Cluster.CAData)
		problems = append(problems, err)
	}
	for _, u := range k.Users {
		if u.Name != user {
			continue
		}
		if !u.User.Exec.IsZero() || !u.User.Provider.IsZero() || u.User.Username != "" {
			problems = append(problems, errors.New("user has exec, auth-provider or username; only tokens and client certificates are supported"))
		}
		if a.token, err = decoded("token", u.User.TokenFile, ""); u.User.Token != "" {
			a.token = source{data: []byte(u.User.Token)}
		}
		problems = append(problems, err)
		a.cert, err = decoded("client-certificate", u.User.Cert, u.User.CertData)
		problems = append(problems, err)
		a.key, err = decoded("client-key", u.User.Key, u.User.KeyData)
		problems = append(problems, err)
	}
	switch err := errors.Join(problems...); {
	case err != nil:
		return fail("%w", err)
	case a.server == nil:
		return fail("current-context %q names no cluster of this file", k.CurrentContext)
	case !a.token.is() && (!a.cert.is() || !a.key.is()):
		return fail("current-context %q has no user with a token, or with a client certificate and its key", k.CurrentContext)
	}
	return a, nil
}

// KubeconfigLater is the access of a kubeconfig that may not be there yet, or not be
// whole: the kubelet's own is written when the node has joined. It is read for each
// attempt to connect, until that can be done.
func KubeconfigLater(file string) *Access { return &Access{description: file, later: file} }

// read is the access with what has been left for later.
func (a *Access) read() (*Access, error) {
	if a.later == "" {
		return a, nil
	}
	return Kubeconfig(a.later)
}

// bearer is the token as it is now; empty where certificates tell who asks.
func (a *Access) bearer() (string, error) {
	if !a.token.is() {
		return "", nil
	}
	token, err := a.token.read()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return string(bytes.TrimSpace(token)), nil
}

// tls is the configuration of connections, for the authority that ca is.
func (a *Access) tls(ca []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName}
	if len(ca) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("certificate authority of the API server: no certificate in it")
		}
	}
	if a.cert.is() {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := a.cert.read()
			if err != nil {
				return nil, fmt.Errorf("client certificate: %w", err)
			}
			key, err := a.key.read()
			if err != nil {
				return nil, fmt.Errorf("key of the client certificate: %w", err)
			}
			pair, err := tls.X509KeyPair(cert, key)
			return &pair, err
		}
	}
	return c, nil
}
