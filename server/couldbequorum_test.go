package server

var CouldBeQuorum = couldBeQuorum
