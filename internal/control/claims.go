package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// ClaimFuncs prepare and end ResourceClaims. They return when the journal is on disk, or ctx ends. Their
// error is a [Conflict] if another try has the same result. End ends the claim of any pod if podUID is empty.
type ClaimFuncs struct {
	Prepare func(ctx context.Context, claim pools.Claim) ([]inspect.ClaimPart, error)
	End     func(ctx context.Context, uid, podUID string) error
}

// Conflict is an error of a request that contradicts the state of the node.
type Conflict struct{ Text string }

// Error returns the cause and the remedy.
func (c Conflict) Error() string { return c.Text }

type claimBody struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	PodUID    string            `json:"podUID"`
	Requests  []pools.ClaimPart `json:"requests"`
}

// claimAnswer is the answer to a PUT.
type claimAnswer struct {
	Requests []inspect.ClaimPart `json:"requests"`
}

const (
	maxClaimBody = 64 << 10 // bytes
	claimTimeout = 20 * time.Second
)

// decodeClaim refuses unknown fields: an older daemon must not prepare a part of a claim.
func decodeClaim(uid string, body []byte) (pools.Claim, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var b claimBody
	if err := d.Decode(&b); err != nil {
		return pools.Claim{}, fmt.Errorf("decode claim: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return pools.Claim{}, errors.New("decode claim: something follows the object")
	}
	claim := pools.Claim{UID: uid, Namespace: b.Namespace, Name: b.Name, PodUID: b.PodUID, Parts: b.Requests}
	return claim, pools.CheckClaims([]pools.Claim{claim})
}

// prepareClaim answers PUT /v1/claims/UID.
func (s *Server) prepareClaim(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // httptest.ResponseRecorder does not support it
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxClaimBody))
	_ = conn.SetReadDeadline(time.Time{}) // the deadline would cancel the context of the request
	var claim pools.Claim
	if err == nil {
		claim, err = decodeClaim(r.PathValue("uid"), body)
	}
	if err != nil {
		s.answer(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), claimTimeout)
	defer cancel()
	cpus, err := s.claims.Prepare(ctx, claim)
	if err != nil {
		s.answer(w, claimStatus(err), failure{err.Error()})
		return
	}
	s.answer(w, http.StatusOK, claimAnswer{cpus})
}

// endClaim answers DELETE /v1/claims/UID.
func (s *Server) endClaim(w http.ResponseWriter, r *http.Request) {
	podUID, err := podOf(r.URL.RawQuery)
	if err != nil {
		s.answer(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), claimTimeout)
	defer cancel()
	if err := s.claims.End(ctx, r.PathValue("uid"), podUID); err != nil {
		s.answer(w, claimStatus(err), failure{err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// podOf returns podUID of the query of a DELETE, "" without a query. It refuses all other queries: a condition that
// is lost would end the claim of another pod.
func podOf(rawQuery string) (string, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil || len(values) == 0 {
		return "", err
	}
	pod := values.Get("podUID")
	if pod == "" || len(values) > 1 || len(values["podUID"]) > 1 {
		return "", errors.New("the query has other parameters than one podUID; name the UID of a pod, or leave the query out")
	}
	return pod, nil
}

func claimStatus(err error) int {
	if _, conflicts := errors.AsType[Conflict](err); conflicts {
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// Claims returns the devices and claims of the node. With wait it returns at an event above after.
func (c *Client) Claims(ctx context.Context, after uint64, wait Wait) (*inspect.Claims, error) {
	s := new(inspect.Claims)
	q := query{wait: min(wait.For, maxWait), daemon: wait.Daemon}
	q.After = after
	return s, c.get(ctx, "claims", &q, s)
}

// PrepareClaim gives a claim its CPUs, and returns them. The same claim gets the same CPUs again. The
// error is a [Conflict] if the daemon refuses the claim.
func (c *Client) PrepareClaim(ctx context.Context, claim pools.Claim) ([]inspect.ClaimPart, error) {
	body, err := json.Marshal(claimBody{claim.Namespace, claim.Name, claim.PodUID, claim.Parts})
	if err != nil {
		return nil, fmt.Errorf("encode claim: %w", err)
	}
	var answer claimAnswer
	err = c.do(ctx, http.MethodPut, "claims/"+url.PathEscape(claim.UID), body, maxBody, &answer)
	return answer.Requests, err
}

// EndClaim takes the CPUs of a claim back. It succeeds if the claim is not known. The error is a
// [Conflict] if a container of the claim runs, or if the claim is prepared for another pod than podUID. An empty
// podUID ends the claim of any pod.
func (c *Client) EndClaim(ctx context.Context, uid, podUID string) error {
	path := "claims/" + url.PathEscape(uid)
	if podUID != "" {
		path += "?podUID=" + url.QueryEscape(podUID)
	}
	return c.do(ctx, http.MethodDelete, path, nil, maxBody, nil)
}
