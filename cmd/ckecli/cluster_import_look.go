package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/etcdnode"
	"cke/pki"
	"cke/quorum"
)

// oldPlan is what an import would do, as `cluster import --plan` writes it for programs.
type oldPlan struct {
	Cluster   string          `json:"cluster"`
	ClusterID string          `json:"clusterID"`
	Version   string          `json:"version"` // of the oldest old member
	Size      int64           `json:"size"`    // bytes of the largest database
	Peers     string          `json:"peers"`
	Clients   string          `json:"clients"`
	Until     time.Time       `json:"until,omitzero"` // when the client certificate that is handed over expires
	Old       []cke.OldMember `json:"old"`
	Steps     []oldStep       `json:"steps"`
}

// oldStep is one change of the member list, with what can fail after it.
type oldStep struct {
	What    string `json:"what"`
	Old     int    `json:"old"`
	Own     int    `json:"own"`
	CanLose int    `json:"canLose"`
}

// oldCluster is an etcd that is to be imported.
type oldCluster struct {
	cluster cke.Cluster
	list    []cke.Member
	answers []cke.EndpointStatus
	old     cke.Import
	secrets map[string][]byte
	plan    oldPlan
}

// lookOld asks the old cluster about itself and plans its import. It changes nothing.
func lookOld(ctx context.Context, a *app, c cke.Cluster, o importOptions) (*oldCluster, error) {
	i := &oldCluster{cluster: c, secrets: map[string][]byte{}, plan: oldPlan{Cluster: c.Name}}
	shown, err := o.client(i.secrets)
	if err != nil {
		return nil, err
	}
	if shown != nil && len(shown.Certificates) > 0 {
		i.plan.Until = shown.Certificates[0].Leaf.NotAfter.UTC()
	}
	ctx, cancel := context.WithTimeout(ctx, importTakes)
	defer cancel()
	fleet := etcdnode.New(etcdnode.Config{OldTLS: func(context.Context) (*tls.Config, error) { return shown, nil }})
	defer fleet.Close()
	if err := i.ask(ctx, fleet, o.endpoints); err != nil {
		return nil, err
	}
	if err := i.fits(ctx, fleet); err != nil {
		return nil, refused(err)
	}
	if err := i.peers(ctx, o); err != nil {
		return nil, err
	}
	i.steps()
	return i, nil
}

func notImportable(try, format string, args ...any) *cke.Error {
	return &cke.Error{Code: cke.CodeOldCluster, What: fmt.Sprintf(format, args...), Unchanged: true, Try: try}
}

// client reads what the old members are asked with, and adds it to the secrets; nil: they are asked without TLS.
func (o importOptions) client(secrets map[string][]byte) (*tls.Config, error) {
	if o.caCert+o.cert+o.key == "" {
		return nil, nil
	}
	var files [3][]byte
	for i, name := range []string{o.cert, o.key, o.caCert} {
		if name == "" {
			continue
		}
		var err error
		if files[i], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	value, err := pki.OldClient(files[0], files[1], files[2])
	if err != nil {
		return nil, refused(notImportable("--cacert, and --cert with --key", "cannot ask the old members with these files: %v", err))
	}
	secrets[cke.ImportSecret] = value
	return pki.OldClientTLS(value)
}

// ask reads the member list through the named endpoints, and asks every member of it.
func (i *oldCluster) ask(ctx context.Context, fleet *etcdnode.Fleet, endpoints []string) error {
	watch := func(urls []string) {
		at := cke.Import{}
		for _, text := range urls {
			at.Members = append(at.Members, cke.OldMember{URL: text})
		}
		fleet.Update(cke.Cluster{Name: i.cluster.Name}, cke.Identity{Incarnation: &cke.Incarnation{State: cke.Formed, Import: &at}})
	}
	urls := slices.Clone(endpoints)
	for n, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usageError{fmt.Errorf("--endpoint %q is no http or https URL", text), "ckecli cluster import"}
		}
		urls[n] = u.Scheme + "://" + u.Host
	}
	watch(urls)
	var failed []string
	for _, text := range urls {
		id, list, err := fleet.Members(ctx, text)
		switch {
		case err != nil:
			failed = append(failed, err.Error())
		case i.plan.ClusterID != "" && i.plan.ClusterID != id:
			return refused(notImportable("name members of one cluster", "the endpoints are of two clusters, %s and %s", i.plan.ClusterID, id))
		default:
			i.plan.ClusterID, i.list = id, list
		}
	}
	if i.list == nil {
		e := notImportable("--endpoint with the client URL of a member, and --cacert, --cert and --key if it serves with TLS", "no member of the old cluster answers")
		e.Facts = failed
		return e
	}
	for _, m := range i.list {
		for _, text := range m.ClientURLs {
			if !slices.Contains(urls, text) {
				urls = append(urls, text)
			}
		}
	}
	watch(urls)
	for _, m := range i.list {
		if !i.answered(ctx, fleet, urls, m) {
			return refused(notImportable("--endpoint with its client URL, which this host and every management host must reach", "member %s of the old cluster does not answer", m.Name))
		}
	}
	return nil
}

// answered asks for the answer of a member, at the URLs that it lists first.
func (i *oldCluster) answered(ctx context.Context, fleet *etcdnode.Fleet, urls []string, m cke.Member) bool {
	turn := func(text string) int { return -slices.Index(m.ClientURLs, text) }
	for _, text := range slices.SortedStableFunc(slices.Values(urls), func(a, b string) int { return turn(a) - turn(b) }) {
		if e := fleet.Endpoint(ctx, text); e.Problem == "" && e.MemberID == m.ID {
			i.answers = append(i.answers, e)
			i.old.Members = append(i.old.Members, cke.OldMember{ID: m.ID, Name: m.Name, URL: text})
			return true
		}
	}
	return false
}

