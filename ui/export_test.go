package ui

// Renders is how often the parts of a page were rendered.
func (p *Page) Renders() int { return int(p.hub.renders.Load()) }

// Viewers is how many streams are open.
func (p *Page) Viewers() int {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.hub.viewers
}

// MostViewers and ShownText are bounds.
const (
	MostViewers = mostViewers
	ShownText   = shownText
)
