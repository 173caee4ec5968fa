package mtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// kubeClient makes requests of kube-apiservers with this certificate.
type kubeClient struct{ http *http.Client }

func newKubeClient(certificate []byte) *kubeClient {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	return &kubeClient{&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}}}
}

// kubeObject is what a load uses of a ConfigMap, and of a list its metadata.
type kubeObject struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Metadata   struct {
		Name            string            `json:"name,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Data map[string]string `json:"data,omitempty"`
}

// revision is that of etcd.
func (o kubeObject) revision() int64 {
	n, _ := strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64) // 0: it has none
	return n
}

type kubeList struct {
	kubeObject
	Items []kubeObject `json:"items"`
}

func (l kubeList) byName() map[string]kubeObject {
	all := map[string]kubeObject{}
	for _, o := range l.Items {
		all[o.Metadata.Name] = o
	}
	return all
}

// kubeError is an answer that reports a failure, or the lack of one if Code is 0.
type kubeError struct {
	Code    int
	Reason  string
	Message string
	// after is how long to wait before the request is repeated, 0: the answer does not say.
	after time.Duration
}

func (e *kubeError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

// do makes one request, never repeats it, and reads the answer into to, if that is set. What it returns is a *kubeError or nil.
func (c *kubeClient) do(ctx context.Context, method, url string, body, to any) error {
	answer, err := c.send(ctx, method, url, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && to != nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return &kubeError{Message: err.Error()}
	}
	return nil
}

// send makes one request and returns the answer of one that succeeded.
func (c *kubeClient) send(ctx context.Context, method, url string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, &kubeError{Message: err.Error()}
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, &kubeError{Message: err.Error()}
	}
	request.Header.Set("Authorization", "Bearer "+apiserverToken)
	request.Header.Set("Content-Type", "application/json")
	if body != nil {
		request.GetBody = nil // else Go's client repeats a request whose connection is closed
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, &kubeError{Message: err.Error()}
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	failed := &kubeError{Code: answer.StatusCode}
	text, _ := io.ReadAll(answer.Body)
	if json.Unmarshal(text, failed) != nil { // not all failures are a Status
		failed.Message = strings.TrimSpace(string(text))
	}
	failed.Code = answer.StatusCode
	if s, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		failed.after = time.Duration(s) * time.Second
	}
	return nil, failed
}

// kubeEvent is one of a watch: ADDED, MODIFIED, DELETED, BOOKMARK, or ERROR with a failure in place of an object.
type kubeEvent struct {
	Type   string
	Object json.RawMessage
}

// watch follows what happens after a revision, and calls see with each event, until the connection ends or see returns an error. The
// error is never nil.
func (c *kubeClient) watch(ctx context.Context, url, revision string, see func(kubeEvent) error) error {
	answer, err := c.send(ctx, http.MethodGet, url+"?watch=true&allowWatchBookmarks=true&resourceVersion="+revision, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for d := json.NewDecoder(answer.Body); ; {
		var e kubeEvent
		if err := d.Decode(&e); err != nil {
			return &kubeError{Message: err.Error()}
		}
		if e.Type == "ERROR" {
			failed := &kubeError{}
			if err := json.Unmarshal(e.Object, failed); err != nil {
				return err
			}
			return failed
		}
		if err := see(e); err != nil {
			return err
		}
	}
}
