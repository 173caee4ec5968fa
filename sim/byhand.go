package sim

// StartByHand starts every container that is stopped, as `docker start` does.
func (n *Node) StartByHand() {
	n.change("a person starts the containers", func() {
		for _, c := range n.sorted() {
			if !c.Running() {
				c.run()
			}
		}
	})
}
