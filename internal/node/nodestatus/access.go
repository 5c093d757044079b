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

// ServiceAccountDir is the directory with the token and the authority of a pod's service account.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Access holds the address and the credentials of an API server. It reads their files again
// for each use, because tokens and certificates are replaced while the daemon runs.
type Access struct {
	server       *url.URL
	serverName   string // name in the server's certificate; empty for the host of server
	ca           source // if unset, the certificate authorities of the host
	token        source
	cert, key    source
	description  string
	deferredFile string // a kubeconfig that was not read yet. The other fields are unset then
}

// source is a value in a file or in memory.
type source struct {
	file string
	data []byte
}

func (s source) isSet() bool { return s.file != "" || len(s.data) > 0 }

func (s source) read() ([]byte, error) {
	if s.file == "" {
		return s.data, nil
	}
	return os.ReadFile(s.file)
}

// String returns the origin of the access, for messages.
func (a *Access) String() string { return a.description }

// InCluster returns the access of a pod. The kubelet passes host and port of the API server in
// the environment. dir is [ServiceAccountDir].
func InCluster(host, port, dir string) (*Access, error) {
	token := filepath.Join(dir, "token")
	if _, err := os.Stat(token); err != nil {
		return nil, fmt.Errorf("no service account: %w; set automountServiceAccountToken, or node.kubeconfig", err)
	}
	if host == "" || port == "" {
		return nil, errors.New("no API server: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set; outside a pod, set node.kubeconfig")
	}
	return &Access{
		server:      &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)},
		ca:          source{file: filepath.Join(dir, "ca.crt")},
		token:       source{file: token},
		description: "service account of the pod",
	}, nil
}

// kubeconfig holds the supported fields of a kubeconfig file, and the refused ones.
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

// Kubeconfig returns the access in the current context of a kubeconfig file: a server, its
// certificate authority, and a token or a client certificate. It returns an error for users
// that run programs, and for servers without verification.
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
	var problems []error
	decoded := func(what, path, encoded string) source {
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s-data: %w", what, err))
		}
		if len(data) > 0 {
			path = "" // data takes precedence, as in kubectl
		}
		return source{path, data}
	}
	for _, c := range k.Clusters {
		if c.Name != cluster {
			continue
		}
		if a.server, err = url.Parse(c.Cluster.Server); err != nil || a.server.Scheme != "https" || a.server.Host == "" {
			problems = append(problems, fmt.Errorf("server %q is not an https:// address", c.Cluster.Server))
		}
		if c.Cluster.Insecure {
			problems = append(problems, errors.New("insecure-skip-tls-verify is not supported; name the certificate-authority"))
		}
		a.serverName = c.Cluster.ServerName
		a.ca = decoded("certificate-authority", c.Cluster.CA, c.Cluster.CAData)
	}
	for _, u := range k.Users {
		if u.Name != user {
			continue
		}
		if !u.User.Exec.IsZero() || !u.User.Provider.IsZero() || u.User.Username != "" {
			problems = append(problems, errors.New("user has exec, auth-provider or username; only tokens and client certificates are supported"))
		}
		if a.token = decoded("token", u.User.TokenFile, ""); u.User.Token != "" {
			a.token = source{data: []byte(u.User.Token)}
		}
		a.cert = decoded("client-certificate", u.User.Cert, u.User.CertData)
		a.key = decoded("client-key", u.User.Key, u.User.KeyData)
	}
	switch err := errors.Join(problems...); {
	case err != nil:
		return fail("%w", err)
	case a.server == nil:
		return fail("current-context %q names no cluster of this file", k.CurrentContext)
	case !a.token.isSet() && (!a.cert.isSet() || !a.key.isSet()):
		return fail("current-context %q has no user with a token, or with a client certificate and its key", k.CurrentContext)
	}
	return a, nil
}

// KubeconfigLater returns the access of a kubeconfig that may be missing or incomplete: the
// kubelet writes its kubeconfig when the node joins. Each attempt to connect reads the file
// until the first success.
func KubeconfigLater(file string) *Access { return &Access{description: file, deferredFile: file} }

// bearerToken reads the token. It returns "" if the daemon authenticates with a certificate.
func (a *Access) bearerToken() (string, error) {
	if !a.token.isSet() {
		return "", nil
	}
	token, err := a.token.read()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return string(bytes.TrimSpace(token)), nil
}

// tls returns the TLS configuration. Without ca, the authorities of the host sign the certificate.
func (a *Access) tls(ca []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName}
	if len(ca) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("certificate authority of the API server: the file has no certificate")
		}
	}
	if a.cert.isSet() {
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
