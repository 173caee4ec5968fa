package cke

// Codes. A code never changes its meaning and is never used again; docs/codes.md is generated from Explain.
const (
	CodeInternal  Code = "CKE100"
	CodeConfig    Code = "CKE101"
	CodeStore     Code = "CKE102"
	CodeConflict  Code = "CKE103"
	CodeQuorum    Code = "CKE104"
	CodeSecret    Code = "CKE105"
	CodeCluster   Code = "CKE106"
	CodeConfirm   Code = "CKE107"
	CodeNoLeader  Code = "CKE108"
	CodeUnformed  Code = "CKE109"
	CodeNotPaused Code = "CKE110"

	CodeUnreachable  Code = "CKE201"
	CodeSSHAuth      Code = "CKE202"
	CodeHostKey      Code = "CKE203"
	CodeEngine       Code = "CKE204"
	CodeForward      Code = "CKE205"
	CodeSSHKey       Code = "CKE206"
	CodeDiskFull     Code = "CKE207"
	CodePortTaken    Code = "CKE208"
	CodeForeignEtcd  Code = "CKE209"
	CodeLeftover     Code = "CKE210"
	CodeImage        Code = "CKE211"
	CodeEtcdExited   Code = "CKE212"
	CodeDataMissing  Code = "CKE213"
	CodeNoSSHKey     Code = "CKE214"
	CodeMemberSilent Code = "CKE215"

	CodeBlankNodes Code = "CKE301"
	CodeSplitBrain Code = "CKE302"
	CodeNoQuorum   Code = "CKE303"
	CodeFounderGap Code = "CKE304"
	CodeNotApplied Code = "CKE305"
)

// Explanation is what `ckecli help CODE` prints.
type Explanation struct {
	Code    Code
	Title   string
	Meaning string
	WayOut  string
}

