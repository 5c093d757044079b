package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// kubeletAddress is the kubelet's address for health checks, its default.
const kubeletAddress = "127.0.0.1:10248"

// kubeletHealthy waits until the kubelet in the guest answers that it is healthy, which includes that it reaches the runtime.
func (m *VM) kubeletHealthy(ctx context.Context) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return m.Dial(ctx, "tcp", kubeletAddress)
		},
	}}
	retry := time.NewTicker(500 * time.Millisecond)
	defer retry.Stop()
	for {
		err := healthy(ctx, &client)
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-m.qemu.exited:
			return errors.New("wait for the kubelet: QEMU ended")
		case <-ctx.Done():
			journal, jerr := m.Run(context.WithoutCancel(ctx), "journalctl", "--no-pager", "-n", "20", "-u", "kubelet")
			return errors.Join(fmt.Errorf("wait for the kubelet: %w; last answer: %w; its journal: %s", context.Cause(ctx), err, journal), jerr)
		}
	}
}

func healthy(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+kubeletAddress+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}
