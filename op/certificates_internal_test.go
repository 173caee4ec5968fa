package op

import (
	"strings"
	"testing"
	"time"

	"cke"
)

func TestBetter_RefusesWhatIsNone(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	days := func(from, to int) cke.CertificateFiles {
		return cke.CertificateFiles{NotBefore: now.AddDate(0, 0, from), NotAfter: now.AddDate(0, 0, to)}
	}
	damaged := cke.CertificateFiles{Damage: "pki/peer.crt is missing"}
	for _, row := range []struct {
		name          string
		before, after cke.CertificateFiles
		says          string // "": nothing
	}{
		{"longer", days(-300, 65), days(0, 365), ""},
		{"instead of ended ones", days(-300, -1), days(0, 365), ""},
		{"instead of damaged ones", damaged, days(0, 365), ""},
		{"instead of such as hold later, and for longer", days(90, 455), days(0, 365), ""},
		{"no longer: the authority ends", days(-300, 65), days(0, 65), "never outlives the authority"},
		{"ended", days(-300, -1), days(-1, 0), "its certificates expired"},
		{"damaged", days(-300, 65), damaged, "pki/peer.crt is missing"},
	} {
		err := better(cke.Join{}, row.before, row.after, now)
		if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error()+strings.Join(cke.RefusalOf(err).Facts, " "), row.says) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
