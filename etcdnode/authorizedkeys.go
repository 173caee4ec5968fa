package etcdnode

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// KeyChange is what was done to a user's authorized_keys.
type KeyChange string

// Changes of authorized_keys.
const (
	KeyPresent   KeyChange = "present"   // the line was there
	KeyInstalled KeyChange = "installed" // it was added
	KeyReplaced  KeyChange = "replaced"  // others with the same key were removed
)

// withKey returns the text of an authorized_keys that has a line, and no other line with the same key; others are those that it
// had. All other lines stay as they are.
func withKey(old []byte, line string) (text []byte, change KeyChange, others []string, err error) {
	wanted, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, "", nil, fmt.Errorf("%q is no line of authorized_keys: %w", shorten(line, 60), err)
	}
	present := false
	var kept []string
	for l := range strings.Lines(string(old)) {
		key, _, has, _, err := ssh.ParseAuthorizedKey([]byte(l))
		switch {
		case err != nil || !bytes.Equal(key.Marshal(), wanted.Marshal()):
			kept = append(kept, l)
		case slices.Equal(has, options):
			present = true
			kept = append(kept, l)
		default:
			others = append(others, strings.TrimSpace(l))
		}
	}
	if present && len(others) == 0 {
		return old, KeyPresent, nil, nil
	}
	if n := len(kept); n > 0 && !strings.HasSuffix(kept[n-1], "\n") {
		kept[n-1] += "\n"
	}
	if !present {
		kept = append(kept, line+"\n")
	}
	change = KeyInstalled
	if len(others) > 0 {
		change = KeyReplaced
	}
	return []byte(strings.Join(kept, "")), change, others, nil
}
