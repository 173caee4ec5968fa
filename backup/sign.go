package backup

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"cke"
)

// Who can write to a target could put forged backups there: recipients are public, and digests prove nothing. So what is
// written is signed with an Ed25519 key that follows from the key file of the management hosts. A signature covers the header, and with
// it place, links and the digest of the body; or the name of a file, which has its digest.

// ErrUntrusted reports that an object is not signed by a trusted key, but should be.
var ErrUntrusted = errors.New("it is not signed by a trusted key")

// PublicKey is what a signature is checked with: an Ed25519 key in base64.
type PublicKey string

// Signer signs what is written to a target.
type Signer struct {
	key    ed25519.PrivateKey
	public PublicKey
}

const (
	signingInfo  = "cke backup signing key v1"
	signedObject = "cke backup object v1\n"
	signedFile   = "cke backup file v1\n"
)

// NewSigner returns the Signer that is derived from an age identity; nil for kinds of identities other than X25519.
func NewSigner(id age.Identity) *Signer {
	x, ok := id.(*age.X25519Identity)
	if !ok || x == nil {
		return nil
	}
	seed, err := hkdf.Key(sha256.New, []byte(x.String()), nil, signingInfo, ed25519.SeedSize)
	if err != nil {
		panic(err) // it is short enough
	}
	key := ed25519.NewKeyFromSeed(seed)
	return &Signer{key, PublicKey(base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)))}
}

// Public is the key that others check with.
func (s *Signer) Public() PublicKey { return s.public }

// SignersOf returns the public keys that are derived from age identities.
func SignersOf(ids []age.Identity) (keys []PublicKey) {
	for _, id := range ids {
		if s := NewSigner(id); s != nil && !slices.Contains(keys, s.public) {
			keys = append(keys, s.public)
		}
	}
	return keys
}

// TrustedBy returns the keys that a reader trusts: those derived from identities, and those that the operator names. any
// means to accept objects of any signer, and unsigned ones.
func TrustedBy(ids []age.Identity, named []string) (keys []PublicKey, anyone bool, err error) {
	keys = SignersOf(ids)
	for _, text := range named {
		if text == cke.TrustAny {
			anyone = true
			continue
		}
		k, err := parsePublicKey(text)
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, k)
	}
	return keys, anyone, nil
}

// parsePublicKey parses a key as `ckecli` shows it.
func parsePublicKey(text string) (PublicKey, error) {
	if PublicKey(text).bytes() == nil {
		return "", fmt.Errorf("%q is not a signing key: want the 44 characters that `ckecli backup extract` shows", text)
	}
	return PublicKey(text), nil
}

// bytes is the key itself; nil: it is none. Decoding skips line ends, of which a forged one may have many.
func (k PublicKey) bytes() ed25519.PublicKey {
	key, err := base64.StdEncoding.DecodeString(string(k))
	if err != nil || len(key) != ed25519.PublicKeySize || len(k) != base64.StdEncoding.EncodedLen(len(key)) {
		return nil
	}
	return key
}

// Signature is the key that an object is signed with, and the proof.
type Signature struct {
	Key   PublicKey `json:"key"`
	Value []byte    `json:"value"`
}

func (s *Signer) sign(what string, data []byte) Signature {
	return Signature{s.public, ed25519.Sign(s.key, append([]byte(what), data...))}
}

// verify refuses a signature that is not that key's, of that data.
func (g Signature) verify(what string, data []byte) error {
	if key := g.Key.bytes(); key == nil || !ed25519.Verify(key, append([]byte(what), data...), g.Value) {
		return damaged("its signature is invalid")
	}
	return nil
}

// signatureTail is how a header's JSON ends that is signed; what is signed is the JSON without that.
func (g Signature) tail() ([]byte, error) {
	doc, err := json.Marshal(g)
	return append(append([]byte(`,"signature":`), doc...), '}'), err
}

// signed appends a signature to a header's JSON.
func (s *Signer) signed(doc []byte) ([]byte, error) {
	tail, err := s.sign(signedObject, doc).tail()
	return append(doc[:len(doc)-1:len(doc)-1], tail...), err
}

// checkSignature checks the signature at the end of a header's JSON.
func (g Signature) checkSignature(doc []byte) error {
	tail, err := g.tail()
	if err != nil {
		return err
	}
	doc = bytes.TrimRight(doc, " ")
	if !bytes.HasSuffix(doc, tail) {
		return damaged("its signature is not at the end of its header")
	}
	return g.verify(signedObject, append(bytes.Clone(doc[:len(doc)-len(tail)]), '}'))
}

