package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
)

// ParseRecipients parses age recipients, one per string. For none it returns nil, and backups are not encrypted.
func ParseRecipients(recipients []string) ([]age.Recipient, error) {
	if len(recipients) == 0 {
		return nil, nil
	}
	rs, err := age.ParseRecipients(strings.NewReader(strings.Join(recipients, "\n")))
	if err != nil {
		return nil, fmt.Errorf("read age recipients: %w", err)
	}
	return rs, nil
}

// RecipientsID identifies a set of recipients: the digest of their public keys. It is empty for none, and for keys that
// do not reveal themselves.
func RecipientsID(recipients []age.Recipient) string {
	if len(recipients) == 0 {
		return ""
	}
	var keys []string
	for _, r := range recipients {
		public, ok := r.(fmt.Stringer)
		if !ok {
			return ""
		}
		keys = append(keys, public.String())
	}
	slices.Sort(keys)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(keys), "\n")))
	return hex.EncodeToString(sum[:16])
}

// ParseIdentities parses an age identity file.
func ParseIdentities(file string) ([]age.Identity, error) {
	ids, err := age.ParseIdentities(strings.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("read age identities: %w", err)
	}
	return ids, nil
}

// Opens reports whether one of the identities decrypts what is encrypted for these recipients. An encrypted body does not
// show its recipients.
func Opens(recipients []age.Recipient, identities []age.Identity) bool {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipients...)
	if err != nil || w.Close() != nil || len(identities) == 0 {
		return false
	}
	_, err = age.Decrypt(&b, identities...)
	return err == nil
}
