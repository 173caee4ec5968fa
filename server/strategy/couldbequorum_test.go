package strategy

var CouldBeQuorum = couldBeQuorum
