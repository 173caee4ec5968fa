package plan_test

import (
	"testing"

	"cke/plan"
)

// BenchmarkMake makes plans that people wait for; the bound is 100 ms.
func BenchmarkMake(b *testing.B) {
	for _, tc := range []struct {
		name  string
		scene func() *scene
	}{
		{"3-to-5", func() *scene {
			s := founded(3, "3.6.16")
			s.obey(b, []string{"file", "1-5"})
			return s
		}},
		{"rolling-upgrade-of-5", func() *scene {
			s := founded(5, "3.6.15")
			s.obey(b, []string{"version", "3.6.16"})
			return s
		}},
		{"bootstrap-of-5", func() *scene { return unfounded(5) }},
		{"lost-data", func() *scene {
			s := founded(5, "3.6.16")
			s.obey(b, []string{"cp2", "lost"})
			return s
		}},
	} {
		in := tc.scene().Input
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p := plan.Make(b.Context(), in); p.Outcome != plan.Converged {
					b.Fatal(p.Reason)
				}
			}
		})
	}
}
