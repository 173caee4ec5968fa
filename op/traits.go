package op

import (
	"slices"

	"cke"
)

// Traits are what the strategy must know of a kind of operation. Each kind declares its own in this file: the
// compiler requires those of a new one.
type Traits struct {
	// NeedsClock: it writes something that is valid until a time, as certificates are. What brings members back does
	// not.
	NeedsClock bool
	// Risky: it starts members, or lets members take data from others. They are compared after it.
	Risky bool
	// Starts: it starts members that ran before.
	Starts bool
	// Idle: it only observes or records.
	Idle bool
	// Repeat is how soon it is repeated after it completed, if it is chosen again for the same reason.
	Repeat Repeat
}

// Repeat is how long a completed operation is held back before it is repeated.
type Repeat int

// How soon. Members that stopped are started again soon, however often they stop; what only observes or records, or
// has a delay of its own, is not held back.
const (
	RepeatUsual Repeat = iota
	RepeatSoon
	RepeatLate
	RepeatFree
)

// Traits implements Operation, for each of them.

func (AbandonBootstrap) Traits() Traits  { return Traits{} }
func (CleanUp) Traits() Traits           { return Traits{} }
func (AddMember) Traits() Traits         { return Traits{NeedsClock: true, Risky: true} }
func (ChangeAddress) Traits() Traits     { return Traits{NeedsClock: true, Risky: true} }
func (AdoptMember) Traits() Traits       { return Traits{} }
func (AllowWrites) Traits() Traits       { return Traits{Repeat: RepeatFree} }
func (SetAuth) Traits() Traits           { return Traits{} }
func (ChangeUser) Traits() Traits        { return Traits{} }
func (RotateAuthority) Traits() Traits   { return Traits{NeedsClock: true} }
func (AdvanceAuthority) Traits() Traits  { return Traits{} }
func (Backup) Traits() Traits            { return Traits{Idle: true, Repeat: RepeatFree} }
func (BeginRestore) Traits() Traits      { return Traits{NeedsClock: true} }
func (b Bootstrap) Traits() Traits       { return Traits{NeedsClock: !b.Resume} } // from its start on no certificate is issued
func (RenewCertificates) Traits() Traits { return Traits{NeedsClock: true} }
func (CompareData) Traits() Traits       { return Traits{Idle: true, Repeat: RepeatFree} }
func (Defragment) Traits() Traits        { return Traits{Repeat: RepeatFree} }
func (DeleteCluster) Traits() Traits     { return Traits{} }
func (Disarm) Traits() Traits            { return Traits{} }
func (DrainNode) Traits() Traits         { return Traits{} }
func (LeaseEntry) Traits() Traits        { return Traits{} }
func (RunEntry) Traits() Traits          { return Traits{Repeat: RepeatFree} }
func (NoteEntry) Traits() Traits         { return Traits{Idle: true, Repeat: RepeatFree} }
func (CancelRestore) Traits() Traits     { return Traits{} }
func (Freeze) Traits() Traits            { return Traits{Repeat: RepeatFree} }
func (Unfreeze) Traits() Traits          { return Traits{} }
func (EndImport) Traits() Traits         { return Traits{Idle: true} }
func (TurnImport) Traits() Traits        { return Traits{} }
func (EndFinding) Traits() Traits        { return Traits{Idle: true, Repeat: RepeatFree} }
func (Hibernate) Traits() Traits         { return Traits{} }
func (KeepRunning) Traits() Traits       { return Traits{Repeat: RepeatSoon} }
func (MarkEnded) Traits() Traits         { return Traits{Idle: true} }
func (MoveLeader) Traits() Traits        { return Traits{} }
func (WithdrawStart) Traits() Traits     { return Traits{} }
func (NoteReturned) Traits() Traits      { return Traits{Idle: true, Repeat: RepeatFree} }
func (PromoteMember) Traits() Traits     { return Traits{Risky: true} }
func (Reclaim) Traits() Traits           { return Traits{} }
func (RecordStart) Traits() Traits       { return Traits{} }
func (Refuse) Traits() Traits            { return Traits{Idle: true, Repeat: RepeatFree} }
func (Settled) Traits() Traits           { return Traits{Idle: true, Repeat: RepeatFree} }
func (RemoveMember) Traits() Traits      { return Traits{Repeat: RepeatLate} }
func (EndMembership) Traits() Traits     { return Traits{} }
func (StopApart) Traits() Traits         { return Traits{} }
func (StopStray) Traits() Traits         { return Traits{} }
func (RestartMember) Traits() Traits     { return Traits{Risky: true, Starts: true, Repeat: RepeatLate} }
func (r Restore) Traits() Traits         { return Traits{NeedsClock: !r.Started, Starts: r.Started} }
func (StartMembers) Traits() Traits      { return Traits{Risky: true, Starts: true, Repeat: RepeatSoon} }
func (StartChanged) Traits() Traits      { return Traits{Risky: true, Starts: true, Repeat: RepeatSoon} }
func (PurgeVolume) Traits() Traits       { return Traits{} }
func (UndeleteVolume) Traits() Traits    { return Traits{} }

// aRepair is an entry of the repair queue.
var aRepair = cke.Entry{On: "a fault"}

// kinds are a value of each kind whose name is in records for itself, and of each other name that a kind has.
var kinds = []Operation{
	AbandonBootstrap{}, CleanUp{}, AddMember{}, ChangeAddress{}, AdoptMember{}, AllowWrites{}, RotateAuthority{},
	AdvanceAuthority{}, Backup{}, Bootstrap{}, RenewCertificates{}, CompareData{}, Defragment{}, DeleteCluster{},
	Disarm{}, DrainNode{}, LeaseEntry{}, RunEntry{}, NoteEntry{}, CancelRestore{}, Freeze{}, Unfreeze{}, EndFinding{}, Hibernate{}, KeepRunning{},
	MarkEnded{}, MoveLeader{}, NoteReturned{}, PromoteMember{}, Reclaim{}, RecordStart{}, RemoveMember{}, EndMembership{}, StopApart{}, StopStray{},
	EndImport{}, TurnImport{}, TurnImport{Revert: true}, RestartMember{}, Restore{}, StartMembers{}, StartChanged{}, WithdrawStart{}, PurgeVolume{}, UndeleteVolume{},
	Bootstrap{Resume: true}, Restore{Started: true}, LeaseEntry{Entry: aRepair}, RunEntry{Entry: aRepair}, NoteEntry{Entry: aRepair}, SetAuth{}, SetAuth{On: true}, ChangeUser{},
	BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{}}}, BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{Survivor: "one"}}},
}

// Names returns the names that operations have in records, sorted. One that refuses a task has the name of its kind instead.
func Names() []string {
	var names []string
	for _, o := range kinds {
		names = append(names, o.Name())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OfName returns the traits of the operation that a record or a failure names; the zero value for an unknown name.
func OfName(name string) Traits {
	for _, o := range kinds {
		if o.Name() == name {
			return o.Traits()
		}
	}
	return Traits{}
}
