package strategy

// rule is one case of the strategy: its condition and its choice, in one function.
type rule struct {
	name  string
	judge func(*Input) verdict
}

// phases are states of the cluster as a whole. The first one that applies decides, also while its operation is held back.
var phases = []rule{
	{"note returned", noteReturned},
	{"delete", deleteCluster},
	{"restore asked", restoreAsked},
	{"frozen", frozen},
	{"paused", paused},
	{"restoring", restoring},
	{"forming", formingCluster},
	{"hibernated", hibernated},
}

// duties are what a cluster in none of these phases needs. The first one whose operation can run now decides.
// docs/strategy.md has the reasons for the order. The functions are below, or in the files of what they share with others.
var duties = []rule{
	{"renew certificates that do not hold", brokenCertificates},
	{"stop members put aside", putAside},
	{"reboots and repairs under way", queuesUnderWay},
	{"start stopped members", startStopped},
	{"let engines start members", keptDown},
	{"observe in full", lookInFull},
	{"start members with other options", startChanged},
	{"record starts", recordStart},
	{"remove what a canceled restore prepared", cleanUpPrepared},
	{"stop what a restore replaced", replacedRuns},
	{"no quorum", withoutQuorum},
	{"let clients write", letWrite},
	{"clean up abandoned incarnations", cleanUp},
	{"bootstrap", bootstrapCluster},
	{"member list unknown", listUnknown},
	{"authentication refuses cke", authRefuses},
	{"asked", asked},
	{"ended membership", endedMembership},
	{"remove unhealthy foreign members", unhealthyStrangers},
	{"import is over", importOver},
	{"change of address", changeAddress},
	{"remove unhealthy members of undeclared nodes", removeUnhealthy},
	{"promote", promote},
	{"replace lost data", replaceLost},
	{"stop strays", strays},
	{"mark ended memberships", markEnded},
	{"renew certificates", renewCertificates},
	{"issue certificates of the next authority", reissueCertificates},
	{"withdraw stuck learners", stuckLearner},
	{"finish adding", finishAdding},
	{"replace the authority of the old cluster", importedAuthority},
	{"replace authorities", advanceAuthority},
	{"containers that could bootstrap", couldFound},
	{"drift", drift},
	{"database full", fullDatabase},
	{"remove volumes of learners", learnerVolumes},
	{"add members", addMember},
	{"members of the old cluster leave", oldLeave},
	{"remove healthy foreign members", healthyStrangers},
	{"remove healthy members of undeclared nodes", removeHealthy},
	{"reboot or repair next", queueNext},
	{"import is reverted", importReverted},
	{"catching up", catchingUp},
	{"wait for members", waitForMembers},
	{"finding is over", findingOver},
	{"compare data", compareDue},
	{"defragment", fragmented},
	{"remove old volumes", expiredVolumes},
	{"wait for leases", waitForLeases},
}

// Rules returns the names of all rules, in the order in which Decide asks them.
func Rules() []string {
	var names []string
	for _, list := range [][]rule{phases, duties} {
		for _, r := range list {
			names = append(names, r.name)
		}
	}
	return names
}
