package backup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
)

// besideShelf is a target with a cluster of one incarnation, a1b2, whose identity is signed.
type besideShelf struct {
	*testing.T
	*shelf
	*Store
	id cke.Identity
}

func newBesideShelf(t *testing.T) *besideShelf {
	b := newShelf()
	s := &besideShelf{t, b, ours(b, newSigner(t)), life("a1b2")}
	s.write(s.Store.Signer, "a1b2", s.id)
	return s
}

func life(id string, replaced ...string) cke.Identity {
	return cke.NewIdentity(&cke.Incarnation{ID: id, State: cke.Formed, Replaced: replaced}, nil)
}

// write stores an identity beside the backups of an incarnation.
func (b *besideShelf) write(by *Signer, lineage string, id cke.Identity) {
	b.Helper()
	data, err := json.Marshal(cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", Identity: id})
	if err != nil {
		b.Fatal(err)
	}
	s := *b.Store
	if s.Signer = by; by == nil {
		s.Trusted = nil
	}
	if err := s.PutFile(b.Context(), lineage, FileIdentity, data); err != nil {
		b.Fatal(err)
	}
}

// backUp stores a full of an incarnation.
func (b *besideShelf) backUp(by *Signer, lineage string) {
	h := fullHead(5, by)
	h.Place.Lineage = lineage
	b.shelf.put(b.T, h)
}

// named are the names of the files of a kind, the newest one last.
func (b *besideShelf) named(lineage string, kind FileKind) (all []string) {
	list, _ := b.shelf.List(b.Context(), "prod/"+lineage+"/"+string(kind)+"/")
	for _, o := range list {
		all = append(all, o.Name)
	}
	return all
}

// spoil alters an object.
func (b *besideShelf) spoil(name string) { b.objects[name] = []byte("{}") }

func (b *besideShelf) compare(had []string, accepted ...string) (*cke.Error, string) {
	b.Helper()
	refusal, notes, err := b.CompareBeside(b.Context(), cke.RestoreOrder{Source: "prod", Accepted: accepted}, had, func(context.Context) (cke.Identity, error) { return b.id, nil })
	if err != nil {
		b.Fatal(err)
	}
	return refusal, strings.Join(notes, "\n")
}

// A later incarnation has one identity, and that lost its signature: a store of before, and a new management host, do not pass it over if a trusted
// key signed backups of that incarnation. If none did, anybody may have written it, and it is noted.
func TestBeside_AnUnsignedIdentityOfALaterIncarnation(t *testing.T) {
	for what, c := range map[string]struct {
		by     func(b *besideShelf) *Signer // signed the backups
		signed bool
	}{
		"its backups are signed": {func(b *besideShelf) *Signer { return b.Store.Signer }, true},
		"by another key":         {func(b *besideShelf) *Signer { return newSigner(t) }, false},
		"its backups are not":    {func(b *besideShelf) *Signer { return nil }, false},
	} {
		for _, readable := range []bool{true, false} {
			b := newBesideShelf(t)
			b.write(nil, "c3d4", life("c3d4", "a1b2"))
			b.backUp(c.by(b), "c3d4")
			if !readable {
				b.spoil(b.named("c3d4", FileIdentity)[0])
			}
			refusal, notes := b.compare(nil)
			if c.signed && (codeOf(refusal) != cke.CodeBackupDamaged || !strings.Contains(refusal.Try, "--accept c3d4/identity")) || !c.signed && (refusal != nil || !strings.Contains(notes, "incarnation c3d4")) {
				t.Errorf("%s, readable %v: %v, notes %q", what, readable, refusal, notes)
			}
			if refusal, notes := b.compare(nil, "c3d4/identity"); refusal != nil || !strings.Contains(notes, "c3d4") {
				t.Errorf("%s, readable %v, accepted: %v, notes %q", what, readable, refusal, notes)
			}
			own, err := b.Beside(t.Context(), "a1b2")
			if err != nil {
				t.Fatal(err)
			}
			last, unread, lines, err := b.LastLife(t.Context(), own)
			if err != nil || last.Incarnation != "a1b2" || len(unread) > 0 != c.signed || !c.signed && !strings.Contains(strings.Join(lines, "\n"), "incarnation c3d4") {
				t.Errorf("%s, readable %v, a new host: the last is %s, unread %+v, notes %q, %v", what, readable, last.Incarnation, unread, lines, err)
			}
		}
	}
}

// Once it is signed again, it is read. One that is known to be earlier concerns nobody, signed or not.
func TestBeside_AnUnsignedIdentityThatConcernsNobody(t *testing.T) {
	b := newBesideShelf(t)
	b.id.Incarnation.Replaced = []string{"0000"}
	b.write(b.Store.Signer, "a1b2", b.id)
	b.write(nil, "0000", life("0000"))
	b.backUp(b.Store.Signer, "0000")
	if refusal, notes := b.compare(nil); refusal != nil || notes != "" {
		t.Errorf("%v, notes %q", refusal, notes)
	}
	b.write(b.Store.Signer, "c3d4", life("c3d4", "a1b2"))
	b.backUp(b.Store.Signer, "c3d4")
	if refusal, _ := b.compare(nil); codeOf(refusal) != cke.CodeOlderStore {
		t.Errorf("%v", refusal)
	}
}

// No identity is signed, as in the backups of an earlier version, and the newest one is damaged: it may name members that the one before it does
// not, unless the store is known to have had all of it.
func TestCompareBeside_ADamagedIdentityAmongThoseThatNobodySigned(t *testing.T) {
	b := newBesideShelf(t)
	for _, name := range append(b.named("a1b2", FileIdentity), b.named("a1b2", fileSignatures)...) {
		b.shelf.Delete(t.Context(), name)
	}
	b.write(nil, "a1b2", b.id)
	grown := b.id
	grown.Joins = []cke.Join{{ID: "j9", Incarnation: "a1b2", StartedAt: dawn}}
	b.write(nil, "a1b2", grown)
	newest := b.named("a1b2", FileIdentity)[1]
	b.spoil(newest)
	refusal, _ := b.compare(nil)
	if codeOf(refusal) != cke.CodeBackupDamaged || !strings.Contains(strings.Join(refusal.Facts, "\n"), newest) {
		t.Errorf("%v", refusal)
	}
	if refusal, notes := b.compare(nil, "a1b2/identity"); refusal != nil || !strings.Contains(notes, "which is accepted") {
		t.Errorf("accepted: %v, notes %q", refusal, notes)
	}
	if refusal, notes := b.compare([]string{sumOf(newest)}); refusal != nil || !strings.Contains(notes, "is not signed") {
		t.Errorf("known: %v, notes %q", refusal, notes)
	}
}

// Of an identity that is damaged and has no signature, where others have one, nothing but its digest shows whose it was.
func TestCompareBeside_NotesADamagedIdentityWithoutASignature(t *testing.T) {
	b := newBesideShelf(t)
	name := b.fileName("a1b2", FileIdentity, b.now().Add(1e9), []byte("it names a member"))
	b.Create(t.Context(), name, Content{Head: []byte("{}")})
	if refusal, notes := b.compare(nil); refusal != nil || !strings.Contains(notes, name) || !strings.Contains(notes, "any client of the target may have written it") {
		t.Errorf("%v, notes %q", refusal, notes)
	}
	if refusal, notes := b.compare([]string{fmt.Sprintf("%x", sha256.Sum256([]byte("it names a member")))}); refusal != nil || notes != "" {
		t.Errorf("known: %v, notes %q", refusal, notes)
	}
}

// An identity in doubt is compared with all that one is which counts: also with the restore that it shows.
func TestCompareBeside_AnIdentityInDoubtShowsARestore(t *testing.T) {
	b := newBesideShelf(t)
	b.write(b.Store.Signer, "a1b2", life("c3d4", "a1b2")) // while the restore was under way
	if refusal, _ := b.compare(nil); codeOf(refusal) != cke.CodeOlderStore {
		t.Errorf("intact: %v", refusal)
	}
	all := b.named("a1b2", fileSignatures)
	b.shelf.Delete(t.Context(), all[len(all)-1])
	if refusal, _ := b.compare(nil); codeOf(refusal) != cke.CodeBackupDamaged {
		t.Errorf("its signature is lost: %v", refusal)
	}
}

func codeOf(refusal *cke.Error) cke.Code {
	if refusal == nil {
		return ""
	}
	return refusal.Code
}

// crowded counts how many headers are read at once, and waits for another one.
type crowded struct {
	Bucket
	now, most atomic.Int32
}

func (c *crowded) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.now.Add(-1)
	time.Sleep(time.Millisecond)
	return c.Bucket.Open(ctx, name, offset, length)
}

// Anybody who may create objects puts many there that are not signed: whether one is, is found all the same, and not one after the other.
func TestSignedLineage_ReadsHeadersAtOnce(t *testing.T) {
	for _, signed := range []bool{true, false} {
		b := newBesideShelf(t)
		signer := b.Signer
		for n := range int64(100) {
			by := (*Signer)(nil)
			if signed && n == 0 {
				by = signer
			}
			h := fullHead(5+n, by)
			h.Place.Lineage = "c3d4"
			b.shelf.put(t, h)
		}
		c := &crowded{Bucket: b.Bucket}
		b.Bucket = c
		got, err := b.signedLineage(t.Context(), "c3d4")
		if err != nil || got != signed || c.most.Load() < 2 || c.most.Load() > parallel {
			t.Errorf("signed %v: got %v, %v; %d at once", signed, got, err, c.most.Load())
		}
	}
}
