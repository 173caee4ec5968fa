package sim

// RemoveData deletes etcd's data directory in every volume, as `rm -r` does, and ends what ran on it. What else is in the
// volumes, certificates above all, stays.
func (n *Node) RemoveData() {
	n.change("a person removes the data directories", func() {
		for _, v := range n.volumes {
			v.wal = nil
		}
		n.crashAll(1, "open member/snap/db: no such file or directory")
	})
}

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