// fits refuses an old cluster that cke could not take over as it is.
func (i *oldCluster) fits(ctx context.Context, fleet *etcdnode.Fleet) *cke.Error {
	if why := cke.Importable(i.cluster, i.list); why != nil {
		return why
	}
	wants, declared := cke.ParseVersion(i.cluster.Options.Etcd.NamedVersion())
	for n, e := range i.answers {
		name := i.old.Members[n].Name
		has, known := cke.ParseVersion(e.Version)
		switch {
		case e.Denied:
			return notImportable("etcdctl auth disable, or import from a snapshot: see docs/import.md", "etcd's authentication is on in the old cluster, and cke cannot take it over live")
		case !e.Healthy() || !e.Linearizable:
			why := notImportable("repair the old cluster first", "member %s of the old cluster does not serve", name)
			why.Facts = e.Errors
			return why
		case e.NoSpace || e.Corrupt:
			return notImportable("etcdctl alarm list", "the old cluster has an alarm")
		case !known || has.Major != 3 || has.Minor < oldestImport || has.Corrupts():
			return notImportable("upgrade the old cluster first", "member %s of the old cluster runs etcd %s, which cke does not manage", name, e.Version)
		case declared && (has.Minor != wants.Minor || wants.Compare(cke.GoodRelease(has.Minor)) < 0): // earlier ones keep a wrong list after some removals and promotions
			return notImportable(fmt.Sprintf("declare options.etcd.version %s or later of 3.%d, and upgrade after the import", cke.GoodRelease(has.Minor), has.Minor),
				"member %s of the old cluster runs etcd %s, and %s is declared", name, e.Version, wants)
		}
		if oldest, told := cke.ParseVersion(i.plan.Version); !told || has.Compare(oldest) < 0 {
			i.plan.Version = e.Version
		}
		i.plan.Size = max(i.plan.Size, e.DBSize)
	}
	state, err := fleet.Auth(ctx, i.old.Members[0].URL)
	if err != nil || state.Enabled {
		why := notImportable("etcdctl auth disable, or import from a snapshot: see docs/import.md", "etcd's authentication is on in the old cluster, or cke cannot read whether it is")
		why.Err = err
		return why
	}
	return nil
}

// peers plans how members speak to their peers, with the peer authority that is handed over.
func (i *oldCluster) peers(ctx context.Context, o importOptions) error {
	plain, err := cke.PlainPeers(i.list)
	if err != nil {
		return refused(notImportable("let all of them use TLS, or none", "%v", err))
	}
	i.old.PlainPeers, i.old.PeerAuthority = plain, !plain
	i.plan.Clients = "the old members keep serving at their URLs until each leaves; those of cke serve at https with certificates of cke"
	i.plan.Old = i.old.Members
	if plain {
		i.plan.Peers = "without TLS, also of the members of cke, until the last old member has left; then with TLS, restarted one by one"
		return nil
	}
	i.plan.Peers = "with certificates of the old peer authority until the last old member has left; then it is replaced"
	if o.peerCert == "" || o.peerKey == "" {
		return refused(notImportable("--peer-cacert FILE --peer-key FILE", "the old members use TLS between peers, and their peer authority is not handed over"))
	}
	certificate, err := os.ReadFile(o.peerCert)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(o.peerKey)
	if err != nil {
		return err
	}
	value, err := pki.OldAuthority(certificate, key)
	if err != nil {
		return refused(notImportable("--peer-cacert and --peer-key with one authority", "the peer authority cannot be used: %v", err))
	}
	if err := i.signed(ctx, certificate); err != nil {
		return refused(err)
	}
	i.secrets[cke.AuthoritySecret(cke.PeerAuthority, 0)] = value
	return nil
}

// signed refuses an authority that has not signed what the old members show their peers.
func (i *oldCluster) signed(ctx context.Context, authority []byte) *cke.Error {
	pool := x509.NewCertPool()
	if block, _ := pem.Decode(authority); block != nil { // only the first one is stored
		pool.AppendCertsFromPEM(pem.EncodeToMemory(block))
	}
	for _, m := range i.list {
		u, err := url.Parse(m.PeerURLs[0])
		if err != nil {
			return notImportable("", "member %s of the old cluster has peer URL %q", m.Name, m.PeerURLs[0])
		}
		checked := false
		shown := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: u.Hostname(), VerifyConnection: func(tls.ConnectionState) error { checked = true; return nil }}
		conn, err := (&tls.Dialer{Config: shown}).DialContext(ctx, "tcp", u.Host)
		if err == nil {
			conn.Close()
		}
		if !checked { // what the member says of a client without a certificate comes after that
			why := notImportable("--peer-cacert with the authority that etcd's --peer-trusted-ca-file names", "member %s of the old cluster does not show a certificate of that peer authority at %s", m.Name, m.PeerURLs[0])
			why.Err = err
			return why
		}
	}
	return nil
}

// steps are the changes of the member list.
func (i *oldCluster) steps() {
	old, own := len(i.list), 0
	add := func(what string) {
		n := old + own
		i.plan.Steps = append(i.plan.Steps, oldStep{strings.TrimSpace(what), old, own, n - quorum.Of(n)})
	}
	add("now")
	for _, n := range i.cluster.ControlPlane() {
		own++
		add(n.Name() + " joins as a learner, then votes")
	}
	for range i.list {
		old--
		add("an old member leaves")
	}
}
