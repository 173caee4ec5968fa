package keep

import (
	"fmt"
	"runtime"
	"testing"

	"cke"
)

// To find whether the past is worth storing takes memory as the number of machines does, not as its square.
func TestShape_TakesLittleMemory(t *testing.T) {
	p := cke.InventoryPast{Hosts: map[string]cke.HostPast{}}
	for i := range cke.KeptHosts {
		p.Hosts[fmt.Sprintf("machine-%d", i)] = cke.HostPast{State: cke.HostHealthy, Address: "10.0.0.1"}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := shape(p)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 20*uint64(len(text)) {
		t.Errorf("%d KiB for a text of %d KiB", took>>10, len(text)>>10)
	}
}
