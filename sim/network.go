package sim

// Places on the network beside the nodes.
const (
	Management = "management" // where the daemons run
	Clients    = "clients"    // where the cluster's clients run
)

type link struct{ from, to string }

// Cut drops what one place sends to the other. It needs both directions to speak: a one-way cut silences both.
func (w *World) Cut(from, to string) {
	w.change("cut "+from+" → "+to, func() { w.cuts[link{from, to}] = true })
}

// Heal ends a cut.
func (w *World) Heal(from, to string) {
	w.change("heal "+from+" → "+to, func() { w.reconnect(link{from, to}) })
}

// reconnect ends a cut.
func (w *World) reconnect(l link) {
	if !w.cuts[l] {
		return
	}
	delete(w.cuts, l)
	if a, b := w.Node(l.from), w.Node(l.to); a != nil && b != nil {
		a.rejoined, b.rejoined = w.now(), w.now()
	}
}

// Isolate cuts a node off from everything, in both directions.
func (w *World) Isolate(name string) {
	w.change("isolate "+name, func() {
		for _, other := range w.places() {
			if other != name {
				w.cuts[link{name, other}], w.cuts[link{other, name}] = true, true
			}
		}
	})
}

// Rejoin ends every cut at a node.
func (w *World) Rejoin(name string) {
	w.change("rejoin "+name, func() {
		for l := range w.cuts {
			if l.from == name || l.to == name {
				w.reconnect(l)
			}
		}
	})
}

// HealNetwork ends every cut.
func (w *World) HealNetwork() {
	w.change("heal the network", func() {
		for l := range w.cuts {
			w.reconnect(l)
		}
	})
}

func (w *World) places() []string {
	all := []string{Management, Clients}
	for _, n := range w.nodes {
		all = append(all, n.name)
	}
	return all
}

// connected reports whether two places can hold a TCP connection.
func (w *World) connected(a, b string) bool {
	if len(w.cuts) > 0 && (w.cuts[link{a, b}] || w.cuts[link{b, a}]) {
		return false
	}
	for _, place := range [2]string{a, b} {
		if n := w.Node(place); n != nil && !n.awake() {
			return false
		}
	}
	return true
}
