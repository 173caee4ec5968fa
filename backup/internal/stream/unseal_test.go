package stream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"filippo.io/age"

	"cke/backup/internal/damage"
)

var errStore = errors.New("the store is gone")

// What is wrong with the bytes is damage of the backup; what is wrong with the store is none. Both may come from anywhere in a
// body, whether it is read ahead or not, encrypted or not.
func TestOpener_TellsDamageFromAStoreThatFails(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, bodies := range []struct {
		name string
		size int
		to   []age.Recipient
	}{
		{"short", 10_000, nil}, {"long", 9 * aheadPart, nil},
		{"short, encrypted", 10_000, []age.Recipient{id.Recipient()}}, {"long, encrypted", 9 * aheadPart, []age.Recipient{id.Recipient()}},
	} {
		content := noise(bodies.size)
		body, seal := sealedAs(t, content, bodies.to, true)
		f := seal.Facts()
		if long := bodies.size > 100_000; long != (f.Size > aheadPart) {
			t.Fatalf("%s: a body of %d bytes", bodies.name, f.Size)
		}
		for _, part := range []int{0, 1, 50, 99, 100} { // percent of the body that come before what happens
			at := body.Len() * part / 100
			sound, rest := body.Bytes()[:at], body.Bytes()[at:]
			broken := bytes.Clone(rest)
			if len(broken) > 0 {
				broken[0] ^= 1
			} else {
				broken = []byte{0} // something follows
			}
			for what, tc := range map[string]struct {
				then io.Reader
				fine func(err error) bool
			}{
				"sound":  {bytes.NewReader(rest), func(err error) bool { return err == nil }},
				"broken": {bytes.NewReader(broken), damage.Is},
				"cut":    {bytes.NewReader(nil), func(err error) bool { return damage.Is(err) || part == 100 && err == nil }},
				"fails": {iotest.ErrReader(errStore), func(err error) bool {
					return errors.Is(err, errStore) && !damage.Is(err) || part == 100 && err == nil
				}},
			} {
				var got bytes.Buffer
				o, err := NewOpener(f, io.MultiReader(bytes.NewReader(sound), tc.then), []age.Identity{id})
				if err == nil {
					if _, err = o.WriteTo(&got); err == nil {
						err = o.Finish()
					}
					o.Close()
				}
				if !tc.fine(err) || err == nil && !bytes.Equal(got.Bytes(), content) {
					t.Errorf("%s body, %s after %d%%: %v", bodies.name, what, part, err)
				}
			}
		}
	}
}
