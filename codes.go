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
	CodeCannot    Code = "CKE111"
	CodeDrain     Code = "CKE112"
	CodeVersion   Code = "CKE113"
	CodeInterrupt Code = "CKE114"
	CodeSchema    Code = "CKE115"

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
	CodeCertificates Code = "CKE216"
	CodeClock        Code = "CKE217"
	CodeSlowLearner  Code = "CKE218"
	CodeCouldFound   Code = "CKE219"
	CodeMisnamed     Code = "CKE220"
	CodeAnswer       Code = "CKE222"

	CodeLearnersFail Code = "CKE224"
	CodeDiscarded    Code = "CKE225"
	CodeRepeats      Code = "CKE226"
	CodeNotStored    Code = "CKE227"
	CodeAboveQuota   Code = "CKE228"
	CodeOptions      Code = "CKE230"

	CodeBlankNodes Code = "CKE301"
	CodeSplitBrain Code = "CKE302"
	CodeNoQuorum   Code = "CKE303"
	CodeFounderGap Code = "CKE304"
	CodeNotApplied Code = "CKE305"

	CodeUnequalData Code = "CKE306"
	CodeStranger    Code = "CKE307"
	CodeNoSpace     Code = "CKE308"
	CodeFrozen      Code = "CKE309"
	CodeVolume      Code = "CKE310"
	CodeFence       Code = "CKE313"
	CodeAwaiting    Code = "CKE314"
	CodeWentBack    Code = "CKE315"
	CodeOlderStore  Code = "CKE317"
	CodeNotOnRecord Code = "CKE318"
	CodeUnseen      Code = "CKE324"
	CodeAuth        Code = "CKE325"
	CodeNoWrites    Code = "CKE326"
	CodeAuthority   Code = "CKE327"

	CodeBackupDamaged Code = "CKE401"
	CodeNotCovered    Code = "CKE402"
	CodeBackupKey     Code = "CKE403"
	CodeBackupEmpty   Code = "CKE404"
	CodeTarget        Code = "CKE405"
	CodeBackupRefused Code = "CKE406"
	CodeNoBackup      Code = "CKE407"
	CodeNotBackedUp   Code = "CKE408"
	CodeStaleBackup   Code = "CKE409"
	CodeNotBooted     Code = "CKE410"
	CodeOtherHistory  Code = "CKE411"
	CodeBackupsBusy   Code = "CKE414"
	CodeOtherTarget   Code = "CKE415"
	CodeUntrusted     Code = "CKE417"
	CodeBackupFault   Code = "CKE418"
	CodeLostBackups   Code = "CKE419"
	CodeOverwrites    Code = "CKE420"
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
		{CodeQuorum, "Quorum would be lost", "The operation would leave fewer healthy voters than the quorum of the member list after it.", "Bring members back first, or give the dead one up for a fresh one: `ckecli replace NODE`."},
		{CodeSecret, "Secret key missing or wrong", "The key file that unseals CA keys and SSH keys is missing, unreadable, or not the one the store was sealed with. A new key is never made over old data.", "Put the right key file back (`secret_key_file`), readable by cke only."},
		{CodeCluster, "No such cluster, or more than one", "The command needs one cluster and could not tell which.", "List them with `ckecli cluster list` and name one with --cluster."},
		{CodeConfirm, "Not confirmed", "The command destroys or replaces something, or lets fewer members be lost than before, and was not confirmed.", "Confirm on the terminal, or with --confirm NAME or --yes as the message says."},
		{CodeNoLeader, "No daemon leads the cluster", "No cke daemon holds the leadership of this cluster, or none has told its status yet.", "Start cke on a management host and read its log."},
		{CodeUnformed, "Not formed yet", "The cluster has not been founded, or its founding has not ended. No client is served before that.", "Wait until `ckecli status` says READY; it names what the founding waits for."},
		{CodeNotPaused, "Not paused", "There is no pause to end: nobody asked for one, it has ended by itself, or somebody has resumed already.", "Nothing is to be done; `ckecli status` says when a cluster is paused, and by whom."},
		{CodeCannot, "Not possible as the cluster is", "What was asked for needs something that is not so: a node that the cluster does not know, a member that is not there, or a state that excludes it. Nothing was changed.", "The message says what is missing; `ckecli status` shows the members and their nodes."},
		{CodeDrain, "Another maintenance lease", "At most one node of a cluster is drained at a time, so that two reboots never meet.", "Wait until the other lease ends, or end it with `ckecli node undrain NODE`."},
		{CodeVersion, "Version out of reach", "No member could ever run the version that is asked for: etcd upgrades one minor version at a time, from a patch level that knows the next one, and once all members run a new minor version the data has left the one before.", "Store the versions that the message names, one after the other. Back to a version that the data has left leads only a restore from a backup that was taken before."},
		{CodeInterrupt, "Service would be interrupted", "One or two voters cannot be restarted without a moment in which nobody is served, and more are declared: with another voter the change goes without a gap. It waits until one was added, which is not possible now.", "Bring the missing node back, or declare another one: `ckecli replace NODE NEW`. To go on with a gap of some seconds: `ckecli cluster apply`."},
		{CodeSchema, "The store is of a newer cke", "The store has a schema that this cke does not know: somebody raised it with a newer one. An older cke would do harm with what is stored there, so it leads no cluster and writes nothing. Members keep serving.", "Install the version of cke that the other management hosts have. `ckecli store schema` shows who knows which schema."},
		{CodeUnreachable, "Node unreachable", "The node's sshd did not answer in time. An unreachable node may hold data: nothing is decided against it. If the machine is gone for good, `ckecli replace NODE` gives its member up, and `ckecli replace NODE NEW` moves it to another declared node; while the cluster is still being founded, the node is taken out of the cluster file.", "Check power, network and sshd of the node; cke goes on by itself once it answers. If it is gone for good: `ckecli replace NODE`."},
		{CodeSSHAuth, "SSH login refused", "The node's sshd refused the key.", "Put cke's public key into the user's authorized_keys on the node, or set the right key with `ckecli ssh-key set`."},
		{CodeHostKey, "Host key changed", "The node shows another host key than the pinned one: another machine, a reinstalled one, or an attack.", "If the change is intended: `ckecli node accept-key NODE`; where the cluster file has the node's `host_key`, write the new one there."},
		{CodeEngine, "Docker engine does not answer", "SSH works, but the Docker engine behind it does not answer.", "On the node: `systemctl status docker`; restart it if it hangs."},
		{CodeForward, "Socket forwarding refused", "sshd refused to forward to the Docker socket: it is missing, forbidden for this key, or not readable by the user.", "On the node: check that /var/run/docker.sock exists, the user may open it, and the key's line allows port forwarding."},
		{CodeSSHKey, "Unusable SSH key", "The SSH private key cannot be used, for example because a passphrase protects it.", "Set a key without passphrase: `ckecli ssh-key set FILE`."},
		{CodeDiskFull, "No room on the node's disk", "The engine could not write: no space left on device.", "Free space under the engine's data directory (`docker system df`), or under `volume_root` where the cluster file has one; cke goes on by itself."},
		{CodePortTaken, "etcd port taken", "Something listens on the client or peer port that etcd is to use, and it is no container of this cluster.", "Find it on the node with `ss -ltnp`, stop it, or choose other ports in the cluster file."},
		{CodeForeignEtcd, "Foreign etcd on the node", "An etcd container that cke did not make is on the node: it runs, its engine may start it, or nothing was founded yet and it may hold data.", "Remove it, or take the node out of the cluster file. cke stops what it did not make only for `ckecli etcd adopt`."},
		{CodeLeftover, "Leftover data of this cluster", "The node has a volume or container of a cluster of this name, from another life. It may hold data that somebody wants.", "If it is not needed: remove the container and the volume on the node with docker. If it may be: copy it away first, cke never goes on from it."},
		{CodeImage, "Image not available", "The etcd image is not on the node, in no archive on the management host, and could not be pulled.", "Put `docker save` output of the image into images.archive_dir, or make the registry reachable from the node."},
		{CodeEtcdExited, "etcd stopped", "The etcd process of a member ended; its last words are quoted.", "cke starts it again on its own data; if it keeps ending, the quoted words say why. \"invalid downgrade\": the store is older than an upgrade of the cluster; declare the version that the members ran last. If its data is damaged and the others serve: `ckecli replace NODE`."},
		{CodeDataMissing, "A member's data is gone", "The node and its engine answer, and the member's volume is missing or holds no write-ahead log. A member is never started empty under its old id.", "Bring the volume back, or have a fresh member take its place: `ckecli replace NODE`. With `policies.replace: {mode: auto}` cke does that by itself after the grace. The last member of a cluster is brought back with `ckecli restore`."},
		{CodeNoSSHKey, "No SSH key", "cke has no key to log in to the node with.", "`ckecli ssh-key set FILE`"},
		{CodeMemberSilent, "Member does not answer", "The container runs, but etcd does not answer its client port.", "Read the container's log; check the firewall between the management host and the client port."},
		{CodeCertificates, "Certificates do not hold", "The certificate files of a member have ended, begin later, or are damaged: it can prove to nobody who it is. cke writes new ones, whether the member runs or not.", "Nothing is to be done unless the error says so; the last errors say what keeps them from being renewed."},
		{CodeClock, "Clocks differ", "The clock of the daemon's host, or that of a node, differs from the others by more than ten minutes. While it is the daemon's, nothing is done that depends on the time: no certificate is issued, no volume removed, no data given up after a grace, no maintenance window opened.", "Set the clock of the host named right, and see that it stays so (chronyc tracking, timedatectl); cke goes on by itself."},
		{CodeSlowLearner, "Learner does not catch up", "A new member receives what the others write, and has not caught up with them for an hour. It is waited for as long as it comes further, and every other change waits with it.", "Look for a slow disk or a slow line of its node, or for clients that write more than it can take. `ckecli replace NODE` tries another one; taking the node out of the cluster file gives it up."},
		{CodeCouldFound, "Container could start its member empty", "An earlier version of cke bootstrapped the cluster, and a member still runs in the container of its first start. If its data were removed, the Docker engine could start it empty under its member id, and acknowledged writes could be lost. cke restarts it in another container as soon as all members are healthy.", "Bring the members back that are named as unhealthy. Until then, do not remove data on the node named."},
		{CodeMisnamed, "Hostname of another machine", "The cluster file gives a hostname to one machine while the member of that name runs on another one, or a machine carries the volume of another one's member. A command that names such a node could stop the wrong machine, so it is refused.", "Give each machine its hostname back in the cluster file (`ckecli cluster edit`). Machines that exchange their addresses do so one after the other, with an address between that nobody has."},
		{CodeAnswer, "Answer cannot be used", "What a node's Docker engine or its etcd member answered is malformed, is larger than cke takes, or made cke fail. It is a problem of this node alone: nothing is concluded from the answer.", "Check what answers on the node: the engine's version and its log, and whether something stands between it and cke. If cke itself failed, its log has the stack, which is worth reporting."},
		{CodeLearnersFail, "New members do not start to vote", "Members that were added on this node, one after the other, never became voters and were withdrawn. Their volumes are removed, and the next one is tried after a pause that grows up to an hour.", "`ckecli history` shows how each attempt ended: an argument that etcd does not take, a firewall on the peer port, a full disk. Once the cause is gone, `ckecli replace NODE` tries again at once."},
		{CodeDiscarded, "Engine does not apply what was asked", "The container was created with a limit that its engine did not keep, as an engine does on a kernel without the memory cgroup. Restarting the member would change nothing, so it continues to run.", "On the node: `docker info` warns about limits that the kernel does not support; enable them, or remove the limit from `options.etcd.resources`. `ckecli replace NODE` then starts a member with the limit."},
		{CodeRepeats, "Operation is needed again", "An operation completed, and the same operation is needed again for the same reason: it had no lasting effect. It counts as failed, and is repeated after a pause that grows.", "The message says what is still different; `ckecli history ID` shows what each step did. Something on the node undoes it: another tool, a person, or the engine."},
		{CodeNotStored, "Not everything can be stored before a restore", "A restore replaces a cluster that serves, and its plan said that everything which is acknowledged until the members stop will be stored in the backups first. The target does not take it, or the cluster lost its quorum, so the restore was called off and the cluster continues as it was.", "Correct what the error names and restore again. Or give up what is in no backup: `ckecli restore` shows a new plan, which says that nothing can be stored and how far the backups reach."},
		{CodeAboveQuota, "Restored database above the quota", "The database that a restore would make is as large as the quota of the members, or larger, so etcd would refuse the first write. It also holds history that the cluster itself had compacted. Nothing was changed.", "Declare a larger `--quota-backend-bytes` in `options.etcd.extra_args` (the error names one that leaves room) and restore again. After the restore that history is compacted, and `ckecli etcd defrag` frees its room."},
		{CodeOptions, "Options do not work on a node", "Before a member is restarted with other options, a container with the new image, arguments, environment and mounts is tried on its node, without the member's data and without a network. It did not start, or etcd refused a value; its words are quoted. The member was not stopped, and serves as before.", "Correct `options.etcd` in the cluster file: `ckecli cluster edit`, or `ckecli cluster rollback`. If a directory to mount is missing, make it on the node."},
		{CodeBlankNodes, "All nodes are blank", "The cluster was formed, but no node holds any of its data any more. A second cluster is never bootstrapped under the same name.", "Bring the nodes or their disks back, or restore from a backup: `ckecli restore`. If there is no backup, and an empty cluster will do: `ckecli cluster delete NAME`, then `ckecli cluster set FILE`."},
		{CodeSplitBrain, "Two clusters under one name", "Members answer with a cluster id other than the one on record, or members of one id serve without each other: two clusters carry this name. Everything is frozen.", "`ckecli cluster evidence` shows what each member answered. Find out which data is right. Stop the members with the wrong data, or switch their machines off, and keep their volumes. While the right ones serve: `ckecli cluster unfreeze NAME --reason TEXT`; then `ckecli replace` the nodes of the others. Members that were stopped so are not started again."},
		{CodeNoQuorum, "Quorum lost", "Fewer members answer than quorum needs. Known members are started on their own data; nothing else is changed.", "Bring nodes back; what is missing is listed. Only if so many members are gone for good that there can never be a quorum again, as 2 of 3 or 3 of 5: `ckecli recover` goes on from one that is left; with none left, `ckecli restore`."},
		{CodeFounderGap, "Bootstrap waits for a founder", "A bootstrap began and a founding node is not available now. It resumes with the same identity.", "Bring the node back, or take it out of the cluster file: the bootstrap is then abandoned and begun again, no client has been served."},
		{CodeNotApplied, "Not as declared", "The running cluster differs from the cluster file in its members or options.", "`ckecli status` names each difference."},
		{CodeUnequalData, "Members hold different data", "Members differ in the hash of their data at one revision, or etcd itself raised the alarm CORRUPT. Everything is frozen: what is done to the wrong member destroys the right data.", "`ckecli cluster evidence` shows which members differ. Save a snapshot of each (`etcdctl snapshot save`): cke takes no backups meanwhile. Find the member that is wrong, keep its volume; then `ckecli cluster unfreeze NAME --reason TEXT` and `ckecli replace NODE`."},
		{CodeStranger, "Member that cke does not know", "The member list holds a member that cke never added. It counts in the quorum, so it is told, and left alone while policies.foreign is hold.", "On a declared control-plane node `ckecli etcd adopt NODE` puts a member of cke's in its place. Else remove it with etcdctl, or set policies.foreign: remove."},
		{CodeNoSpace, "Database is full", "A member's database has reached its quota. etcd raised the alarm NOSPACE: the cluster reads and deletes, and takes no other write.", "Where defragmenting frees room cke does it and takes the alarm back. Else delete keys and compact, or raise --quota-backend-bytes in options.etcd.extra_args."},
		{CodeFrozen, "Cluster is frozen", "Something was found that only a person can judge: two cluster ids, the alarm CORRUPT, or members with different data. Nothing is changed until it is lifted.", "`ckecli cluster evidence` shows what was found; `ckecli cluster unfreeze NAME --reason TEXT` lifts it."},
		{CodeVolume, "Volume is not removed", "The volume belongs to a present member, to somebody else, or the cluster is not well enough to do without it.", "`ckecli volume list` says what each volume belongs to; `ckecli status` what the cluster lacks."},
		{CodeFence, "Cannot be fenced", "A restore replaces a cluster, whose members must not run any more then. A node that does not answer may go on running one; enough of them could go on serving the cluster as it was, beside the restored one.", "Bring the nodes named back. A node that does not answer can be left out with --without NODE as long as those left out could have no quorum; a machine that is switched off or wiped for good is named with --destroyed NODE."},
		{CodeAwaiting, "Waits to be restored", "The cluster was declared to be restored from backups, and nothing was restored yet. An empty cluster is never bootstrapped in its place.", "`ckecli restore --from TARGET`; or `ckecli cluster delete NAME`, to give it up."},
		{CodeWentBack, "The cluster's data went back", "A member serves a lower revision, or is in a lower raft term, than members of the same cluster had served before: committed writes are gone. A disk was put back to an earlier state, or members were started without their data. Everything is frozen: another member may still have what is missing.", "Stop what was started on old data, and keep all data directories. `ckecli cluster evidence` shows what was seen. If a member that is down has the missing writes, `ckecli recover` goes on from it; if the other members have them, stop the wrong one, `ckecli cluster unfreeze NAME --reason TEXT` while the others serve, and `ckecli replace` its node; else restore from a backup, or accept the loss: `ckecli cluster unfreeze NAME --reason TEXT`."},
		{CodeOlderStore, "The store is older than the cluster", "Nodes carry memberships of this cluster that the store does not have, although each is on record before anything is made for it, or members vote at other addresses or ports than are on record: the store was brought back from an older copy. The cluster is frozen, and members that are not on record are never stopped.", "Bring back a newer copy of the store if there is one. Else store the newest cluster file, and put the memberships on record again: `ckecli cluster reclaim NAME`."},
		{CodeNotOnRecord, "Not on record", "A container or volume on a node carries this cluster's name and a membership that the store does not have. A cluster of the same name in another store may own it, or a cluster of this name that was deleted; or a volume is from before a restore, of a membership that an older copy of the store did not have. It is reported, and never touched; no member is added beside such a container.", "Find out who owns it. If another cke does: give one of the clusters another name, or take the node out of one of the files. If nobody needs it: stop and remove the container on the node; `ckecli volume purge VOLUME` removes a volume."},
		{CodeUnseen, "Cluster cannot be seen", "So many members do not answer, and their nodes neither, that they could form a quorum among themselves. They may serve all clients: an answer that does not arrive says nothing about them. Nothing is changed.", "Check the network between the management host and the nodes, and whether clients are served. If the machines are down, bring them back. Only if so many members are gone for good that there can never be a quorum again, as 2 of 3 or 3 of 5: `ckecli recover`."},
		{CodeAuth, "etcd's authentication refuses cke", "Authentication is on in etcd, and the user cke is missing or has not the role root. The cluster serves its clients; cke can change no member, compare no data and take no snapshot.", "With a user that has the role root: `etcdctl user add cke --no-password` and `etcdctl user grant-role cke root`; or `etcdctl auth disable`. `ckecli etcd auth enable` sets up this user before it turns authentication on."},
		{CodeNoWrites, "Writes are stopped", "For a restore cke stopped the writes of the cluster that is replaced, right before it stops the members: etcd refuses every change with `etcdserver: corrupt cluster`, and still answers reads. No data is corrupt. It lasts for a second or two; if the restore does not continue, cke lets clients write again by itself.", "If it lasts: `ckecli status` shows what cke waits for, and `ckecli restore --cancel` calls the restore off. Without cke: `etcdctl alarm disarm`."},
		{CodeAuthority, "A certificate authority ends", "A certificate authority that members trust ends within half a year. What it signed ends with it: members no longer know each other (peer), clients no longer trust members (server), or members refuse all clients and cke itself (client).", "`ckecli ca rotate NAME` replaces it while the cluster serves. For server and client every client needs a change first, so begin early."},
		{CodeBackupDamaged, "Backup damaged", "An object of a backup is missing, cut short, altered or under another object's name. Nothing was written from it; the error names the object and the last revision that can be restored in spite of it.", "Restore from another copy of the backups if there is one. Else `ckecli backup extract OUT --allow-partial` goes as far as the last good revision, and so does `ckecli restore --revision N`. Where only the hash is another, the data of the member that gave it may be what was wrong: `--ignore-hash` restores what was asked for if all full backups that lead there agree on it. Take a new full backup soon: `ckecli backup now`."},
		{CodeNotCovered, "Not covered by any backup", "Backups are there, and none reaches the revision or the time asked for, or the time stands for more than one revision.", "`ckecli backup list` shows what can be restored; ask for a revision or a time in these ranges."},
		{CodeBackupKey, "No key opens the backup", "The backup is encrypted, and no age identity was given, or none that opens it.", "Give the file with the private key that belongs to one of the recipients: --key FILE, several times if need be."},
		{CodeBackupEmpty, "No full backup", "The target answers, and holds no full backup of what was asked for. Deltas alone cannot be restored.", "Check the target's URL and the cluster's name; `ckecli backup list --target URL` shows all that is there."},
		{CodeTarget, "Backup target does not answer", "The place where backups are kept cannot be opened, listed, read or written. The cause says why.", "Check the URL, the network, and the credentials: those of the environment, of --credentials, or those in the store (`ckecli backup credentials list`)."},
		{CodeBackupRefused, "Not done to backups", "What was asked for would leave nothing to restore from, replace something, or make encrypted data readable; or there is no rule that says what to delete.", "The facts say what is missing. Deleting the only full backup of a lineage, or of its newest state, needs --force."},
		{CodeNoBackup, "No such backup", "The target has no full backup of this id.", "`ckecli backup list -o name` lists the ids."},
		{CodeNotBackedUp, "No backups are taken", "The cluster file declares no backup target, or the cluster is in no state to be backed up: not formed, frozen, hibernated or being deleted.", "Declare `backup: {target: …}` in the cluster file (`ckecli cluster edit`), or end what the message names."},
		{CodeStaleBackup, "No fresh backup", "The target holds no unbroken way to what the cluster held a short time ago: it takes nothing, changes are missing, or there is no full yet. A change that ought to be preceded by a backup waits.", "`ckecli status` says what is wrong with the backups; correct that. If the change cannot wait, take the backup section out of the cluster file meanwhile."},
		{CodeNotBooted, "No etcd started on the restored backup", "A backup was restored to scratch and its data compared, and the etcd that was to be started on it could not be: this host has it and it did not start, its disk or memory did not suffice, the image that was named is not there or of another version, or the backup does not tell its version. That says nothing against the backup, and it does not count as verified.", "The message says what is in the way. Name an image that the Docker engine of this host has, `ckecli backup verify --restore --image IMAGE`, or verify on another host."},
		{CodeOtherHistory, "Another history than that of the backups", "The cluster's history is another one than the one that was backed up, as after a restore by other means than cke: its revision or its log went back, or its changes of one revision are others than those in the backups. The two must not become one chain, so nothing is backed up. That is recorded in the target (`diverged/`) and does not pass when the cluster overtakes its backups. Where backups are signed, only signed ones count for this.", "Find out who restored the cluster. To go back to what the backups hold: `ckecli restore`. To keep what the cluster holds now: declare another `backup.target` (a new directory or prefix), where backups begin anew; keep the old ones as long as they may be needed."},
		{CodeBackupsBusy, "Backups are in use", "Another process reads or deletes backups of this cluster: a restore, a copy, a prune. Deleting waits for it, so that no restore loses what it reads. The message names the process and since when.", "Wait until it has ended and repeat the command. A process that was killed is waited for no longer than a minute and a half."},
		{CodeOtherTarget, "Another backup target", "The target answers, and it lacks the marker that it got when it was used first: it was emptied, its file system is not mounted, or another one answers at its URL. Nothing is written to it.", "Mount the file system, or correct the URL (`ckecli cluster edit`). If the target was emptied on purpose, create the empty object that the message names in it, or declare another URL; backups begin again with a full."},
		{CodeUntrusted, "Not signed by a trusted key", "An object of a backup, or what lies beside backups, is not signed by the key that follows from the key file of the management hosts, where it has to be: somebody else may have written it. Nothing was written from it.", "If another management host wrote it, give its signing key with --trust KEY; a key file that --key lends only opens what is encrypted. Else restore a state before it (the error names the last good revision) and find out who can write to the target. `--trust any` accepts what anybody wrote: who wrote it owns the restored cluster and, by way of its images and binds, its nodes."},
		{CodeBackupFault, "cke failed while backing up", "A fault in cke ended some of the work on the backups of this cluster: `ckecli status` names which. It is tried again, after a pause that grows; the members and the other clusters are not affected.", "The daemon's log has the stack, which is worth reporting. If it is one object of the target that makes cke fail, `ckecli backup verify` names it; another `backup.target` in the cluster file starts with a full backup of its own."},
		{CodeLostBackups, "Backups are missing from the target", "Backups that the daemon had stored are not in the target any more: it was emptied, an older state of it was brought back, or somebody deleted them. cke reads the target again and takes a full backup, which ends this problem.", "Find out who or what deleted them. What the cluster holds now is stored again with the next full; earlier states can be restored only from what is left (`ckecli backup list`, `ckecli backup verify`) or from a copy of the target."},
		{CodeOverwrites, "Backup target overwrites objects", "The target took an object under a name that is taken: it does not honor the condition `If-None-Match: *`. Backups are taken all the same. A second daemon that takes itself for the leader, or anybody who can write to the target, could replace backups there.", "Use a target, or a version of its server, that honors the condition."},
	}
}

// WayOut is what to do about a code; "" where it has no explanation of its own.
func WayOut(code Code) string {
	for _, e := range Explain() {
		if e.Code == code && code != CodeInternal {
			return e.WayOut
		}
	}
	return ""
}