// trusts reports whether one of the keys that are trusted has signed.
func (s *Store) trusts(g *Signature) bool { return g != nil && slices.Contains(s.Trusted, g.Key) }

// judges reports whether it matters who signed what is read.
func (s *Store) judges() bool { return len(s.Trusted) > 0 && !s.AllowUntrusted }

// witness judges the objects of one chain in their order, and of what lies before it.
type witness struct {
	s *Store
	// signed: a trusted key has signed an object before.
	signed   bool
	tip      bool // so is the newest that was seen
	signing  bool // what comes of the chain is to be signed
	unsigned int
	first    string // of the objects that are not signed by a key that is trusted
	unknown  []PublicKey
}

// see takes in the next object. Without any key that is trusted all are accepted. What was written before anything was signed
// has no signature, so objects without one are accepted up to the first that has one.
func (w *witness) see(h Header) error {
	switch {
	case w.s.trusts(h.Signature):
		w.signed = w.signed || h.vouches()
		w.tip = h.vouches()
		return nil
	case h.Signature != nil && !slices.Contains(w.unknown, h.Signature.Key):
		w.unknown = append(w.unknown, h.Signature.Key)
	}
	w.tip = false
	if w.unsigned++; w.first == "" {
		w.first = h.Place.Name()
	}
	switch {
	case !w.s.judges():
		return nil
	case h.Signature != nil:
		return damaged("%w: the key is %s", ErrUntrusted, h.Signature.Key)
	case w.signed:
		return damaged("%w: it has no signature, but objects before it have one", ErrUntrusted)
	case IsImport(w.s.Cluster): // it is no older than signatures are
		return damaged("%w: it has no signature, and what is imported is signed", ErrUntrusted)
	case w.signing: // it is no damage: it can be read
		return fmt.Errorf("%w: %s has no signature, and a merge would sign its content; take a full instead (`ckecli backup now`), or accept it with --trust any, which makes a full without a signature", ErrUntrusted, h.Place.Name())
	}
	return nil
}

// vouches reports whether what follows this object was written by who signs, too. A full that was merged from unsigned objects is signed, and
// unsigned ones may follow it.
func (h Header) vouches() bool { return !h.Merged || h.SignedTip }

// anySigned reports whether anything that was seen has a signature.
func (w *witness) anySigned() bool { return w.signed || w.tip || len(w.unknown) > 0 }

// notes say what the operator should know of who wrote what was read.
func (w *witness) notes() []string {
	switch {
	case w.unsigned == 0:
		return nil
	case len(w.unknown) > 0:
		var keys []string
		for _, k := range w.unknown {
			keys = append(keys, string(k))
		}
		return []string{fmt.Sprintf("nothing here shows whether the key that signed it can be trusted: %s", strings.Join(keys, ", "))}
	case len(w.s.Trusted) == 0:
		return nil
	}
	return []string{fmt.Sprintf("%d of the objects read are not signed (%s): any client that can write to the target may have made them", w.unsigned, w.first)}
}

// seeFull starts with a full. One that is not signed is older than all that are.
func (s *Store) seeFull(ctx context.Context, w *witness, h Header) error {
	if h.Signature == nil && len(s.Trusted) > 0 {
		objects, err := s.Bucket.List(ctx, s.Cluster+"/"+h.Place.Lineage+"/"+string(KindFull)+"/")
		if err != nil {
			return fmt.Errorf("list the fulls of incarnation %s: %w", h.Place.Lineage, err)
		}
		for _, o := range objects {
			p, ok := ParsePlace(o.Name)
			if !ok || p.Revision >= h.Place.Revision {
				continue
			}
			if older, err := ReadHeader(ctx, s.Bucket, p); err == nil && s.trusts(older.Signature) && older.vouches() {
				w.signed = true
				break
			}
		}
	}
	return w.see(h)
}

// genuine leaves out of lineages the fulls that are not signed by a key that is trusted, but are newer than one that is, in any lineage. They
// must not take the place of those that retention keeps.
func (s *Store) genuine(lineages []Lineage) []Lineage {
	if !s.judges() {
		return lineages
	}
	var since time.Time // when the first full was begun that is signed
	for _, l := range lineages {
		if !l.since.IsZero() && (since.IsZero() || l.since.Before(since)) {
			since = l.since
		}
	}
	all := slices.Clone(lineages)
	for i := range all {
		all[i].Fulls = slices.DeleteFunc(slices.Clone(all[i].Fulls), func(f Entry) bool {
			return !since.IsZero() && !f.Time.Before(since) && !all[i].signed(f)
		})
	}
	return all
}
