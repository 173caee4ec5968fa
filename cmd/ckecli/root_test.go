package main

import "testing"

// Nobody has to read what Go's parsers say, and no number is taken that means nothing.
func TestUsage_SaysWhatIsWanted(t *testing.T) {
	h := declared(t)
	for _, c := range []struct {
		says string
		args []string
	}{
		{`error: -n, --number: invalid value "x": want a whole number`, []string{"history", "-n", "x"}},
		{"error: -n -3 is negative", []string{"history", "-n", "-3"}},
		{"error: -n -3 is negative", []string{"cluster", "log", "-n", "-3"}},
		{`error: --for: invalid value "3d": want a number with s, m or h, as 90s, 10m or 2h`, []string{"node", "drain", "cp2", "--for", "3d"}},
		{`error: --timeout: invalid value "5": want a number with s, m or h`, []string{"status", "--timeout", "5"}},
		{"a snapshot is not written to standard output", []string{"backup", "extract", "-"}},
		{"error: unknown command \"status\" for \"ckecli cluster\"; did you mean `ckecli status`?", []string{"cluster", "status"}},
		{"error: unknown command \"nonsense\" for \"ckecli cluster\"\n", []string{"cluster", "nonsense"}},
		{"error: unknown command \"user-add\" for \"ckecli etcd\"; it is `ckecli etcd user add NAME --prefix PREFIX` here", []string{"etcd", "user-add", "app", "/app/"}},
		{"error: unknown command \"local-backup\" for \"ckecli etcd\"; it is `ckecli backup now` here", []string{"etcd", "local-backup"}},
		{"error: unknown command \"delet\" for \"ckecli cluster\"; did you mean delete?", []string{"cluster", "delet"}},
	} {
		_, stderr := h.run(exitUsage, c.args...)
		contains(t, stderr, c.says)
	}
}
