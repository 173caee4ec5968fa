package op

import "cke"

// Traits are what the strategy has to know of a kind of operation. Each kind names its own in this file: the compiler asks for those of a
// new one.
type Traits struct {
	// NeedsClock: it writes something down that lasts until a time, as certificates do. What brings members back does not.
	NeedsClock bool
	// Risky: it starts members, or lets members take data from others. They are compared after it.
	Risky bool
	// Starts: it starts members that ran before.
	Starts bool
	// Idle: it only looks or records.
	Idle bool
	// Repeat is how soon it is done again where it completed, and is wanted again for the same reason.
	Repeat Repeat
}

// Repeat says how long an operation that completed is held back where it is wanted again.
type Repeat int

// How soon. Members that stopped are started again soon, however often they stop; what only looks or records, or has a pause of its own,
// is not held back.
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
func (CancelRestore) Traits() Traits     { return Traits{} }
func (Freeze) Traits() Traits            { return Traits{Repeat: RepeatFree} }
func (Unfreeze) Traits() Traits          { return Traits{} }
func (EndFinding) Traits() Traits        { return Traits{Idle: true, Repeat: RepeatFree} }
func (Hibernate) Traits() Traits         { return Traits{} }
func (KeepRunning) Traits() Traits       { return Traits{Repeat: RepeatSoon} }
func (MoveLeader) Traits() Traits        { return Traits{} }
func (PromoteMember) Traits() Traits     { return Traits{Risky: true} }
func (Reclaim) Traits() Traits           { return Traits{} }
func (RecordStart) Traits() Traits       { return Traits{} }
func (Refuse) Traits() Traits            { return Traits{Idle: true, Repeat: RepeatFree} }
func (Settled) Traits() Traits           { return Traits{Idle: true, Repeat: RepeatFree} }
func (RemoveMember) Traits() Traits      { return Traits{Repeat: RepeatLate} }
func (EndMembership) Traits() Traits     { return Traits{} }
func (StopStray) Traits() Traits         { return Traits{} }
func (RestartMember) Traits() Traits     { return Traits{Risky: true, Starts: true, Repeat: RepeatLate} }
func (r Restore) Traits() Traits         { return Traits{NeedsClock: !r.Started, Starts: r.Started} }
func (StartMembers) Traits() Traits      { return Traits{Risky: true, Starts: true, Repeat: RepeatSoon} }
func (StartChanged) Traits() Traits      { return Traits{Risky: true, Starts: true, Repeat: RepeatSoon} }
func (PurgeVolume) Traits() Traits       { return Traits{} }
func (UndeleteVolume) Traits() Traits    { return Traits{} }

// kinds are a value of each kind whose name stands in records for itself, and of each other name that a kind has.
var kinds = []Operation{
	AbandonBootstrap{}, CleanUp{}, AddMember{}, ChangeAddress{}, AdoptMember{}, AllowWrites{}, RotateAuthority{},
	AdvanceAuthority{}, Backup{}, Bootstrap{}, RenewCertificates{}, CompareData{}, Defragment{}, DeleteCluster{},
	Disarm{}, DrainNode{}, CancelRestore{}, Freeze{}, Unfreeze{}, EndFinding{}, Hibernate{}, KeepRunning{},
	MoveLeader{}, PromoteMember{}, Reclaim{}, RecordStart{}, RemoveMember{}, EndMembership{}, StopStray{},
	RestartMember{}, Restore{}, StartMembers{}, StartChanged{}, PurgeVolume{}, UndeleteVolume{},
	Bootstrap{Resume: true}, Restore{Started: true}, SetAuth{}, SetAuth{On: true},
	BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{}}}, BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{Survivor: "one"}}},
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
