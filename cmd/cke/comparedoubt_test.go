package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cke"
	"cke/backup"
)

// newestIdentity is the newest identity beside the backups, and its signature.
func (b *besideTest) newestIdentity() (file, signature string) {
	b.Helper()
	all, err := filepath.Glob(filepath.Join(b.dir, "prod", b.life, "identity", "2*"))
	mustIn(b.T)(err)
	file = all[len(all)-1]
	return file, filepath.Join(b.dir, "prod", b.life, "signatures", "identity-"+filepath.Base(file))
}

// The identity shows a restore that the store, which was set back, does not have. It is compared as one that counts is, whatever became of it.
func TestRestore_AnIdentityInDoubtShowsARestore(t *testing.T) {
	for what, c := range map[string]struct {
		harm func(b *besideTest, file, signature string)
		code cke.Code
	}{
		"intact":                {func(*besideTest, string, string) {}, cke.CodeOlderStore},
		"the signature is lost": {func(b *besideTest, _, signature string) { mustIn(b.T)(os.Remove(signature)) }, cke.CodeBackupDamaged},
		"the file is damaged":   {func(b *besideTest, _, _ string) { b.damage(b.life) }, cke.CodeBackupDamaged},
	} {
		b := newBeside(t)
		b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
		inc := *b.stored().Incarnation
		inc.ID, inc.Replaced = "c3d4", []string{b.life}
		b.put(b.signer, b.life, cke.EscrowFormat, cke.NewIdentity(&inc, nil))
		file, signature := b.newestIdentity()
		c.harm(b, file, signature)
		b.refused(what, c.code, nil)
	}
}

// A client that may create files copies an identity before the daemon, which was killed, has signed it. Later a member is added, and then the store is set
// back to before that.
func TestRestore_ACopyUnderAnotherNameHidesNoMember(t *testing.T) {
	for _, form := range []string{"", "zzzz", "99991231T235959.999Z"} {
		b := newBeside(t)
		b.put(b.signer, b.life, cke.EscrowFormat, b.stored("127.0.0.103"))
		b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
		file, signature := b.newestIdentity()
		data, err := os.ReadFile(file)
		mustIn(t)(err)
		mustIn(t)(os.Remove(signature))
		if form != "" {
			_, sum, _ := strings.Cut(filepath.Base(file), "-")
			copied := filepath.Join(filepath.Dir(file), form+"-"+sum)
			mustIn(t)(os.WriteFile(copied, data, 0o600))
			far := b.stored().Incarnation.CreatedAt.AddDate(7000, 0, 0)
			mustIn(t)(os.Chtimes(copied, far, far))
		}
		daemon := &backup.Store{Bucket: backup.Dir(b.dir), Cluster: "prod", Signer: b.signer, Trusted: []backup.PublicKey{b.signer.Public()}}
		added, err := json.Marshal(cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", Identity: b.stored("127.0.0.104")})
		mustIn(t)(err)
		for _, text := range [][]byte{data, added} {
			mustIn(t)(daemon.PutFile(t.Context(), b.life, backup.FileIdentity, text))
		}
		b.refused("a copy under "+form, cke.CodeOlderStore, []string{"the member of 127.0.0.104"})
	}
}
