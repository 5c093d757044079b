//go:build !apiserver

package deploy

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// startCluster returns the way to an API server in this process. It stores objects, checks
// their fields, and applies patches. It has no controllers and no admission. With the tag
// apiserver, the same tests run with kube-apiserver.
func startCluster(t *testing.T) *rest.Config {
	t.Helper()
	m := &memory{objects: map[ref]map[string]any{}, changed: make(chan struct{})}
	for _, name := range []string{"default", "kube-system"} {
		m.store("ADDED", namespace(name), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // of watches; runs first
	return &rest.Config{Host: server.URL}
}

// memory is an API server whose objects are in memory.
type memory struct {
	mu      sync.Mutex
	objects map[ref]map[string]any
	events  []event // their number is the version of the last changed object
	changed chan struct{}
}

// An event is a line of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
	at     ref
}

// kinds holds the kinds that the server knows, by group and version, and whether they are namespaced.
var kinds = map[schema.GroupVersion]map[string]bool{
	{Version: "v1"}:                                        {"Namespace": false, "Node": false, "ConfigMap": true, "Pod": true, "Secret": true, "Service": true, "ServiceAccount": true},
	{Group: "apps", Version: "v1"}:                         {"DaemonSet": true, "Deployment": true},
	{Group: "networking.k8s.io", Version: "v1"}:            {"NetworkPolicy": true},
	{Group: "resource.k8s.io", Version: "v1"}:              {"DeviceClass": false},
	{Group: "policy", Version: "v1"}:                       {"PodDisruptionBudget": true},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {"ClusterRole": false, "ClusterRoleBinding": false, "Role": true, "RoleBinding": true},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {"MutatingWebhookConfiguration": false, "ValidatingWebhookConfiguration": false, "ValidatingAdmissionPolicy": false, "ValidatingAdmissionPolicyBinding": false},
}

// root returns the path of a group and version.
func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

func plural(gv schema.GroupVersion, kind string) string {
	resource, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	return resource.Resource
}

func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if answer := discovery(r.URL.Path); answer != nil {
		reply(w, answer)
		return
	}
	if r.URL.Query().Get("watch") != "" {
		m.watch(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	answer, err := m.answer(r)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		w.WriteHeader(int(status.ErrStatus.Code))
		answer = status.ErrStatus
	} else if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, answer)
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// discovery returns the documents about the server, or nil for other paths.
func discovery(path string) any {
	switch path {
	case "/version":
		return map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
	case "/api":
		return metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		var groups metav1.APIGroupList
		for gv := range kinds {
			if gv.Group != "" {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
				groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return groups
	case "/openapi/v3":
		paths := map[string]any{}
		for gv := range kinds {
			paths[strings.TrimPrefix(root(gv), "/")] = map[string]string{"serverRelativeURL": "/openapi/v3" + root(gv)}
		}
		return map[string]any{"paths": paths}
	}
	for gv, all := range kinds {
		switch path {
		case root(gv):
			list := metav1.APIResourceList{GroupVersion: gv.String()}
			for kind, namespaced := range all {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural(gv, kind), Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list", "create"}})
			}
			return list
		case "/openapi/v3" + root(gv): // states that the server checks fields; then helm does not
			paths := map[string]any{}
			for kind := range all {
				paths[root(gv)+"/"+kind] = map[string]any{"patch": map[string]any{
					"parameters":                      []any{map[string]string{"name": "fieldValidation", "in": "query"}},
					"x-kubernetes-group-version-kind": map[string]string{"group": gv.Group, "version": gv.Version, "kind": kind},
				}}
			}
			return map[string]any{"openapi": "3.0.0", "info": map[string]string{"title": "", "version": ""}, "paths": paths}
		}
	}
	return nil
}

// answer handles a request for an object or a list. The caller holds mu.
func (m *memory) answer(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	at := parseRef(r.URL.Path)
	old := m.objects[at]
	switch {
	case r.Method == http.MethodPost:
		object, err := decode(body)
		if err != nil {
			return nil, err
		}
		at.name = (&unstructured.Unstructured{Object: object}).GetName()
		if m.objects[at] != nil {
			return nil, apierrors.NewAlreadyExists(at.group(), at.name)
		}
		if space := namespace(at.namespace); at.namespace != "" && m.objects[space] == nil {
			return nil, apierrors.NewNotFound(space.group(), space.name)
		}
		return m.store("ADDED", at, object), nil
	case at.name == "" && r.Method == http.MethodDelete:
		for other, object := range m.objects {
			if wanted(r, at, other, object) {
				m.store("DELETED", other, object)
			}
		}
		return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil
	case at.name == "":
		return m.list(r, at)
	case old == nil:
		return nil, apierrors.NewNotFound(at.group(), at.name)
	case r.Method == http.MethodPut:
		object, err := decode(body)
		if err != nil {
			return nil, err
		}
		return m.store("MODIFIED", at, object), nil
	case r.Method == http.MethodPatch:
		object, err := patch(old, body, types.PatchType(r.Header.Get("Content-Type")))
		if err != nil {
			return nil, err
		}
		return m.store("MODIFIED", at, object), nil
	case r.Method == http.MethodDelete:
		for other, object := range m.objects {
			if other == at || at == namespace(other.namespace) {
				m.store("DELETED", other, object)
			}
		}
		return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil
	}
	return old, nil
}

// A ref names an object, or a list with an empty name.
type ref struct {
	gv                        schema.GroupVersion
	resource, namespace, name string
}

func namespace(name string) ref {
	return ref{gv: schema.GroupVersion{Version: "v1"}, resource: "namespaces", name: name}
}

func (r ref) group() schema.GroupResource {
	return schema.GroupResource{Group: r.gv.Group, Resource: r.resource}
}

// parseRef reads a path such as /apis/apps/v1/namespaces/a/daemonsets/b/status.
func parseRef(path string) ref {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := ref{gv: schema.GroupVersion{Version: parts[1]}}
	parts = parts[1:]
	if strings.HasPrefix(path, "/apis/") {
		at.gv, parts = schema.GroupVersion{Group: parts[0], Version: parts[1]}, parts[1:]
	}
	parts = parts[1:]
	if len(parts) > 2 && parts[0] == "namespaces" {
		at.namespace, parts = parts[1], parts[2:]
	}
	at.resource = parts[0]
	if len(parts) > 1 {
		at.name = parts[1]
	}
	return at
}

// decode reads an object, in JSON or Protobuf, as a strict API server does.
func decode(body []byte) (map[string]any, error) {
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	typed, kind, err := strict.Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(*kind)
	return u.Object, nil
}

// patch returns an object with a strategic merge patch.
func patch(old map[string]any, body []byte, typ types.PatchType) (map[string]any, error) {
	if typ != types.StrategicMergePatchType {
		return nil, apierrors.NewBadRequest("patch of type " + string(typ))
	}
	u := unstructured.Unstructured{Object: old}
	typed, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, body, typed)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return decode(after)
}

// store changes an object and reports the change to watches. The caller holds mu, or is the
// only user.
func (m *memory) store(change string, at ref, object map[string]any) map[string]any {
	u := unstructured.Unstructured{Object: object}
	version := strconv.Itoa(len(m.events) + 1)
	u = *u.DeepCopy()
	u.SetResourceVersion(version)
	if u.GetUID() == "" {
		u.SetUID(types.UID("uid-" + version))
	}
	m.events = append(m.events, event{change, u.Object, at})
	if change == "DELETED" {
		delete(m.objects, at)
	} else {
		m.objects[at] = u.Object
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return u.Object
}

// wanted reports whether an object is in the list of a request.
func wanted(r *http.Request, list, at ref, object map[string]any) bool {
	u := unstructured.Unstructured{Object: object}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	name, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	return err == nil && at.gv == list.gv && at.resource == list.resource && (list.namespace == "" || at.namespace == list.namespace) &&
		selector.Matches(labels.Set(u.GetLabels())) && (!named || u.GetName() == name)
}

func (m *memory) list(r *http.Request, list ref) (any, error) {
	items := []any{}
	kind := ""
	for known := range kinds[list.gv] {
		if plural(list.gv, known) == list.resource {
			kind = known
		}
	}
	if kind == "" {
		return nil, apierrors.NewNotFound(list.group(), "")
	}
	for at, object := range m.objects {
		if wanted(r, list, at, object) {
			items = append(items, object)
		}
	}
	version := map[string]any{"resourceVersion": strconv.Itoa(len(m.events))}
	return map[string]any{"apiVersion": list.gv.String(), "kind": kind + "List", "metadata": version, "items": items}, nil
}

// watch reports changes after the version of the request. It refuses to send the list first:
// then clients list by themselves.
func (m *memory) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(w, apierrors.NewInvalid(schema.GroupKind{}, "", nil).ErrStatus)
		return
	}
	next, _ := strconv.Atoi(query.Get("resourceVersion"))
	list := parseRef(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	for {
		m.mu.Lock()
		news, changed := m.events[next:], m.changed
		m.mu.Unlock()
		for _, e := range news {
			if wanted(r, list, e.at, e.Object) {
				_ = json.NewEncoder(w).Encode(e)
			}
		}
		next += len(news)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
