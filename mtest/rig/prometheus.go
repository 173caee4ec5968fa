package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"cke/internal/cache"
)

// PrometheusProgram returns the Prometheus of this host, or else that of Debian's package, which is fetched once and
// unpacked into the cache directory. Nothing is installed.
func PrometheusProgram(ctx context.Context) (string, error) {
	if program, err := exec.LookPath("prometheus"); err == nil {
		return program, nil
	}
	base, err := cache.Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "tools", "prometheus-deb")
	program := filepath.Join(dir, "usr", "bin", "prometheus")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "prometheus-deb-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	cmd := exec.CommandContext(ctx, "sh", "-ec", "apt-get -qq download prometheus && dpkg-deb -x prometheus_*.deb unpacked")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("get Debian's package prometheus: %w: %s", err, out)
	}
	return program, os.Rename(filepath.Join(work, "unpacked"), dir)
}

// Prometheus is a real Prometheus on loopback.
type Prometheus struct {
	// Address is host:port of its HTTP.
	Address string

	log string
	cmd *exec.Cmd
	end chan struct{}
}

// Alert is an alert that Prometheus has now.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// State is pending or firing.
	State string `json:"state"`
}

// Sample is one series of an answer.
type Sample struct {
	Metric map[string]string `json:"metric"`
	// Value is a time and a number, as text.
	Value [2]any `json:"value"`
}

// StartPrometheus starts a Prometheus that keeps everything in dir, with the configuration dir/prometheus.yml. Stop it.
func StartPrometheus(ctx context.Context, program, dir string) (*Prometheus, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Prometheus{Address: address, log: filepath.Join(dir, "prometheus.log"), end: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // its log says why
		close(p.end)
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := p.get(ctx, "/-/ready", nil)
		if err == nil {
			return p, nil
		}
		select {
		case <-p.end:
			return nil, fmt.Errorf("Prometheus stopped; its log: %s", p.LogText())
		case <-ctx.Done():
			p.Stop()
			return nil, fmt.Errorf("Prometheus is not ready: %w; its log: %s", err, p.LogText())
		case <-time.After(lookEvery):
		}
	}
}

// Stop ends Prometheus.
func (p *Prometheus) Stop() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.end
}

// LogText is its log.
func (p *Prometheus) LogText() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Query returns what an expression is now.
func (p *Prometheus) Query(ctx context.Context, expr string) ([]Sample, error) {
	var answer struct {
		Data struct{ Result []Sample }
	}
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}

// Alerts returns the alerts that are pending or firing.
func (p *Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	var answer struct {
		Data struct{ Alerts []Alert }
	}
	err := p.get(ctx, "/api/v1/alerts", &answer)
	return answer.Data.Alerts, err
}

// AwaitAlerts asks for the alerts until ok, and returns the last answer. It fails when ctx ends first.
func (p *Prometheus) AwaitAlerts(ctx context.Context, what string, ok func([]Alert) bool) ([]Alert, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		all, err := p.Alerts(ctx)
		if err == nil && ok(all) {
			return all, nil
		}
		select {
		case <-p.end:
			return all, errors.New("Prometheus stopped; its log: " + p.LogText())
		case <-ctx.Done():
			return all, fmt.Errorf("waited for %s: alerts %+v, error %v: %w", what, all, err, ctx.Err())
		case <-tick.C:
		}
	}
}

// get reads an answer of JSON into to, if that is set.
func (p *Prometheus) get(ctx context.Context, path string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	if to == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(to)
}
