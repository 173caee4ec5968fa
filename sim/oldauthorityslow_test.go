package sim_test

import (
	"testing"
	"time"

	"cke"
)

// The authority of peers is being replaced: two of four members have certificates of the next one. A copy of the store from before that is brought back, while
// engines answer after 4 seconds, which all else waits for. Certificates are renewed.
func TestOlderStore_SlowEnginesMakeMembersDistrustEachOther(t *testing.T) {
	for name, slow := range map[string]time.Duration{"fast": 0, "4 s": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			play(t, 4, func(s *stage) {
				s.target = ""
				s.declare(s.Nodes()...)
				s.daemon()
				s.must("formed", s.settled)
				s.pass(time.Minute)
				copied := s.Store().Copy()
				s.ask(cke.TaskRotate, "", string(cke.PeerAuthority), "")
				s.must("issues", func() bool { return s.phase(cke.PeerAuthority) == cke.AuthorityIssues })
				renewed := func() (n int) {
					for _, r := range s.Store().Records() {
						if r.Operation == "renew-certificates" && r.State == cke.RecordCompleted {
							n++
						}
					}
					return n
				}
				before := renewed()
				s.must("two of four", func() bool { return renewed() == before+2 })
				s.latest().Kill()
				for _, n := range s.Nodes() {
					n.SlowDown(slow)
				}
				s.broughtBack(copied)
				s.CertificatesLast(16 * time.Hour)
				s.goesOn(12 * time.Hour)
				for _, n := range s.Nodes() { // what runs has the files with which it was started
					n.Reboot()
					s.goesOn(10 * time.Minute)
				}
				if _, status := s.latest().now(); !s.Write("n1", "kept") {
					t.Errorf("clients are served no more: %s: %s", status.Health, status.Summary)
				}
				s.unbroken(t)
			})
		})
	}
}
