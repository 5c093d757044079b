package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// Files for a command in the guest; nil ones read nothing or are thrown away.
type Files struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run runs a command as root in the guest and returns its standard output. Its arguments are passed as they are: no shell
// interprets them. If the command fails, the error contains its standard error, and wraps an *ssh.ExitError.
func (m *VM) Run(ctx context.Context, cmd ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	err := m.RunWith(ctx, Files{Stdout: &stdout, Stderr: &stderr}, cmd...)
	if err != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), err
}

// RunWith is Run with the command's standard files given. When ctx ends first, the command is killed.
func (m *VM) RunWith(ctx context.Context, files Files, cmd ...string) error {
	session, err := m.client.Load().NewSession()
	if err != nil {
		return fmt.Errorf("run %q in the guest: %w", cmd, m.diagnose(err))
	}
	defer session.Close()
	stdout, stderr := &gate{w: files.Stdout}, &gate{w: files.Stderr}
	defer stdout.close()
	defer stderr.close()
	session.Stdin, session.Stdout, session.Stderr = files.Stdin, stdout, stderr
	line, err := quote(cmd)
	if err != nil {
		return fmt.Errorf("run %q in the guest: %w", cmd, err)
	}
	if err := session.Start(line); err != nil {
		return fmt.Errorf("run %q in the guest: %w", cmd, m.diagnose(err))
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(context.Cause(ctx), session.Signal(ssh.SIGKILL))
	case <-m.qemu.exited:
		err = errors.New("connection lost")
	}
	if err != nil {
		return fmt.Errorf("run %q in the guest: %w", cmd, m.diagnose(err))
	}
	return nil
}

// Dial connects to an address as seen from inside the guest: "tcp" and "127.0.0.1:10248", or "unix" and the path of a socket.
func (m *VM) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := m.client.Load().DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s in the guest: %w", address, m.diagnose(err))
	}
	return conn, nil
}

// Listen takes connections to a TCP address of the guest's loopback: "127.0.0.1:6443".
func (m *VM) Listen(address string) (net.Listener, error) {
	l, err := m.client.Load().Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s in the guest: %w", address, m.diagnose(err))
	}
	return l, nil
}

// diagnose adds that QEMU is gone, if it is: then err is only a consequence.
func (m *VM) diagnose(err error) error {
	var timeout time.Duration
	if missing := new(ssh.ExitMissingError); errors.Is(err, io.EOF) || errors.As(err, &missing) {
		timeout = 5 * time.Second // a process that ends closes its connections first
	}
	select {
	case <-m.qemu.exited:
		return fmt.Errorf("%w; QEMU has ended: %w", err, m.qemu.err)
	case <-time.After(timeout):
		return err
	}
}

// quote makes a line that the guest's shell splits into cmd again.
func quote(cmd []string) (string, error) {
	words := make([]string, len(cmd))
	for i, word := range cmd {
		if strings.ContainsRune(word, 0) {
			return "", fmt.Errorf("argument %q contains a zero byte", word)
		}
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " "), nil
}

// connect waits until the guest's SSH server answers. QEMU accepts connections from its own start on, and drops them until a
// server listens inside.
func connect(ctx context.Context, disk image.Disk, port string, gone <-chan struct{}) (*ssh.Client, error) {
	config, err := clientConfig(disk)
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(250 * time.Millisecond)
	defer retry.Stop()
	for {
		client, err := connectOnce(ctx, config, net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			return client, nil
		}
		select {
		case <-retry.C:
		case <-gone:
			return nil, errors.New("wait for the guest's SSH server: QEMU ended")
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the guest's SSH server: %w; last attempt: %w", context.Cause(ctx), err)
		}
	}
}

func clientConfig(disk image.Disk) (*ssh.ClientConfig, error) {
	private, err := os.ReadFile(disk.SSHKey)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", disk.SSHKey, err)
	}
	public, err := os.ReadFile(disk.HostKey)
	if err != nil {
		return nil, err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", disk.HostKey, err)
	}
	return &ssh.ClientConfig{
		Config:            ssh.Config{Ciphers: []string{ssh.CipherAES128GCM}}, // QEMU emulates the AES instructions
		User:              "root",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   ssh.FixedHostKey(host),
		HostKeyAlgorithms: []string{host.Type()},
	}, nil
}

// connectOnce gives the server a second for its version line, and then as long as emulated cryptography
// takes.
func connectOnce(ctx context.Context, config *ssh.ClientConfig, address string) (*ssh.Client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	named := &peeked{Conn: conn, buffered: bufio.NewReader(conn)}
	if err := named.await(time.Second); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c, channels, requests, err := ssh.NewClientConn(named, address, config)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return ssh.NewClient(c, channels, requests), nil
}

// peeked is a connection of which some bytes have been read already.
type peeked struct {
	net.Conn

	buffered *bufio.Reader
}

// await returns when the first bytes have come, and then allows two minutes for the handshake.
func (p *peeked) await(limit time.Duration) error {
	if err := p.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := p.buffered.Peek(4); err != nil {
		return err
	}
	return p.SetReadDeadline(time.Now().Add(2 * time.Minute))
}

func (p *peeked) Read(b []byte) (int, error) { return p.buffered.Read(b) }