// Explain returns the explanation of every code, in order of the codes.
func Explain() []Explanation {
	return []Explanation{
		{CodeInternal, "Unexpected failure", "Something failed that has no code of its own; the message has the cause.", "Read the cause; if it makes no sense, it is a fault in cke worth reporting."},
		{CodeConfig, "Faulty configuration", "A configuration or cluster file is not as it must be. Every fault is listed with file and line.", "Correct the lines named and run the command again. `ckecli cluster validate FILE` checks without changing anything."},
		{CodeStore, "Store unreachable", "The store (embedded in the cke daemon, or an external etcd) does not answer.", "Start cke (`systemctl start cke`), or check `store:` in the configuration file and the etcd it names."},
		{CodeConflict, "Changed by somebody else", "What was to be changed has another revision than the one expected.", "Read the present state (`ckecli cluster get`) and repeat the change on it."},
		{CodeQuorum, "Quorum would be lost", "The operation would leave fewer healthy voters than the quorum of the member list after it.", "Bring members back first, or replace the dead one."},
		{CodeSecret, "Secret key missing or wrong", "The key file that unseals CA keys and SSH keys is missing, unreadable, or not the one the store was sealed with. A new key is never made over old data.", "Put the right key file back (`secret_key_file`), readable by cke only."},
		{CodeCluster, "No such cluster, or more than one", "The command needs one cluster and could not tell which.", "List them with `ckecli cluster list` and name one with --cluster."},
		{CodeConfirm, "Not confirmed", "The command destroys or replaces something and was not confirmed.", "Confirm on the terminal, or with --confirm NAME."},
		{CodeNoLeader, "No daemon leads the cluster", "No cke daemon holds the leadership of this cluster, or none has told its status yet.", "Start cke on a management host and read its log."},
		{CodeUnformed, "Not formed yet", "The cluster has not been founded, or its founding has not ended. No client is served before that.", "Wait until `ckecli status` says READY; it names what the founding waits for."},
		{CodeNotPaused, "Not paused", "There is no pause to end: nobody asked for one, it has ended by itself, or somebody has resumed already.", "Nothing is to be done; `ckecli status` says when a cluster is paused, and by whom."},
		{CodeUnreachable, "Node unreachable", "The node's sshd did not answer in time. An unreachable node may hold data: nothing is decided against it.", "Check power, network and sshd of the node; cke goes on by itself once it answers."},
		{CodeSSHAuth, "SSH login refused", "The node's sshd refused the key.", "Put cke's public key into the user's authorized_keys on the node, or set the right key with `ckecli ssh-key set`."},
		{CodeHostKey, "Host key changed", "The node shows another host key than the pinned one: another machine, a reinstalled one, or an attack.", "If the change is intended: `ckecli node accept-key NODE`."},
		{CodeEngine, "Docker engine does not answer", "SSH works, but the Docker engine behind it does not answer.", "On the node: `systemctl status docker`; restart it if it hangs."},
		{CodeForward, "Socket forwarding refused", "sshd refused to forward to the Docker socket: it is missing, forbidden for this key, or not readable by the user.", "On the node: check that /var/run/docker.sock exists, the user may open it, and the key's line allows port forwarding."},
		{CodeSSHKey, "Unusable SSH key", "The SSH private key cannot be used, for example because a passphrase protects it.", "Set a key without passphrase: `ckecli ssh-key set FILE`."},
		{CodeDiskFull, "No room on the node's disk", "The engine could not write: no space left on device.", "Free space under the engine's data directory (`docker system df`), cke goes on by itself."},
		{CodePortTaken, "etcd port taken", "Something listens on the client or peer port that etcd is to use, and it is no container of this cluster.", "Find it on the node with `ss -ltnp`, stop it, or choose other ports in the cluster file."},
		{CodeForeignEtcd, "Foreign etcd on the node", "An etcd container that cke did not make is on the node.", "Remove it, or take the node out of the cluster file. cke never touches what it did not make."},
		{CodeLeftover, "Leftover data of this cluster", "The node has a volume or container of a cluster of this name, from another life. It may hold data that somebody wants.", "If it is not needed: remove the container and the volume on the node with docker; else bring it back with a restore."},
		{CodeImage, "Image not available", "The etcd image is not on the node, in no archive on the management host, and could not be pulled.", "Put `docker save` output of the image into images.archive_dir, or make the registry reachable from the node."},
		{CodeEtcdExited, "etcd stopped", "The etcd process of a member ended; its last words are quoted.", "cke starts it again on its own data; if it keeps ending, the quoted words say why."},
		{CodeDataMissing, "A member's data is gone", "The node and its engine answer, and the member's volume is missing or holds no write-ahead log. A member is never started empty under its old id.", "Bring the volume back, or replace the member."},
		{CodeNoSSHKey, "No SSH key", "cke has no key to log in to the node with.", "`ckecli ssh-key set FILE`"},
		{CodeMemberSilent, "Member does not answer", "The container runs, but etcd does not answer its client port.", "Read the container's log; check the firewall between the management host and the client port."},
		{CodeBlankNodes, "All nodes are blank", "The cluster was formed, but no node holds any of its data any more. A second cluster is never bootstrapped under the same name.", "Bring the nodes or their disks back, or restore from a backup."},
		{CodeSplitBrain, "Cluster id mismatch", "Members answer with a cluster id other than the one on record: two clusters carry this name. Everything is frozen.", "Compare the members, stop the wrong ones, and keep both data directories until you know."},
		{CodeNoQuorum, "Quorum lost", "Fewer members answer than quorum needs. Known members are started on their own data; nothing else is changed.", "Bring nodes back; what is missing is listed."},
		{CodeFounderGap, "Bootstrap waits for a founder", "A bootstrap began and a founding node is not available now. It resumes with the same identity.", "Bring the node back, or take it out of the cluster file: the bootstrap is then abandoned and begun again, no client has been served."},
		{CodeNotApplied, "Not as declared", "The running cluster differs from the cluster file in its members or options.", "`ckecli status` names each difference."},
	}
}
