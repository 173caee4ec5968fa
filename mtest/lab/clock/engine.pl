# Listens in place of the engine's socket, and dates the engine's answers by a clock that is ahead by so many seconds; nothing else of them
# changes. On TERM the engine has its socket back.
use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;
use POSIX qw(setsid strftime);

my $ahead = shift;
my ($path, $engine, $pid_file) = ("/run/docker.sock", "/run/docker.sock.engine", "/run/lab-clock.pid");
my (undef, undef, $mode, undef, $owner, $group) = stat $path or die "no socket of the engine: $!";
rename $path, $engine or die "$path: $!";
my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 64) or die "listen: $!";
chown $owner, $group, $path;
chmod $mode & 07777, $path;
my $mine = (stat $path)[1];
$SIG{CHLD} = "IGNORE";
$SIG{TERM} = sub {
	my $now = (stat $path)[1]; # an engine that started meanwhile has made another one
	defined $now && $now == $mine ? rename $engine, $path : unlink $engine;
	unlink $pid_file;
	$SIG{TERM} = "IGNORE";
	kill TERM => -$$;
	exit;
};
if (my $pid = fork) { # it listens, and can be ended
	open my $file, ">", $pid_file or die "$pid_file: $!";
	print $file "$pid\n";
	exit;
}
setsid;
open $_, "+<", "/dev/null" for *STDIN, *STDOUT, *STDERR;
while (1) {
	my $client = $listener->accept or next;
	relay($client) unless fork;
}

sub relay {
	my $client = shift;
	$SIG{TERM} = "DEFAULT";
	close $listener;
	my $server = IO::Socket::UNIX->new(Peer => $engine) or exit;
	my $open = IO::Select->new($client, $server);
	while ($open->count) {
		for my $from ($open->can_read) {
			my $to = $from == $client ? $server : $client;
			my $data;
			if (!sysread $from, $data, 65536) {
				$open->remove($from);
				shutdown $to, 1;
				next;
			}
			if ($from == $server) {
				my $date = strftime "%a, %d %b %Y %H:%M:%S GMT", gmtime time + $ahead;
				$data =~ s/\A(HTTP\/1\.\d \d{3} (?:(?!\r\n\r\n).)*?\r\nDate: )[^\r]+/$1$date/s;
			}
			for (my $at = 0; $at < length $data;) {
				$at += syswrite($to, $data, length($data) - $at, $at) // exit;
			}
		}
	}
	exit;
}
