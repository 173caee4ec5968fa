package strategy_test

import (
	"testing"

	"cke"
	"cke/server/strategy"
)

// benchScenes are clusters of seven members, the most that etcd bears well.
func benchScenes() map[string]*scene {
	made := func(s *scene) { // containers tell with which options they were made
		for i := range s.Identity.Joins {
			s.made(i + 1)
		}
	}
	return map[string]*scene{
		"ready":    formed(7).certified(300, 300, 300, 300, 300, 300, 300).indices(1000, 1000, 999, 998, 1000, 1000, 990, 1000).with(made),
		"degraded": formed(7).silent(6, 7).stopped(3),
		"lost":     formed(7).silent(4, 5, 6, 7).lost(),
		"blank":    blank(7),
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, s := range benchScenes() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if strategy.Decide(s.Input).Reason == "" {
					b.Fatal("no reason")
				}
			}
		})
	}
}

func BenchmarkReport(b *testing.B) {
	for name, s := range benchScenes() {
		b.Run(name, func(b *testing.B) {
			d := strategy.Decide(s.Input)
			prev := strategy.Report(s.Input, d, cke.Status{})
			b.ReportAllocs()
			for b.Loop() {
				if strategy.Report(s.Input, d, prev).Reason == "" {
					b.Fatal("no reason")
				}
			}
		})
	}
}
