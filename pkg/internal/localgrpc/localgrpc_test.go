package localgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/pkg/internal/localgrpc"
)

func TestError(t *testing.T) {
	errGone := errors.New("gone")
	kinds := map[codes.Code]error{codes.NotFound: errGone}
	for _, tt := range []struct {
		err  error
		is   error // nil: none of those that are decided on
		want string
	}{
		{status.Error(codes.NotFound, "no container x"), errGone, "gone: no container x"},
		{status.Error(codes.NotFound, "gone"), errGone, "gone"},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), context.DeadlineExceeded, "context deadline exceeded"},
		{status.Error(codes.Canceled, "by the caller"), context.Canceled, "context canceled: by the caller"},
		{status.Error(codes.Internal, "runc said\n"), nil, "rpc error: code = Internal desc = runc said"},
		{io.EOF, io.EOF, "EOF"},
	} {
		got := localgrpc.Error(tt.err, kinds)
		if got.Error() != tt.want || tt.is != nil && !errors.Is(got, tt.is) {
			t.Errorf("Error(%v) = %q; want %q, which is %v", tt.err, got, tt.want, tt.is)
		}
	}
}

func TestDialDoesNotConnect(t *testing.T) {
	c, err := localgrpc.Dial(t.TempDir()+"/nobody.sock", 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
