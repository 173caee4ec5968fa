#!/usr/bin/env bash
# Builds dist/: deb and rpm packages of cke for each architecture, an SBOM of each, and SHA256SUMS. The files depend only
# on the source, the version of Go, and these variables:
#   VERSION            version of the packages and programs; default: of the tag, or of the time of the commit
#   SOURCE_DATE_EPOCH  time of everything in the packages; default: of the commit
#   MAINTAINER         name and mail address of the one who publishes them
#   ARCHS              architectures; default: amd64 arm64
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC
go=${GO:-go}

# version_of_commit is 1.2.3 for the tag v1.2.3, and 1.2.3+4.gabc 4 commits after it. A later commit has a later version.
version_of_commit() {
  local tagged dirty=
  git diff --quiet HEAD 2>/dev/null || dirty=.dirty
  if tagged=$(git describe --tags --match 'v[0-9]*.[0-9]*.[0-9]*' 2>/dev/null); then
    tagged=${tagged#v}
    tagged=${tagged/-/+}
    echo "${tagged//-/.}$dirty"
  else
    echo "0.0.0+$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).g$(git rev-parse --short=12 HEAD)$dirty"
  fi
}

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export VERSION=${VERSION:-$(version_of_commit)}
export MAINTAINER=${MAINTAINER:-maintainers of cke <maintainers@cke.invalid>}
archs=${ARCHS:-amd64 arm64}
export STAGE=dist/stage

# build ARCH DIRECTORY PROGRAM…
build() {
  CGO_ENABLED=0 GOOS=linux GOARCH=$1 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFLAGS=-buildvcs=false \
    make --no-print-directory build GO="$go" VERSION="$VERSION" BIN="$2" PROGRAMS="${*:3}"
}

rm -rf dist
mkdir -p "$STAGE"/{man1,man8,doc/examples}
for arch in $archs; do
  build "$arch" "$STAGE/$arch" cke ckecli cke-probe
  "$go" run ./internal/sbom -version "$VERSION" "$STAGE/$arch"/{cke,ckecli,cke-probe} > "$STAGE/$arch/sbom.cdx.json"
  cp "$STAGE/$arch/sbom.cdx.json" "dist/cke_${VERSION}_$arch.cdx.json"
done

# The programs describe themselves.
host=$("$go" env GOHOSTARCH)
[ -d "$STAGE/$host" ] || build "$host" "$STAGE/$host" cke ckecli
"$STAGE/$host/ckecli" man "$STAGE/man1"
"$STAGE/$host/cke" --man > "$STAGE/man8/cke.8"
gzip -9n "$STAGE"/man?/*
for shell in bash zsh fish; do
  "$STAGE/$host/ckecli" completion "$shell" > "$STAGE/ckecli.$shell"
done

cp packaging/cke.{service,sysusers,tmpfiles} packaging/lintian-overrides "$STAGE"
cp packaging/copyright README.md "$STAGE/doc"
cp -r docs "$STAGE/doc/docs"
# gather FOLDER makes one page of a folder of hundreds: its index, then the pages in its order. dpkg waits for the disk for each
# file that it installs.
gather() {
  (cd "$1" && {
    cat README.md
    grep -oE '^(- [0-9]+|\| [0-9]+ \|) \[[^]]*\]\([^)]*' README.md | sed 's/.*(//' | while read -r page; do
      echo
      awk '/^```/ { code = !code } /^#/ && !code { $0 = "#" $0 } { print }' "$page"
    done
  } > gathered && rm ./[0-9]*.md && mv gathered README.md && sed -i -E 's#\]\([0-9]+-[^)]*\.md#](README.md#g' README.md)
  # Links from elsewhere to one of its pages are links to the one page.
  find "$STAGE/doc" -name '*.md' -exec sed -i -E "s#(\]\([./a-z]*${1##*/}/)[0-9]+-[^)]*\.md#\1README.md#g" {} +
}
gather "$STAGE/doc/docs/changelog"
gather "$STAGE/doc/docs/decisions"
# example PAGE HEADING prints the first YAML of a page below a heading; every example is in the docs, which tests read.
example() { awk -v heading="$2" '$0 == heading { on = 1 } on && /^```$/ { exit } on && yaml { print } on && /^```yaml$/ { yaml = 1 }' "$1"; }
example docs/configuration.md '# The configuration file' > "$STAGE/doc/examples/config.yml"
example docs/cluster.md '## An example with everything' > "$STAGE/doc/examples/cluster.yml"
cat > "$STAGE/changelog.yaml" <<END
- semver: "$VERSION-1"
  date: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
  packager: $MAINTAINER
  deb: {urgency: medium, distributions: [stable]}
  changes:
    - note: "What changed is in /usr/share/doc/cke/docs/changelog."
END

find "$STAGE" -type d -exec chmod 755 {} +
find "$STAGE" -type f -exec chmod 644 {} +
for arch in $archs; do chmod 755 "$STAGE/$arch"/{cke,ckecli,cke-probe}; done
find "$STAGE" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

for arch in $archs; do
  for packager in deb rpm; do
    ARCH=$arch "$go" tool -modfile=tools.mod nfpm package --config packaging/nfpm.yaml --packager "$packager" --target dist/
  done
done
rm -r "$STAGE"
(cd dist && sha256sum -- * > SHA256SUMS)
echo "Built in dist/:" >&2
cat dist/SHA256SUMS
