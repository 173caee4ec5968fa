package mtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"cke/internal/need"
	"cke/mtest/rig"
)

// apiserverProgram is kube-apiserver. Its module takes its parts from directories, which it has nowhere else: they are named as the modules
// that are published of them.
var apiserverProgram = need.Program{File: "kube-apiserver-v1.37.2", Package: "k8s.io/kubernetes/cmd/kube-apiserver", Version: "v1.37.2", With: apiserverParts("v0.37.2")}

func apiserverParts(version string) (all []string) {
	for name := range strings.FieldsSeq(`api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap
		code-generator component-base component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib dynamic-resource-allocation
		endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils
		pod-security-admission sample-apiserver streaming`) {
		all = append(all, "k8s.io/"+name+"@"+version)
	}
	return all
}

// Limits of a kube-apiserver: until it serves, and from when it is asked to exit until it is killed. By then no request is under way, and it
// would wait for a minute until watches end.
const (
	apiserverStarts = 3 * time.Minute
	apiserverStops  = 5 * time.Second
)

// apiserver is a kube-apiserver on loopback.
type apiserver struct {
	url, log string
	cmd      *exec.Cmd
	exited   chan struct{}
}

// apiserverToken is what its only user shows.
const apiserverToken = "a-token"

// apiserverFiles makes in dir what all kube-apiservers of a story share: a certificate, a pair that signs tokens of service accounts, and the
// token of their only user.
func apiserverFiles(dir string) error {
	accounts := filepath.Join(dir, "accounts")
	return errors.Join(os.MkdirAll(accounts, 0o700), rig.OwnCertificate(dir, "127.0.0.1"), rig.OwnCertificate(accounts, "127.0.0.1"),
		os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(apiserverToken+",tester,1\n"), 0o600))
}

// startAPIServer starts a kube-apiserver with the files in dir and these flags about etcd, and returns at once.
func startAPIServer(program, dir, name string, etcd []string) (*apiserver, error) {
	address, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	a := &apiserver{url: "https://" + address, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	_, port, _ := strings.Cut(address, ":")
	a.cmd = exec.Command(program, append([]string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port, "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + filepath.Join(dir, "server.crt"), "--tls-private-key-file=" + filepath.Join(dir, "server.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-key-file=" + filepath.Join(dir, "accounts", "server.crt"), "--service-account-signing-key-file=" + filepath.Join(dir, "accounts", "server.key"),
		"--authorization-mode=AlwaysAllow", "--token-auth-file=" + filepath.Join(dir, "tokens.csv"), "--disable-admission-plugins=ServiceAccount",
	}, etcd...)...)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = a.cmd.Wait() // its log says why
		close(a.exited)
	}()
	return a, nil
}

// ready waits until it serves and has the namespace in which clients work.
func (a *apiserver) ready(ctx context.Context, c *kubeClient) error {
	ctx, cancel := context.WithTimeout(ctx, apiserverStarts)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.do(ctx, http.MethodGet, a.url+"/readyz", nil, nil)
		if err == nil {
			err = c.do(ctx, http.MethodGet, a.url+"/api/v1/namespaces/default", nil, nil)
		}
		if err == nil {
			return nil
		}
		select {
		case <-a.exited:
			return fmt.Errorf("kube-apiserver has exited; its log: %s", a.logText())
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready: %w; its log: %s", err, a.logText())
		case <-tick.C:
		}
	}
}

// stop asks it to exit, and kills it after apiserverStops.
func (a *apiserver) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-a.exited:
	case <-time.After(apiserverStops):
		a.kill()
	}
}

func (a *apiserver) kill() {
	_ = a.cmd.Process.Kill() // it may be gone already
	<-a.exited
}

// logText is the last of its log.
func (a *apiserver) logText() string {
	data, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	const most = 16 << 10
	return string(data[max(0, len(data)-most):])
}

// logged counts the lines of its log that match.
func (a *apiserver) logged(t testing.TB, pattern string) (n int) {
	t.Helper()
	data, err := os.ReadFile(a.log)
	if err != nil {
		t.Fatal(err)
	}
	return len(regexp.MustCompile(`(?m)^.*(?:`+pattern+`).*$`).FindAll(data, -1))
}
