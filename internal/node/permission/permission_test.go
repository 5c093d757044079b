package permission_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestOpen checks when permissions are needed, and the error without access to an API server.
func TestOpen(t *testing.T) {
	c := &config.Config{NamespacePermission: config.PermissionList}
	p, err := permission.Open(c, nodestatus.Environment{}, slog.New(slog.DiscardHandler))
	if _, exists := p.State(); err != nil || exists || p.Rights().Asked {
		t.Errorf("with a list: %v, source %t, %+v", err, exists, p.Rights())
	}
	c.NamespacePermission, c.Node.Enabled = config.PermissionAnnotation, config.NodeOff
	if _, err = permission.Open(c, nodestatus.Environment{}, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "namespacePermission: annotation: there is no way to an API server") {
		t.Errorf("without a way to the API server: %v", err)
	}
}

// TestTake checks the permissions before and after the API server answers.
func TestTake(t *testing.T) {
	n, err := nodestatus.NewNamespaces(nodestatus.Options{}, workload.Names{}, filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	p := permission.New(n)
	if s, exists := p.State(); s != telemetry.SourceLost || !exists || !p.Rights().Asked || p.Rights().Current {
		t.Errorf("before the answer: %q, %t, %+v", s, exists, p.Rights())
	}
	p.Take(nodestatus.Allowed{Permissions: workload.Permissions{"edge": {Types: []string{"infra"}}}, Current: true})
	if s, _ := p.State(); s != telemetry.SourceOK || len(p.Rights().Permissions["edge"].Types) != 1 || !p.Rights().Current {
		t.Errorf("after the answer: %q, %+v", s, p.Rights())
	}
}
