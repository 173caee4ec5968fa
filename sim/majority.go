package sim

// mostVoters and majority are etcd's own, not cke's: the world must be able to disagree with what it judges.
const mostVoters = 7

func majority(voters int) int { return voters/2 + 1 }
