package storage

import (
	"os"
	"strings"
	"testing"
)

func TestDocs_NameEveryKey(t *testing.T) {
	b, err := os.ReadFile("../docs/store.md")
	if err != nil {
		t.Fatal(err)
	}
	k := schema{}
	const c = "CLUSTER"
	keys := []string{
		k.version(), k.sealedWith(), k.globalSSHKey(), k.spec(c), k.incarnation(c), k.join(c, "JOIN"), k.hostKey(c, "ADDRESS"),
		k.offeredKey(c, "ADDRESS"), k.sshKey(c, ""), k.sshKey(c, "NODE"), k.request(c, "KIND"), k.specLog(c) + "GENERATION",
		k.secret(c, "SECRET"), k.status(c), k.records(c) + "ID", k.candidate(c, "SESSION"), k.term(c), k.archive(c, "TIME"),
		k.freeze(c), k.compared(c), k.authorities(c), k.sighting(c, "ORDER", "NODE"), k.backupCredentials(""), k.backupCredentials(c),
		k.inventory(c), k.inventoryPast(c), k.inventoryLog(c), k.inventoryTurn(), k.daemon("SESSION"), k.balance(),
	}
	for _, key := range keys {
		if !strings.Contains(string(b), "\n| `"+key+"` |") {
			t.Errorf("docs/store.md does not tell of %s", key)
		}
	}
	if told := strings.Count(string(b), "\n| `"); told != len(keys) {
		t.Errorf("docs/store.md tells of %d keys, there are %d", told, len(keys))
	}
}
