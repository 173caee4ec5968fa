package backup

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// A key in base64 may have line ends anywhere, which decoding skips. Who forges headers can make a key of 32 KiB of it, which is kept, and quoted, for each object.
func TestLineages_KeysOfForgedHeadersTakeLittleMemory(t *testing.T) {
	const forged, most = 400, 8 << 20
	seed := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	theirs := newSigner(t)
	theirs.key = seed
	public := jsonKey(t, seed)
	theirs.public = PublicKey(public[:4] + strings.Repeat("\n", 30<<10) + public[4:])
	all, took := listedBeside(t, forged, func(h Header) ([]byte, error) {
		doc, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		return theirs.signed(doc)
	})
	if len(all[0].Untrusted) != forged {
		t.Fatalf("%d of them count", forged-len(all[0].Untrusted))
	}
	if n := len(all[0].Untrusted[0].Err.Error()); n > 1000 {
		t.Errorf("what is wrong with one takes %d bytes to say", n)
	}
	if took > most {
		t.Errorf("a list with %d forged fulls holds %d MiB, %d KiB for each", forged, took>>20, took>>10/forged)
	}
	runtime.KeepAlive(all)
}

func jsonKey(t *testing.T, key ed25519.PrivateKey) string {
	data, err := json.Marshal([]byte(key.Public().(ed25519.PublicKey)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(data), `"`)
}
