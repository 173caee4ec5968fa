package mtest_test

import "runtime"

// lifeOfRPM is that of an rpm. The host is a Debian with the program rpm: what packages depend on is not in its database. The scripts run as
// on any host with systemd. As Debian's systemd has no presets, the service is enabled when it is installed.
func (i installed) lifeOfRPM(earlier string) {
	i.bring("rpm", map[string]string{"amd64": ".x86_64.rpm", "arm64": ".aarch64.rpm"}[runtime.GOARCH], earlier)
	i.run("rpm -K --nosignature /root/present.rpm")
	i.is("id cke 2>/dev/null || true", "")

	i.run("rpm -i --nodeps /root/earlier.rpm")
	i.is("systemctl is-active cke || true; systemctl is-enabled cke", "inactive\nenabled") // dnf starts nothing
	i.run("systemctl enable --now cke")
	i.firstStart()
	i.is("getent passwd cke | cut -d: -f6,7", "/var/lib/cke:/usr/sbin/nologin")
	i.bootstrap()
	before := i.members()

	pid := i.run("systemctl show -P MainPID cke")
	i.upgrade("/root/present.rpm")
	i.leads(before)
	if now := i.run("systemctl show -P MainPID cke"); now == pid {
		i.Error("the daemon was not restarted with the new program")
	}
	i.is(`readlink "/proc/$(systemctl show -P MainPID cke)/exe"`, "/usr/bin/cke")
	i.upgrade("/root/earlier.rpm")
	i.leads(before)

	i.run("systemctl disable --now cke")
	i.upgrade("/root/present.rpm")
	i.is("systemctl is-active cke || true; systemctl is-enabled cke || true", "inactive\ndisabled") // an administrator stopped it
	i.run("systemctl enable --now cke")
	i.leads(before)

	i.run("rpm -e cke")
	i.isGone(before)
	i.is("ls -d /etc/systemd/system/multi-user.target.wants/cke.service 2>/dev/null || true; systemctl is-active cke || true", "inactive")
	i.is("id -un cke", "cke") // it owns the key and the store
	i.run("rpm -i --nodeps /root/present.rpm && systemctl start cke")
	i.leads(before)
}

// upgrade installs another version, newer or older, and compares each file with the header of the package.
func (i installed) upgrade(file string) {
	i.Helper()
	i.run("rpm -U --oldpackage --nodeps " + file + " && rpm -V --nodeps cke")
	i.is("rpm -q cke", i.run("rpm -qp "+file))
}
