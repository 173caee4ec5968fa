package rig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/mtest/lab"
)

// Store is an etcd on loopback for several management hosts, as an operator would have it: with TLS, a user with a
// password, and a role that reaches only the prefix.
type Store struct {
	// Address is host:port of its client listener, Addresses those of all members.
	Address   string
	Addresses []string
	dir       string
	members   []*exec.Cmd
	ended     sync.WaitGroup
}

// What the operator of the store gave out.
const (
	storePrefix   = "/tenant/cke/"
	storeUser     = "cke"
	storePassword = "correct horse"
)

// StartStore starts an etcd of one member that keeps everything in dir. Stop it.
func StartStore(ctx context.Context, dir string) (*Store, error) { return StartStores(ctx, dir, 1) }

// StartStores is StartStore with more members.
func StartStores(ctx context.Context, dir string, members int) (*Store, error) {
	img, err := lab.EtcdImage(ctx, EtcdVersion, nil)
	if err == nil {
		err = img.Binaries(filepath.Join(dir, "bin"))
	}
	if err == nil {
		err = OwnCertificate(dir, "127.0.0.1")
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "password"), []byte(storePassword+"\n"), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the store: %w", err)
	}
	s := &Store{dir: dir}
	addresses, err := freeAddresses(2 * members)
	if err != nil {
		return nil, err
	}
	s.Addresses = addresses[:members]
	s.Address = s.Addresses[0]
	var all []string
	for i, peer := range addresses[members:] {
		all = append(all, fmt.Sprintf("store%d=http://%s", i, peer))
	}
	for i, peer := range addresses[members:] {
		if err := s.start(fmt.Sprintf("store%d", i), s.Addresses[i], "http://"+peer, strings.Join(all, ",")); err != nil {
			s.Stop()
			return nil, fmt.Errorf("start the store: %w", err)
		}
	}
	if err := s.addUser(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("set up the store: %w", err)
	}
	return s, nil
}

// start starts one member.
func (s *Store) start(name, client, peer, all string) error {
	log, err := os.Create(s.file(name + ".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.dir, "bin", "etcd"), "--name="+name, "--data-dir="+s.file(name),
		"--listen-client-urls=https://"+client, "--advertise-client-urls=https://"+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster="+all,
		"--cert-file="+s.file("server.crt"), "--key-file="+s.file("server.key"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.members = append(s.members, cmd)
	s.ended.Go(func() { _ = cmd.Wait() }) // its log says why
	return nil
}

// Config is what the configuration file says of the store when it is reached at these addresses: its own, or a Wire's.
func (s *Store) Config(addresses ...string) map[string]any {
	var endpoints []string
	for _, address := range addresses {
		endpoints = append(endpoints, "https://"+address)
	}
	return map[string]any{"store": map[string]any{
		"endpoints": endpoints, "prefix": storePrefix,
		"tls":      map[string]any{"ca_file": s.file("server.crt")},
		"username": storeUser, "password_file": s.file("password"),
	}}
}

// Stop ends the store.
func (s *Store) Stop() {
	for _, cmd := range s.members {
		_ = cmd.Process.Kill() // it may be gone already
	}
	s.ended.Wait()
}

func (s *Store) file(name string) string { return filepath.Join(s.dir, name) }

// addUser makes the user and turns authentication on.
func (s *Store) addUser(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	pem, err := os.ReadFile(s.file("server.crt"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c, err := Client("https://"+s.Address, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := PutThrough(ctx, c, "probe", ""); err != nil {
		return err
	}
	var errs []error
	do := func(_ any, err error) { errs = append(errs, err) }
	do(c.UserAdd(ctx, "root", "root"))
	do(c.UserGrantRole(ctx, "root", "root"))
	do(c.RoleAdd(ctx, "cke"))
	do(c.RoleGrantPermission(ctx, "cke", storePrefix, clientv3.GetPrefixRangeEnd(storePrefix), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(c.UserAdd(ctx, storeUser, storePassword))
	do(c.UserGrantRole(ctx, storeUser, "cke"))
	do(c.AuthEnable(ctx))
	return errors.Join(errs...)
}

// OwnCertificate writes server.crt and server.key into dir: a certificate for an address that is its own authority.
func OwnCertificate(dir, address string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "store"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "server.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, "server.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	)
}

// FreeAddress returns a loopback address on which nothing listens.
func FreeAddress() (string, error) {
	all, err := freeAddresses(1)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// freeAddresses returns loopback addresses on which nothing listens.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}
