package mtest_test

import (
	"os"
	"strings"
	"testing"

	"cke"
)

// What `make demo` prints last is where to watch it.
func TestDemo_EndsWithTheAddressOfThePage(t *testing.T) {
	script, err := os.ReadFile("demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, up, _ := strings.Cut(string(script), "\nup() {\n")
	up, _, _ = strings.Cut(up, "\n}\n")
	const want = "\nThe status page: http://$listen/\nEOF"
	if !strings.HasSuffix(up, want) || !strings.Contains(up, "listen: $listen}") {
		t.Errorf("up does not end with %q:\n%s", want, up)
	}
	if !strings.Contains(string(script), "\nlisten=${CKE_DEMO_LISTEN:-"+cke.DefaultListen+"}\n") {
		t.Errorf("the daemon of the demo does not listen on %s", cke.DefaultListen)
	}
}
